/* SPDX-License-Identifier: Apache-2.0 */
/* run: one lane; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: resumes change lanes; spin: -DCHANGES; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: resumes change lanes behind an event; spin: -DCHANGES -DEVENT; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: what waits on the front stream is woken; spin: -DLTL; cc: -DCOLLAPSE -DNFAIR=3; pan: -a -f -m200000 -N woken */
/* run: woken, resumes change lanes; spin: -DLTL -DCHANGES -DEVENT; cc: -DCOLLAPSE -DNFAIR=3; pan: -a -f -m200000 -N woken */
/* run: MISTAKE launches go through the front stream; spin: -DTHROUGH_FRONT; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE another lane while submissions wait in the old one; spin: -DCHANGES -DAPART; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE order from the lane alone; spin: -DNO_CHAIN; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE the wait is for the submission, not the chain; spin: -DWAIT_FOR_SUBMISSION; cc: -DSAFETY; pan: -m200000; expect: errors 1 */

/*
 * Two kinds of raw streams. Users see the front stream: behind each of their launches it waits for the
 * chain word, so what they queue next, and every wait of CUDA's own, covers work that is held back or
 * preempted. Launches and resumes go through lanes behind it, so that a front stream parked in its wait
 * never holds up the launch that ends the wait. Resumes may change lanes.
 *
 * A submission is one step here: it finds its turn in the chain or falls through, runs to the end or
 * leaves early (as often as RAISES says). Asserted: launches run in order and never two at once, and
 * what the user queued behind launch N runs after it. As a formula: it does run.
 */
#ifndef LAUNCHES
#define LAUNCHES 2
#endif
#ifndef RAISES
#define RAISES 2
#endif
#ifdef CHANGES
#define LANES 2
#else
#define LANES 1
#endif

mtype = { submission, wait_chain, user_kernel };

byte chain;               /* last launch that is finished */
byte raises = RAISES;     /* that can still come */
chan front = [LAUNCHES * 2 + RAISES * 2] of { mtype, byte, byte };
chan lane[2] = [6] of { mtype, byte, byte };
byte published;           /* id of the last submission that entered and ended */
bool left_early;          /* and how it ended */
bool gone[12];            /* submissions that have ended, entered or not */
byte running;             /* submissions in their bodies */
byte user_ran;            /* user's kernels, one behind each launch */
bool all_run;

inline run_submission(n, number) {
  if
#ifdef NO_CHAIN
  :: true ->
#else
  :: chain == n - 1 ->
#endif
     atomic {
       running++;
       assert(running == 1);
       assert(chain == n - 1)
     };
     if
     :: raises > 0 ->
        atomic { raises--; running--; left_early = true; published = number }
     :: atomic { running--; chain = n; left_early = false; published = number }
     fi
#ifndef NO_CHAIN
  :: chain != n - 1
#endif
  fi;
  gone[number] = true
}

/* A stream of the device: one operation after another. */
proctype front_stream() {
  byte n, number;
end:
  do
  :: front ? wait_chain, n, number ->
#ifdef WAIT_FOR_SUBMISSION
     gone[n]
#else
     chain >= n
#endif
  :: front ? submission, n, number -> run_submission(n, number)
  :: front ? user_kernel, n, number ->
     atomic {
       assert(chain >= n);
       user_ran = n;
       all_run = (n == LAUNCHES)
     }
  od
}
proctype lane_stream(byte which) {
  byte n, number;
end:
  do
  :: lane[which] ? submission, n, number -> run_submission(n, number)
  od
}

/* The user queues everything at once and waits; the dispatcher submits and resumes. */
proctype host() {
  byte next = 1, oldest = 1, last, here, i;
  byte ids[LAUNCHES + 1];
  for (i : 1 .. LAUNCHES) {
#ifdef THROUGH_FRONT
    last++;
    ids[i] = last;
    front ! submission, i, last;
    next++;
#endif
    front ! wait_chain, i, 0;
    front ! user_kernel, i, 0
  };
  do
  :: oldest > LAUNCHES -> break
  :: oldest < next && published >= ids[oldest] && gone[ids[oldest]] ->
     if
     :: chain >= oldest -> oldest++
     :: else ->
        /* It left early: again, and all behind it, which fell through or will. */
#ifdef CHANGES
        if
        :: here = here
        :: true ->
#ifndef APART
#ifdef EVENT
           /* the new lane waits for all of the old one */
           gone[last];
#else
           /* only if nothing else is queued in the old one */
           if
           :: last == ids[oldest] -> skip
           :: else -> goto stay
           fi;
#endif
#endif
           here = 1 - here
        fi;
stay:
#endif
        next = oldest
     fi
  :: next <= LAUNCHES && next - oldest < 2 ->
     last++;
     ids[next] = last;
#ifdef THROUGH_FRONT
     front ! submission, next, last;
#else
     lane[here] ! submission, next, last;
#endif
     next++
  od;
  /* cudaStreamSynchronize of the front stream */
  all_run
}

init {
  byte i;
  atomic {
    for (i : 0 .. LANES - 1) { run lane_stream(i) };
    run front_stream();
    run host()
  }
}

#ifdef LTL
ltl woken { <> all_run }
#endif
