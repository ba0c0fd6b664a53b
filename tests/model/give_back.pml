/* SPDX-License-Identifier: Apache-2.0 */
/* run: the rest of a claim; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: the rest of a claim, raised twice; spin: -DRAISES=2 -DTILES=3; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: tiles left half done; spin: -DHALF; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: fewer workers go on; spin: -DHALF -DFEWER -DRAISES=2 -DTILES=3; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: every launch finishes; spin: -DLTL -DHALF; cc: -DCOLLAPSE -DNFAIR=3; pan: -a -f -m200000 -N every_launch_finishes */
/* run: MISTAKE finished though tiles are set aside; spin: -DFORGET_ASIDE; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE a record stays full when it is read; spin: -DKEEP_RECORD -DRAISES=2; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE records read by all; spin: -DANY_RECORD; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE given back after counting out; spin: -DGIVE_LATE; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE fewer workers read only their own; spin: -DOWN_ONLY -DFEWER -DLTL; cc: -DNFAIR=3; pan: -a -f -m200000 -N every_launch_finishes; expect: errors 1 */

/*
 * What workers of independent bodies have claimed and not executed when the gate is raised: written
 * into a record each, read by one worker of the next submission. launches.pml has the rest of the
 * protocol; here a launch has one submission at a time, so that claims of two tiles stay small.
 *
 * Asserted where it happens: a tile runs once, a half-done one is re-entered once and not begun
 * anew, the chain moves when all tiles are done. As a formula: every launch finishes.
 */
#ifndef LAUNCHES
#define LAUNCHES 2
#endif
#ifndef TILES
#define TILES 4
#endif
#ifndef RAISES
#define RAISES 1
#endif
#define WORKERS 2
#define BATCH 2

typedef record_words {
  byte next;
  byte left;
  bool half
};

bool raised;              /* of the running submission: the bit in the cursor */
byte cursor, stopped_at, left, aside;
record_words record[WORKERS];
byte chain;

bool go[WORKERS];
byte present, out;        /* workers of the running submission; those that have ended */
bool closed, complete;    /* published: it has ended; the launch is finished */

byte executed, running, half_done;  /* tiles, one bit each: what only the properties know */
bool all_done;

inline give_back() {
  record[mine].next = next;
  record[mine].half = half;
  record[mine].left = held;
  atomic { aside = aside + held };
  held = 0
}

inline close() {
  reached = (raised -> stopped_at : cursor);
  reached = (reached < TILES -> reached : TILES);
  if
#ifdef FORGET_ASIDE
  :: reached == TILES ->
#else
  :: reached == TILES && aside == 0 ->
#endif
     atomic {
       chain++;
       assert(executed == (1 << TILES) - 1 && running == 0 && half_done == 0);
       cursor = 0; executed = 0; complete = true
     }
  :: else -> atomic { cursor = reached; complete = false }
  fi;
  atomic { left = 0; stopped_at = 0; raised = false; closed = true; assert(running == 0) }
}

proctype worker(byte me) {
  byte at, next, held, mine, reached, before;
  bool half;
end:
  do
  :: go[me] ->
     at = me;
     do
     :: /* what comes next: own records, then a claim */
        mine = me;
        do
        :: at < WORKERS && !raised ->
           if
           :: record[at].left > 0 ->
              mine = at;
              next = record[at].next;
              half = record[at].half;
              held = record[at].left;
#ifndef KEEP_RECORD
              record[at].left = 0;
#endif
              atomic { aside = aside - held };
#ifdef OWN_ONLY
              at = WORKERS;
#else
#ifdef ANY_RECORD
              at = at + 1;
#else
              at = at + present;
#endif
#endif
              break
           :: else ->
#ifdef OWN_ONLY
              at = WORKERS
#else
#ifdef ANY_RECORD
              at = at + 1
#else
              at = at + present
#endif
#endif
           fi
        :: at < WORKERS && raised -> break
        :: at >= WORKERS ->
           atomic {
             next = cursor;
             held = (raised || next >= TILES -> 0 : (TILES - next < BATCH -> TILES - next : BATCH));
             cursor = cursor + (raised -> 0 : BATCH);
             half = false
           };
           break
        od;
        if
        :: held == 0 -> break
        :: else
        fi;
        do
        :: held > 0 ->
           atomic {
             assert((executed & (1 << next)) == 0 && (running & (1 << next)) == 0);
             assert(half == ((half_done & (1 << next)) != 0));
             half_done = half_done & ~(1 << next);
             running = running | (1 << next);
             half = false
           };
#ifdef HALF
           if
           :: raised ->
              atomic {
                running = running & ~(1 << next);
                half_done = half_done | (1 << next);
                half = true
              };
              break
           :: else
           fi;
#endif
           atomic {
             running = running & ~(1 << next);
             executed = executed | (1 << next);
             next++;
             held--
           };
           if
           :: held > 0 && raised -> break
           :: else
           fi
        :: held == 0 -> break
        od;
#ifndef GIVE_LATE
        if
        :: held > 0 -> give_back(); break
        :: else
        fi
#else
        if
        :: held > 0 -> break
        :: else
        fi
#endif
     od;
     atomic { left++; before = left };
     if
     :: before == present -> close()
     :: else
     fi;
#ifdef GIVE_LATE
     if
     :: held > 0 -> give_back()
     :: else
     fi;
#endif
     atomic {
       go[me] = false; out++;
       at = 0; next = 0; held = 0; mine = 0; reached = 0; before = 0; half = false
     }
  od
}

/* Raises at any time while something runs: sets the bit once, keeps the cursor. */
proctype watcher() {
  byte i;
end:
  do
  :: i < RAISES && out < present && left < present ->
     atomic {
       if
       :: !raised && !closed -> stopped_at = (cursor < TILES -> cursor : TILES); raised = true; i++
       :: else
       fi
     }
  :: i == RAISES -> break
  od
}

proctype dispatcher() {
  byte i;
  do
  :: chain == LAUNCHES -> break
  :: else ->
     atomic {
#ifdef FEWER
       present = (cursor == 0 && aside == 0 -> WORKERS : 1);
#else
       present = WORKERS;
#endif
       out = 0;
       closed = false;
       for (i : 0 .. present - 1) { go[i] = true };
       i = 0
     };
     closed && out == present
  od;
  all_done = true
}

init {
  byte i;
  atomic {
    for (i : 0 .. WORKERS - 1) { run worker(i) };
    run watcher();
    run dispatcher()
  }
}

#ifdef LTL
ltl every_launch_finishes { <> all_done }
#endif
