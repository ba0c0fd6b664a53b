/* SPDX-License-Identifier: Apache-2.0 */
/* run: two launches in flight; spin: -DTILES=3; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: three launches, raised twice; spin: -DLAUNCHES=3 -DRAISES=2; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: three workers; spin: -DLAUNCHES=1 -DWORKERS=3 -DTILES=4; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: every submission queued twice; spin: -DTWICE; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: every launch finishes; spin: -DLTL; cc: -DCOLLAPSE -DNFAIR=3; pan: -a -f -m200000 -N every_launch_finishes */
/* run: every launch finishes, one in flight; spin: -DLTL -DDEPTH=1 -DRAISES=2; cc: -DCOLLAPSE -DNFAIR=3; pan: -a -f -m200000 -N every_launch_finishes */
/* run: the order is kept; spin: -DLTL; cc: -DCOLLAPSE; pan: -a -m200000 -N order */
/* run: MISTAKE order from the gate; spin: -DORDER_FROM_GATE; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE order from the gate, as a formula; spin: -DLTL -DORDER_FROM_GATE -DNO_ASSERT; pan: -a -m200000 -N order; expect: errors 1 */
/* run: MISTAKE flag and ticket in two words; spin: -DTWO_WORDS; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE counted out before the last tile; spin: -DCOUNT_FIRST; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE cursor stored after counting out; spin: -DSTOP_LATE; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE id published before the cursor; spin: -DID_FIRST -DRAISES=2; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE raised bit left in the slot; spin: -DLTL -DKEEP_BIT; cc: -DNFAIR=3; pan: -a -f -m200000 -N every_launch_finishes; expect: errors 1 */
/* run: MISTAKE one publication for two in flight; spin: -DLTL -DONE_PUBLICATION; cc: -DNFAIR=3; pan: -a -f -m200000 -N every_launch_finishes; expect: errors 1 */

/*
 * Launches of one stream behind a gate: workers claim tiles, leave when the gate is raised, the last
 * one out closes the submission; a dispatcher keeps two submissions in flight and resumes what left
 * early. The rules, not the code: every assignment is one step of a sequentially consistent memory;
 * what the code does by one read-modify-write stands in an atomic block.
 *
 * Asserted where it happens: order (a tile runs only when the launch in front is finished), a tile
 * runs once, claims ascend, publications are exact, a stale submission leaves no trace. As formulae:
 * order once more, and that every launch finishes under weak fairness.
 */
#ifndef LAUNCHES
#define LAUNCHES 2
#endif
#ifndef TILES
#define TILES 2
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef DEPTH
#define DEPTH 2
#endif
#ifndef RAISES
#define RAISES 1
#endif
#ifdef NO_ASSERT
#define CHECK(x) skip
#else
#define CHECK(x) assert(x)
#endif
#ifdef TWICE
#define COPIES 2
#else
#define COPIES 1
#endif
#ifdef ONE_PUBLICATION
#define PLACE(id) 0
#else
#define PLACE(id) ((id) % 4)
#endif

/* Epochs count modulo 16 and begin near the end of the range. */
#define passed(now, epoch) (((now) + 16 - (epoch)) % 16 >= 1 && ((now) + 16 - (epoch)) % 16 < 8)

typedef slot_words {
  byte cursor;      /* one word with the bit */
  bool raised;
  byte stopped_at;
  byte left
};
typedef publication_words {
  byte cursor;
  bool finished;
  byte id
};

byte gate = 15;
byte submitted, completed;
byte chain;
slot_words slot[2];
publication_words published[4];

/* The device: submissions of a lane one after another. */
chan lane = [DEPTH * COPIES * 2] of { byte, byte, byte };
byte ordinal, id, epoch;  /* of the running submission */
bool go[WORKERS];
byte out;                 /* participants that have ended */

/* What only the properties know. */
byte executed;            /* tiles of the running launch that have ended, one bit each */
byte running;             /* tiles that run now */
byte finished;            /* launches whose tiles have all ended */
byte expected;            /* next tile to be claimed */
bool all_done, disorder;

inline stop() {
#ifdef TWO_WORDS
  mine = !slot[s].raised;
  slot[s].raised = true;
  before = slot[s].cursor;
#else
  atomic {
    mine = !slot[s].raised;
    before = slot[s].cursor;
    slot[s].raised = true
  };
#endif
#ifndef STOP_LATE
  keep()
#endif
}
inline keep() {
  if
  :: mine -> slot[s].stopped_at = (before < TILES -> before : TILES); mine = false
  :: else
  fi
}

inline close() {
  reached = (slot[s].raised -> slot[s].stopped_at : slot[s].cursor);
  reached = (reached < TILES -> reached : TILES);
  slot[s].left = 0;
  slot[s].stopped_at = 0;
  atomic {
    slot[s].cursor = (reached == TILES -> 0 : reached);
#ifndef KEEP_BIT
    slot[s].raised = false
#endif
  };
  if
  :: reached == TILES ->
     atomic {
       chain = ordinal;
       CHECK(chain == finished + 1 && executed == (1 << TILES) - 1 && running == 0);
       CHECK(slot[s].cursor == 0 && !slot[s].raised && slot[s].left == 0);
       finished = ordinal;
       executed = 0;
       expected = 0
     }
  :: else
  fi;
#ifdef ID_FIRST
  published[PLACE(id)].id = id;
#endif
  published[PLACE(id)].cursor = reached;
  published[PLACE(id)].finished = (reached == TILES);
  atomic {
    published[PLACE(id)].id = id;
    CHECK(running == 0);
    CHECK(reached == TILES || executed == (1 << reached) - 1)
  }
}

proctype worker(byte me) {
  byte s, before, tile, reached;
  bool mine, was;
end:
  do
  :: go[me] ->
     s = ordinal % 2;
#ifdef ORDER_FROM_GATE
     if
     :: passed(gate, epoch) -> goto gone
     :: else
     fi;
#else
     if
     :: chain != ordinal - 1 -> goto gone
     :: else
     fi;
#endif
     do
     :: if
        :: passed(gate, epoch) -> stop(); break
        :: else
        fi;
#ifdef TWO_WORDS
        was = slot[s].raised;
        atomic { tile = slot[s].cursor; slot[s].cursor++ };
#else
        atomic {
          was = slot[s].raised;
          tile = slot[s].cursor;
          slot[s].cursor++;
          if
          :: !was && tile < TILES -> CHECK(tile == expected); expected++
          :: else
          fi
        };
#endif
        if
        :: was || tile >= TILES -> break
        :: else
        fi;
#ifdef COUNT_FIRST
        if
        :: tile == TILES - 1 -> atomic { slot[s].left++; before = slot[s].left };
           if
           :: before == WORKERS -> close()
           :: else
           fi
        :: else
        fi;
#endif
        atomic {
          if
          :: finished != ordinal - 1 -> disorder = true
          :: else
          fi;
          CHECK(finished == ordinal - 1);
          CHECK(((executed | running) & (1 << tile)) == 0);
          running = running | (1 << tile)
        };
        atomic {
          running = running & ~(1 << tile);
          executed = executed | (1 << tile)
        };
#ifdef COUNT_FIRST
        if
        :: tile == TILES - 1 -> goto gone
        :: else
        fi
#endif
     od;
     atomic { slot[s].left++; reached = slot[s].left };
     if
     :: reached == WORKERS -> close()
     :: else
     fi;
#ifdef STOP_LATE
     keep();
#endif
gone:
     atomic { go[me] = false; out++; s = 0; before = 0; tile = 0; reached = 0; mine = false; was = false }
  od
}

proctype device() {
  byte i;
end:
  do
  :: atomic {
       lane ? ordinal, id, epoch ->
       out = 0;
       for (i : 0 .. WORKERS - 1) { go[i] = true };
       i = 0
     };
     out == WORKERS
  od
}

proctype dispatcher() {
  byte next = 1, oldest = 1, last, sampled, done_before, cursor;
  byte ids[2];
  bool whole;
  do
  :: oldest > LAUNCHES -> break
  :: oldest < next && published[PLACE(ids[oldest % 2])].id == ids[oldest % 2] ->
     cursor = published[PLACE(ids[oldest % 2])].cursor;
     whole = published[PLACE(ids[oldest % 2])].finished;
     atomic {
       CHECK(whole == (finished >= oldest));
       CHECK(whole || executed == (1 << cursor) - 1);
       if
       :: whole -> oldest++
       :: else -> next = oldest  /* and all behind it, in order */
       fi;
       cursor = 0;
       whole = false
     }
#ifdef TWICE
  :: oldest < next && published[PLACE(ids[oldest % 2] - 1)].id == ids[oldest % 2] - 1 &&
     published[PLACE(ids[oldest % 2] - 1)].finished ->
     oldest++  /* the second is stale */
#endif
  :: next <= LAUNCHES && next - oldest < DEPTH ->
     sampled = gate;
     done_before = completed;
     if
     :: submitted != done_before
     :: else ->
        atomic {
          last++;
          lane ! next, last, sampled;
#ifdef TWICE
          last++;
          lane ! next, last, sampled;
#endif
          ids[next % 2] = last;
          next++
        }
     fi;
     sampled = 0;
     done_before = 0
  od;
  all_done = true
}

proctype source() {
  byte i;
  for (i : 1 .. RAISES) {
    submitted++;
    gate = (gate + 1) % 16;
    completed++
  }
}

init {
  byte i;
  atomic {
    for (i : 0 .. WORKERS - 1) { run worker(i) };
    run device();
    run dispatcher();
    run source()
  }
}

#ifdef LTL
ltl every_launch_finishes { <> all_done }
ltl order { [] !disorder }
#endif
