/* SPDX-License-Identifier: Apache-2.0 */
/* run: two sources; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: two sources, two requests each; spin: -DREQUESTS=2; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: a late copy of the gate; spin: -DCOPY; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: a launch leaves only if its epoch is over, and then it does; spin: -DLTL; cc: -DCOLLAPSE -DNFAIR=3; pan: -a -f -m200000 -N gives_way */
/* run: gives way through a late copy; spin: -DLTL -DCOPY; cc: -DCOLLAPSE -DNFAIR=3; pan: -a -f -m200000 -N gives_way */
/* run: MISTAKE idle checked before the epoch is sampled; spin: -DCHECK_FIRST; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE raised before the request is counted; spin: -DRAISE_FIRST; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE activity is a flag; spin: -DFLAG_ACTIVITY; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE submitted read before completed; spin: -DSUBMITTED_FIRST; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE the gate is a flag; spin: -DFLAG_GATE; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE the copy of the gate may go back; spin: -DLTL -DCOPY -DCOPY_BACK; cc: -DNFAIR=3; pan: -a -f -m200000 -N gives_way; expect: errors 1 */
/* run: MISTAKE epochs compared as plain numbers; spin: -DLTL -DPLAIN_COMPARE; cc: -DNFAIR=3; pan: -a -f -m200000 -N gives_way; expect: errors 1 */

/*
 * Who may be on the device while latency-critical work is in progress. Sources count a request,
 * raise the gate, work, and count it as completed. A dispatcher samples the epoch, checks that all is
 * idle, submits one endless best-effort launch, and submits it again when it has left.
 *
 * A launch beside a request that has raised the gate must carry an epoch that is over; a launch whose
 * epoch is over leaves; no launch leaves otherwise.
 */
#ifndef REQUESTS
#define REQUESTS 1
#endif
#define SOURCES 2

/* Epochs count modulo 16 and begin near the end of the range. */
#ifdef PLAIN_COMPARE
#define passed(now, epoch) ((now) > (epoch))
#else
#define passed(now, epoch) (((now) + 16 - (epoch)) % 16 >= 1 && ((now) + 16 - (epoch)) % 16 < 8)
#endif
#ifdef COPY
#define SEEN copy
#else
#define SEEN gate
#endif

#ifdef FLAG_GATE
byte gate, copy;
#else
byte gate = 15, copy = 15;
#endif
byte submitted, completed;
bool busy;                /* what a flag would say */
bool on_device, over;     /* a launch is there; its epoch is over */
byte epoch;
bool watched;             /* its watcher has seen enough */

/* What only the properties know. */
bool raised[SOURCES];     /* its request has raised the gate and is in progress */
byte to[SOURCES];         /* the epoch it raised the gate to */
byte quiet;               /* sources that are through */

inline begin_request() {
  submitted++;
  busy = true
}
inline raise_gate(i) {
  atomic {
#ifdef FLAG_GATE
    gate = 1;
#else
    gate = (gate + 1) % 16;
#endif
    to[i] = gate;
    raised[i] = true;
    if
    :: on_device -> over = true
    :: else
    fi
  }
}

proctype source(byte me) {
  byte i;
  for (i : 1 .. REQUESTS) {
#ifdef RAISE_FIRST
    raise_gate(me);
    begin_request();
#else
    begin_request();
    raise_gate(me);
#endif
    /* its kernels run */
    atomic {
      raised[me] = false;
      to[me] = 0
    };
#ifdef FLAG_GATE
    gate = 0;
#endif
    atomic {
      completed++;
      busy = false
    }
  };
  quiet++
}

proctype dispatcher() {
  byte sampled, first, second, i;
end:
  do
  :: !on_device ->
#ifndef CHECK_FIRST
     sampled = gate;
#endif
#ifdef SUBMITTED_FIRST
     first = submitted;
     second = completed;
#else
     first = completed;
     second = submitted;
#endif
     if
#ifdef FLAG_ACTIVITY
     :: busy
#else
     :: first != second
#endif
     :: else ->
#ifdef CHECK_FIRST
        sampled = gate;
#endif
        atomic {
          on_device = true;
          epoch = sampled;
          watched = false;
          over = passed(gate, epoch);
          for (i : 0 .. SOURCES - 1) {
#ifdef FLAG_GATE
            assert(!raised[i] || gate == 1)
#else
            assert(!raised[i] || passed(to[i], epoch))
#endif
          };
          i = 0
        }
     fi;
     sampled = 0; first = 0; second = 0
  od
}

proctype device() {
end:
  do
#ifdef FLAG_GATE
  :: on_device && gate == 1 -> atomic { on_device = false; over = false }
#else
  :: on_device && passed(SEEN, epoch) ->
     atomic {
       assert(over);
       on_device = false;
       over = false
     }
#endif
  od
}

#ifdef COPY
inline forward() {
  atomic {
    if
#ifdef COPY_BACK
    :: now != copy -> copy = now
#else
    :: passed(now, copy) -> copy = now
#endif
    :: else
    fi
  }
}
/* Comes with each launch, moves the gate to the copy once it is up, and has done its work. */
proctype watcher() {
  byte now;
end:
  do
  :: atomic { on_device && !watched && passed(gate, epoch) -> watched = true };
     now = gate;
     forward();
     now = 0
  od
}
/* That of a submission long gone, with what it saw then. */
proctype late_watcher() {
  byte now = 15;
  forward();
  now = 0
}
#endif

init {
  byte i;
  atomic {
    for (i : 0 .. SOURCES - 1) { run source(i) };
    run dispatcher();
    run device();
#ifdef COPY
    run watcher();
    run late_watcher()
#endif
  }
}

#ifdef LTL
/* However the epochs wrap: a launch whose epoch is over leaves the device. */
ltl gives_way { [] (over -> <> !over) }
#endif
