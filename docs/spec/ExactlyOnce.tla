---------------------------- MODULE ExactlyOnce ----------------------------
(* Exactly one effect, under retries, compaction, trims and restores: one partition, its writers, its replicas.

WHAT IS MODELLED. A writer gives its write a sequence, sends copies of the same bytes until one is answered or it gives
up, and never has two batches under way (W1). A copy may be lost, overtaken and late: it may arrive when its writer has
long gone on. The log appends whatever arrives. Replicas fold the log one batch at a time; the fold remembers the last
batch of each of the `Window` producers that wrote last, and voids a sequence that it has seen. A replica may lose its
index at any time and begins again, with a snapshot or at the log's first record. The operator takes snapshots, trims
the log, and compacts it; the process may die between two segments of a compaction.

A write of one record: a put, an add to what is there, or a delete. The value of a key is the sequence of the offsets
whose effects are in it, so it shows its version, and an effect that happened twice shows.

The meaning of the log up to an offset (`truth`) is the fold of everything that was ever appended, by a fold that never
forgets a producer. Nothing may change it afterwards.

PROPERTIES (names of docs/RELIABILITY.md).
  OneEffect     I2     no index holds two effects of one write
  Answered      I6     what a writer is told is the offset of the copy that counts
  Served        I4     an index that may answer holds exactly the meaning of the log at its offset
  Equal         I4     so two that may answer at one offset hold the same producers too, of those that are in time
  Copies        I8     a snapshot holds what its manifest says
  Restorable    I11    there is a source for every replica: the log from its beginning, or a snapshot that it goes on from
  Level         I10    every replica that has lost its index is level with the log again, once the operator rests

LEFT OUT. Batches of several records and those cut by an applied offset, groups and conditions (a record is rejected by
the same rule in every fold), expiry, versions (ReadYourWrites.tla), damage of files, the bounds on remembered verdicts.
A log is compacted in one step, up to the segment at which the process died; segments are as short as they can be.

ASSUMED. A copy that is still under way when `Window` other producers have written since arrives no more (decision 2:
the window is 65,536 producers). No compaction begins while a replica folds what an earlier one has left from the log's
beginning on, which happens where no snapshot and no peer can be had. `Bug` plants a mistake. OFFSETS begin at 1. *)

EXTENDS Integers, Sequences, FiniteSets, TLC
CONSTANTS Producers, Replicas, Keys, Operations, Window, \* Window: serving_tier/fold/producers.py, PRODUCERS_MAX
          WritesMax, CopiesMax,               \* writes of one producer, copies of one write
          SendsMax,                           \* copies that are sent, all together
          SnapshotsMax, LossesMax, UpkeepMax, \* snapshots that are kept, indexes that are lost, trims and compactions
          Bug                                 \* the mistake that is planted, or "none"

VARIABLES log,        \* the records in order: producer, sequence, write, operation, key, void, left
          truth,      \* truth[n + 1]: the meaning of the first n
          bounds,     \* earliest, compacted
          sent,       \* by producer: its writes, the last one under way or settled
          client,     \* by producer: is a write under way, how many copies were sent of it
          flying,     \* by producer and write: copies that are on their way
          misled,     \* what writers were told wrong: producer, write, offset
          index,      \* by replica: applied, content, producers, originals, compacted (when it was opened)
          snapshots,  \* copies of indexes, with the offset of their manifests
          losses, upkeep
vars == <<log, truth, bounds, sent, client, flying, misled, index, snapshots, losses, upkeep>>
NOTHING == 0
Latest == Len(log)
Max(S) == IF S = {} THEN NOTHING ELSE CHOOSE x \in S : \A y \in S : y <= x
Min(S) == CHOOSE x \in S : \A y \in S : x <= y
Empty == [k \in Keys |-> <<>>]
Unknown == [sequence |-> 0, offset |-> NOTHING]
NewIndex == [applied |-> NOTHING, content |-> Empty, producers |-> [p \in Producers |-> Unknown], originals |-> {},
             compacted |-> 0]

\* serving_tier/fold/decision.py: what a record makes of its key
decide(content, record, offset) ==
  [content EXCEPT ![record.key] = CASE record.operation = "put" -> <<offset>>
                                    [] record.operation = "add" -> Append(@, offset)
                                    [] record.operation = "delete" -> <<>>]

Init ==
  /\ log = <<>> /\ truth = <<Empty>>
  /\ bounds = [earliest |-> 1, compacted |-> 0]
  /\ sent = [p \in Producers |-> <<>>]
  /\ client = [p \in Producers |-> [state |-> "idle", copies |-> 0]]
  /\ flying = [p \in Producers |-> [w \in 1..WritesMax |-> 0]]
  /\ misled = {}
  /\ index = [r \in Replicas |-> NewIndex]
  /\ snapshots = {} /\ losses = 0 /\ upkeep = 0

(* Writers: router/data/gather *)
Sends == Latest + Cardinality({each \in Producers \X (1..WritesMax) \X (1..CopiesMax) : each[3] <= flying[each[1]][each[2]]})

\* router/data/gather/write_gatherer.py: a write gets its sequence, its bytes are fixed, and the first copy leaves
_encoded(p) == \E operation \in Operations, key \in Keys :
  /\ client[p].state = "idle" \/ (Bug = "two batches under way" /\ client[p].copies > 0)
  /\ Len(sent[p]) < WritesMax /\ Sends < SendsMax
  /\ sent' = [sent EXCEPT ![p] = Append(@, [operation |-> operation, key |-> key])]
  /\ client' = [client EXCEPT ![p] = [state |-> "under way", copies |-> 1]]
  /\ flying' = [flying EXCEPT ![p][Len(sent[p]) + 1] = 1]
  /\ UNCHANGED <<log, truth, bounds, misled, index, snapshots, losses, upkeep>>

\* router/data/gather/write_gatherer.py: there was no answer, and a copy of the same bytes leaves
_try(p) ==
  /\ client[p].state = "under way" /\ client[p].copies < CopiesMax /\ Sends < SendsMax
  /\ client' = [client EXCEPT ![p].copies = @ + 1]
  /\ flying' = [flying EXCEPT ![p][Len(sent[p])] = @ + 1]
  /\ UNCHANGED <<log, truth, bounds, sent, misled, index, snapshots, losses, upkeep>>

Last(p) == Max({o \in 1..Latest : log[o].producer = p})
InTime(p) == Cardinality({log[o].producer : o \in {each \in 1..Latest : each > Last(p)}}) < Window \/ Last(p) = NOTHING
Used(p) == Max({log[o].sequence : o \in {each \in 1..Latest : log[each].producer = p}})
Landed(p, w) == \E o \in 1..Latest : log[o].producer = p /\ log[o].write = w

\* log_tier/embedded/engine.py: a copy arrives, whenever it does, and gets the next offset
append(p, w) ==
  /\ flying[p][w] > 0 /\ InTime(p)
  /\ LET sequence == IF Bug = "a retry with a new sequence" /\ Landed(p, w) THEN Used(p) + 1 ELSE w
         void == sequence <= Used(p)
         record == [producer |-> p, sequence |-> sequence, write |-> w, operation |-> sent[p][w].operation,
                    key |-> sent[p][w].key, void |-> void, left |-> "whole"]
     IN /\ log' = Append(log, record)
        /\ truth' = Append(truth, IF void THEN truth[Latest + 1] ELSE decide(truth[Latest + 1], record, Latest + 1))
  /\ flying' = [flying EXCEPT ![p][w] = @ - 1]
  /\ UNCHANGED <<bounds, sent, client, misled, index, snapshots, losses, upkeep>>

Settle(p, w, o) ==
  /\ misled' = IF log[o].producer = p /\ log[o].write = w /\ ~log[o].void THEN misled
               ELSE misled \cup {[producer |-> p, write |-> w, offset |-> o]}
  /\ client' = [client EXCEPT ![p] = IF w = Len(sent[p]) THEN [state |-> "idle", copies |-> 0] ELSE @]
  /\ UNCHANGED <<log, truth, bounds, sent, flying, index, snapshots, losses, upkeep>>

UnderWay(p, w) == client[p].state = "under way" /\ (w = Len(sent[p]) \/ Bug = "two batches under way")

\* router/data/gather/batch_progress.py: the reply of a write that was sent once names its place
answered(p, o) ==
  /\ o <= Latest /\ log[o].producer = p /\ UnderWay(p, log[o].write)
  /\ client[p].copies = 1 \/ Bug \in {"the second copy answers", "two batches under way"}
  /\ Settle(p, log[o].write, o)

\* serving_tier/fold/verdicts.py: the outcome of a write that was sent again names the copy that counts
outcomes_between(p, o, r) ==
  /\ o <= Latest /\ log[o].producer = p /\ UnderWay(p, log[o].write) /\ client[p].copies > 1
  /\ index[r].applied >= o
  /\ LET originals == {each.original : each \in {one \in index[r].originals : one.offset = o}}
         original == IF originals = {} THEN o ELSE Max(originals)
     IN /\ original # NOTHING
        /\ o >= index[r].compacted \/ Bug = "outcomes that a compaction took"
        /\ Settle(p, log[o].write, original)

\* router/data/gather/write_gatherer.py: the callers get WriteUnknown; copies may still be on their way
_give_up(p) ==
  /\ client[p].state = "under way"
  /\ client' = [client EXCEPT ![p] = [state |-> "idle", copies |-> 0]]
  /\ UNCHANGED <<log, truth, bounds, sent, flying, misled, index, snapshots, losses, upkeep>>

(* Replicas: serving_tier *)
Present(o) == o >= bounds.earliest /\ log[o].left # "gone"

\* log_tier/model/log.py: may an index with this offset go on from here? Deletes that are gone are not missed later
carries(applied) ==
  /\ applied + 1 >= bounds.earliest
  /\ applied = NOTHING \/ applied + 1 >= bounds.compacted \/ Bug = "an old index goes on without the deletes"

\* A compaction has overtaken it while it was open: it stops, and is opened again or comes from a copy
Overtaken(i) == bounds.compacted > Max({i.applied + 1, i.compacted}) /\ Bug # "an old index goes on without the deletes"

\* serving_tier/replica/apply.py: a new index folds what is left, and is read when it is beyond that part
come_through(i) == i.applied + 1 >= i.compacted \/ Bug = "a replay answers on its way"

\* serving_tier/fold/producers.py: the window after a batch, without the producer whose last batch lies deepest
set(producers, p, state) ==
  LET grown == [producers EXCEPT ![p] = state]
      known == {each \in Producers : grown[each] # Unknown}
      oldest == CHOOSE each \in known : \A other \in known : grown[each].offset <= grown[other].offset
      youngest == CHOOSE each \in known : \A other \in known : grown[each].offset >= grown[other].offset
      out == IF Bug = "the window forgets the youngest" THEN youngest ELSE oldest
  IN IF Cardinality(known) <= Window THEN grown ELSE [grown EXCEPT ![out] = Unknown]

\* serving_tier/fold/fold.py: duplicates are void, the others take effect and become the producer's last batch
fold(i, o) ==
  LET record == log[o]
      state == i.producers[record.producer]
      seen == record.sequence <= state.sequence /\ Bug # "duplicates take effect"
      original == IF record.sequence = state.sequence THEN state.offset ELSE NOTHING
  IN [applied |-> o,
      content |-> IF seen \/ record.left = "shell" THEN i.content ELSE decide(i.content, record, o),
      producers |-> IF seen THEN i.producers
                    ELSE set(i.producers, record.producer, [sequence |-> record.sequence, offset |-> o]),
      originals |-> IF seen THEN i.originals \cup {[offset |-> o, original |-> original]} ELSE i.originals,
      compacted |-> i.compacted]

\* serving_tier/index/lmdb/lmdb_index.py: one batch, in one transaction with the applied offset
fold_in(r) ==
  LET ahead == {o \in index[r].applied + 1 .. Latest : Present(o)}
  IN /\ ahead # {} /\ index[r].applied + 1 >= bounds.earliest /\ ~Overtaken(index[r])
     /\ index' = [index EXCEPT ![r] = fold(@, Min(ahead))]
     /\ UNCHANGED <<log, truth, bounds, sent, client, flying, misled, snapshots, losses, upkeep>>

\* serving_tier/folders.py: the index is lost, or not to be trusted, and the log is folded from its start
discard(r) ==
  /\ losses < LossesMax /\ index[r].applied # NOTHING
  /\ index' = [index EXCEPT ![r] = [NewIndex EXCEPT !.compacted = bounds.compacted]] /\ losses' = losses + 1
  /\ UNCHANGED <<log, truth, bounds, sent, client, flying, misled, snapshots, upkeep>>

\* serving_tier/replica/replica.py: it is opened again
open(r) ==
  /\ carries(index[r].applied) /\ index[r].compacted # bounds.compacted
  /\ index' = [index EXCEPT ![r].compacted = bounds.compacted]
  /\ UNCHANGED <<log, truth, bounds, sent, client, flying, misled, snapshots, losses, upkeep>>

\* serving_tier/snapshots/install.py: a copy takes the place of an index that is lost or cannot go on
install_snapshot(r) == \E s \in snapshots :
  /\ index[r].applied = NOTHING \/ ~carries(index[r].applied)
  /\ carries(s.offset)
  /\ index' = [index EXCEPT ![r] =
       [s.index EXCEPT !.applied = s.offset, !.compacted = bounds.compacted,
                       !.producers = IF Bug = "a restore forgets the producers" THEN NewIndex.producers ELSE @]]
  /\ index' # index
  /\ UNCHANGED <<log, truth, bounds, sent, client, flying, misled, snapshots, losses, upkeep>>

\* serving_tier/snapshots/take.py: a copy at one transaction, of a replica that may answer
take_snapshot(r) ==
  LET offset == IF Bug = "a manifest ahead of its data" /\ index[r].applied < Latest
                THEN index[r].applied + 1 ELSE index[r].applied
      taken == [offset |-> offset, index |-> index[r]]
      oldest == CHOOSE s \in snapshots : \A other \in snapshots : s.offset <= other.offset
  IN /\ index[r].applied # NOTHING /\ come_through(index[r]) /\ carries(index[r].applied)
     /\ SnapshotsMax > 0 /\ \A s \in snapshots : s.offset < offset
     /\ snapshots' = {taken} \cup IF Cardinality(snapshots) < SnapshotsMax THEN snapshots ELSE snapshots \ {oldest}
     /\ UNCHANGED <<log, truth, bounds, sent, client, flying, misled, index, losses, upkeep>>

(* Upkeep: log_tier/embedded/upkeep, below what a verified snapshot covers *)
Covered == Max({s.offset : s \in snapshots}) + 1

\* log_tier/embedded/upkeep/trim.py
trim_partition(before) ==
  /\ upkeep < UpkeepMax /\ before > bounds.earliest /\ before <= Latest + 1
  /\ before <= IF Bug = "a trim past the snapshot" THEN Latest ELSE Covered
  /\ bounds' = [bounds EXCEPT !.earliest = before] /\ upkeep' = upkeep + 1
  /\ UNCHANGED <<log, truth, sent, client, flying, misled, index, snapshots, losses>>

\* log_tier/embedded/upkeep/compaction.py: what the headers say of producers
survey(below) ==
  LET here == {o \in bounds.earliest .. below - 1 : Present(o)}
      void == {o \in here : \E e \in here : e < o /\ log[e].producer = log[o].producer /\ log[e].sequence >= log[o].sequence}
  IN [void |-> void,
      newest |-> {o \in here \ void :
                    ~\E e \in here \ void : log[e].producer = log[o].producer /\ log[e].sequence > log[o].sequence},
      repeating |-> {log[o].producer : o \in {each \in void : log[each].left = "whole"}}]

\* log_tier/embedded/upkeep/compaction.py: what no state from `below` on needs, newest first
judge(below, found, old) ==
  LET whole == {o \in bounds.earliest .. below - 1 : Present(o) /\ log[o].left = "whole"}
      covers == IF bounds.earliest > 1 THEN {} ELSE {o \in whole \ found.void : log[o].operation \in {"put", "delete"}}
      covered == {o \in whole : \E later \in covers : later > o /\ log[later].key = log[o].key}
  IN (whole \cap found.void) \cup covered \cup (IF old THEN {o \in covers : log[o].operation = "delete"} ELSE {})

\* log_tier/embedded/upkeep/compaction.py
needs_shell(o, found) ==
  \/ o \in found.newest /\ Bug # "a compaction drops a producer's newest batch"
  \/ /\ log[o].producer \in found.repeating /\ o \notin found.void
     /\ Bug # "a compaction drops what a duplicate repeats"

\* log_tier/embedded/upkeep/compactor.py: decided for all below `below`, carried out up to `until`, where it may end;
\* `old`: deletes are old enough to go
compact_partition(below, until, old) ==
  /\ upkeep < UpkeepMax /\ bounds.earliest < below /\ below <= Latest + 1 /\ until \in bounds.earliest .. below
  /\ below <= Covered /\ \A r \in Replicas : come_through(index[r]) \* assumed
  /\ LET found == survey(below)
         drops == judge(below, found, old)
         after(o) == CASE o >= until \/ ~Present(o) -> log[o].left
                       [] log[o].left = "whole" /\ o \notin drops -> "whole"
                       [] o \in {below - 1, until - 1} \/ needs_shell(o, found) -> "shell"
                       [] OTHER -> "gone"
     IN /\ log' = [o \in 1..Latest |-> [log[o] EXCEPT !.left = after(o)]]
        /\ log' # log
        /\ bounds' = [bounds EXCEPT !.compacted = Max({@, below})]
  /\ upkeep' = upkeep + 1
  /\ UNCHANGED <<truth, sent, client, flying, misled, index, snapshots, losses>>

Next ==
  \/ \E p \in Producers : _encoded(p)
  \/ \E p \in Producers : _try(p)
  \/ \E p \in Producers : _give_up(p)
  \/ \E p \in Producers, w \in 1..WritesMax : append(p, w)
  \/ \E p \in Producers, o \in 1..SendsMax : answered(p, o)
  \/ \E p \in Producers, o \in 1..SendsMax, r \in Replicas : outcomes_between(p, o, r)
  \/ \E r \in Replicas : fold_in(r)
  \/ \E r \in Replicas : discard(r)
  \/ \E r \in Replicas : open(r)
  \/ \E r \in Replicas : install_snapshot(r)
  \/ \E r \in Replicas : take_snapshot(r)
  \/ \E before \in 2..SendsMax + 1 : trim_partition(before)
  \/ \E below \in 2..SendsMax + 1, until \in 1..SendsMax + 1, old \in BOOLEAN : compact_partition(below, until, old)
Spec == Init /\ [][Next]_vars
Fair == Spec /\ \A r \in Replicas : WF_vars(fold_in(r)) /\ WF_vars(open(r)) /\ WF_vars(install_snapshot(r))

OneEffect == \A r \in Replicas, k \in Keys : LET effects == index[r].content[k] IN
  \A i, j \in 1..Len(effects) : i < j => <<log[effects[i]].producer, log[effects[i]].write>>
                                     # <<log[effects[j]].producer, log[effects[j]].write>>
Answered == misled = {}
Symmetry == Permutations(Producers) \cup Permutations(Replicas)
MayAnswer(i) == come_through(i)
Served == \A r \in Replicas : MayAnswer(index[r]) => index[r].content = truth[index[r].applied + 1]
Before(p, o) == Max({e \in 1..o : log[e].producer = p /\ ~log[e].void})
Equal == \A r \in Replicas, p \in Producers : LET o == index[r].applied e == Before(p, o) IN
  MayAnswer(index[r]) => index[r].producers[p] =
    IF e = NOTHING \/ Cardinality({q \in Producers : Before(q, o) > e}) >= Window THEN Unknown
    ELSE [sequence |-> log[e].sequence, offset |-> e]
Copies == \A s \in snapshots : s.index.content = truth[s.offset + 1]
Restorable == bounds.earliest = 1 \/ \E s \in snapshots : carries(s.offset)
Level == \A r \in Replicas : []<>(index[r].applied = Latest)
=============================================================================
