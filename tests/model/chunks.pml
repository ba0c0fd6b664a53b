/* SPDX-License-Identifier: Apache-2.0 */
/* run: chunks of one submission; spin: -DPER_SUBMISSION=2; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: two submissions of one launch in flight; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: two submissions of one launch in flight, raised twice; spin: -DRAISES=2; cc: -DSAFETY -DCOLLAPSE; pan: -m200000 */
/* run: the launch finishes; spin: -DLTL; cc: -DCOLLAPSE -DNFAIR=3; pan: -a -f -m200000 -N finishes */
/* run: the launch finishes, raised twice, chunks; spin: -DLTL -DRAISES=2 -DPER_SUBMISSION=2; cc: -DCOLLAPSE -DNFAIR=3; pan: -a -f -m200000 -N finishes */
/* run: MISTAKE submissions of one launch in flight with different epochs; spin: -DFRESH_EPOCH; cc: -DSAFETY; pan: -m200000; expect: errors 1 */
/* run: MISTAKE the second inherits an epoch that is over; spin: -DLTL -DINHERITED_EPOCH; cc: -DNFAIR=3; pan: -a -f -m200000 -N finishes; expect: errors 1 */
/* run: MISTAKE every chunk publishes; spin: -DPER_SUBMISSION=2 -DCLOSE_EACH; cc: -DSAFETY; pan: -m200000; expect: errors 1 */

/*
 * The gated form: native blocks in chunks. A block looks at chain and gate, takes one ticket, runs one
 * tile. A watcher stays with each chunk until its tickets are used up, at a cursor (`limit`) that the
 * host worked out beforehand. Behind the last chunk of a submission a closing step publishes. One
 * launch; the blocks of a chunk are one process that gives them their turns one by one.
 *
 * The limit is right only if the submission begins where the host thinks it does. Two submissions of one
 * launch may be in flight only with one and the same epoch: what stops the first then stops the second.
 * Else a watcher waits for a cursor that is never reached, with the device to itself.
 */
#ifndef TILES
#define TILES 6
#endif
#ifndef CHUNK
#define CHUNK 2           /* blocks of a kernel */
#endif
#ifndef PER_SUBMISSION
#define PER_SUBMISSION 1  /* kernels of a submission */
#endif
#ifndef RAISES
#define RAISES 1
#endif
#define passed(now, epoch) (((now) + 16 - (epoch)) % 16 >= 1 && ((now) + 16 - (epoch)) % 16 < 8)
#define least(a, b) ((a) < (b) -> (a) : (b))

byte gate = 15;
byte chain;
byte cursor;              /* one word with the bit */
bool raised;
byte stopped_at;
byte executed;            /* tiles that have run */
bool all_done;

typedef publication_words {
  byte cursor;
  bool finished, published
};
publication_words published[2];

/* Kernels of the lane: epoch, blocks, limit, whether the closing step follows, submission. */
chan lane = [4] of { byte, byte, byte, bool, byte };
byte epoch, blocks, limit, place;
bool closes, started, watched;

inline stop() {
  atomic { mine = !raised; before = cursor; raised = true };
  if
  :: mine -> stopped_at = least(before, TILES); mine = false
  :: else
  fi;
  before = 0
}

/* All blocks of a kernel, one after another or with gaps between their steps. */
proctype device() {
  byte before, tile, reached;
  bool mine, was;
end:
  do
  :: atomic { lane ? epoch, blocks, limit, closes, place -> started = true; watched = false };
     do
     :: blocks > 0 ->
        if
        :: chain == 1
        :: chain == 0 && passed(gate, epoch) -> stop()
        :: chain == 0 ->  /* has not noticed */
           atomic { was = raised; tile = cursor; cursor++ };
           if
           :: !was && tile < TILES ->
              atomic { assert(tile == executed); executed++ }
           :: else
           fi
        fi;
        tile = 0;
        was = false;
        blocks--
     :: blocks == 0 -> break
     od;
     watched;
     started = false;
     if
#ifdef CLOSE_EACH
     :: chain == 0 ->
#else
     :: closes && chain == 0 ->
#endif
        reached = least((raised -> stopped_at : cursor), TILES);
        stopped_at = 0;
        atomic { cursor = reached; raised = false };
        if
        :: reached == TILES -> atomic { assert(executed == TILES); chain = 1 }
        :: else
        fi;
        published[place].cursor = reached;
        published[place].finished = (reached == TILES);
        atomic {
          assert(reached == executed && !published[place].published);
          published[place].published = true
        };
        reached = 0
     :: else
     fi
  od
}

proctype watcher() {
  byte before;
  bool mine;
end:
  do
  :: started && !watched ->
     if
     :: chain == 1
     :: chain == 0 && passed(gate, epoch) -> stop()
     :: chain == 0 && (raised || cursor >= limit)
     fi;
     watched = true
  od
}

proctype dispatcher() {
  byte next, sampled, carried, first, in_flight, from, i;
  byte ends[2];  /* cursor at which each submission in flight ends if nothing stops it */
  do
  :: all_done -> break
  :: !all_done && in_flight > 0 && published[first].published ->
     atomic {
       all_done = published[first].finished;
       if
       :: published[first].cursor != ends[first] -> next = published[first].cursor
       :: else
       fi;
       published[first].published = false;
       published[first].finished = false;
       published[first].cursor = 0;
       ends[first] = 0;
       first = 1 - first;
       in_flight--
     }
  :: !all_done && !(in_flight > 0 && published[first].published) && in_flight < 2 && next < TILES ->
     sampled = gate;
     if
#ifdef INHERITED_EPOCH
     :: in_flight > 0 -> sampled = carried
#else
#ifndef FRESH_EPOCH
     :: in_flight > 0 && sampled != carried -> goto later  /* not before the first has published */
#endif
#endif
     :: else
     fi;
     atomic {
       carried = sampled;
       for (i : 1 .. PER_SUBMISSION) {
         if
         :: next < TILES ->
            from = next;
            next = least(next + CHUNK, TILES);
            lane ! sampled, next - from, next, (i == PER_SUBMISSION || next == TILES), (first + in_flight) % 2
         :: else
         fi
       };
       ends[(first + in_flight) % 2] = next;
       i = 0;
       from = 0;
       in_flight++
     };
later:
     sampled = 0
  od
}

proctype source() {
  byte i;
  for (i : 1 .. RAISES) { gate = (gate + 1) % 16 }
}

init {
  atomic {
    run device();
    run watcher();
    run dispatcher();
    run source()
  }
}

#ifdef LTL
ltl finishes { <> all_done }
#endif
