--------------------------- MODULE ReadYourWrites ---------------------------
(* Read your writes, across restarts, restores, moves and swaps of versions: one partition, its replicas, its sessions.

WHAT IS MODELLED. Sessions write and read at whichever node they like: a map that is out of date sends them to any. A
session's token is the highest offset that it has seen. A replica answers a read when its live index has applied the
token, and a read without a token when it has applied its floor: the log's end when the replica was opened. Replicas
restart, lose their indexes, begin with a snapshot or at the log's first record, come to a node by a move and leave it.

A version of the table's content is built at an offset of the log (its base). Replicas catch up with it from there and
carry it along, level with the live one. A barrier record makes another version the live one at every replica at the
same offset, in three steps: the new index goes over the barrier, it is the one that is read, the others follow. A swap
and a rollback are barriers; each belongs to a job, and a barrier of an earlier job than the last one changes nothing.

A write may ask that the key is absent. The version that is live at its offset decides; a version that is not live takes
over what that one decided. The content of an index is the set of the offsets that took effect behind its version's base
(what its bulk holds is as its builder meant it).

PROPERTIES (names of docs/RELIABILITY.md).
  NoneOlder    I5   no answer is older than what its session has seen: its own writes, what it has read, its token
  NoneLess     I5   a node never shows a reader without a token less than it has shown before
  Exact        I4   an answer is the content of the version that is live at its offset, at that offset, and nothing else
  Alike        I6   every index of one version at one offset holds the same: verdicts are reached once
  Hosted       C3   a move leaves no partition without a replica that can be read
  Way          I11  no trim takes the last source that leads to the log's end, over every barrier on the way
  Level        I10  every replica comes level with the log, whatever was lost, once nothing is lost any more

LEFT OUT. Lost replies and second copies (ExactlyOnce.tla), other freshness levels than `session`, several partitions (a
token is a maximum for each), damage, deadlines, verdicts that an index has forgotten, versions that are discarded. One record is applied to the live
index and to those that are level with it in one step.

`Bug` plants a mistake. OFFSETS begin at 1; 0 is `NOTHING`. *)

EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS Nodes, Sessions,
          Versions,      \* 1 is the one that the table began with
          WritesMax, BarriersMax, SnapshotsMax,
          ChangesMax,    \* restarts, losses, moves, trims and discards, all together
          Bug

VARIABLES log,        \* records in order: kind, version, job, and what the log's order makes of them: took, live, last
          earliest,   \* the log begins here
          built,      \* by version: the offset at which it was built, or None
          node,       \* by node: role, live, at, took, floor
          snapshots,  \* live, at, took, job: that of the last barrier in it
          session,    \* by session: its token
          seen,       \* by session: what it has seen in truth
          shown,      \* by node: the highest offset that it has answered from
          wrong,      \* answers that break a promise
          changes

vars == <<log, earliest, built, node, snapshots, session, seen, shown, wrong, changes>>

NOTHING == 0
None == -1
Latest == Len(log)
Max(a, b) == IF a > b THEN a ELSE b

\* The live version after the first `o` records, and the job that made it so: `LiveVersion` of log_tier/model/barrier.py
LiveAt(o) == IF o = NOTHING THEN 1 ELSE log[o].live
JobAt(o) == IF o = NOTHING THEN 0 ELSE log[o].last
Base(v) == IF v = 1 THEN NOTHING ELSE built[v]
Content(v, o) == {w \in 1..o : w > Base(v) /\ log[w].kind = "write" /\ log[w].took}
Barriers == {o \in 1..Latest : log[o].kind = "barrier"}

Absent == [role |-> "absent", live |-> 1, at |-> [v \in Versions |-> None], took |-> [v \in Versions |-> {}], floor |-> NOTHING]
Fresh == [Absent EXCEPT !.at[1] = NOTHING]
Applied(n) == node[n].at[node[n].live]
Up(n) == node[n].role # "absent"

Init ==
  /\ log = <<>> /\ earliest = 1 /\ built = [v \in Versions |-> None]
  /\ \E n \in Nodes : node = [m \in Nodes |-> IF m = n THEN [Fresh EXCEPT !.role = "member"] ELSE Absent]
  /\ snapshots = {} /\ session = [s \in Sessions |-> NOTHING] /\ seen = session
  /\ shown = [n \in Nodes |-> NOTHING] /\ wrong = {} /\ changes = 0

----------------------------------------------------------------------------
(* Sessions: duramen/client/model/session.py, router/data *)

\* duramen/client/model/session.py: what a reply shows is merged into the session
saw(s, o) ==
  /\ session' = [session EXCEPT ![s] = IF Bug = "a session forgets its writes" THEN @ ELSE Max(@, o)]
  /\ seen' = [seen EXCEPT ![s] = Max(@, o)]

\* log_tier/embedded/engine.py: a write, conditional or not; its verdict is the log's order
append(s, is_conditional) ==
  /\ Latest - Cardinality(Barriers) < WritesMax
  /\ log' = Append(log, [kind |-> "write", version |-> 0, job |-> 0, live |-> LiveAt(Latest), last |-> JobAt(Latest),
                         conditional |-> is_conditional,
                         took |-> ~is_conditional \/ Content(LiveAt(Latest), Latest) = {}])
  /\ saw(s, Latest + 1)
  /\ UNCHANGED <<earliest, built, node, snapshots, shown, wrong, changes>>

\* router/data/freshness.py
needed_offset(s, n) == IF session[s] > NOTHING THEN session[s] ELSE node[n].floor

\* router/data/freshness.py: a read is answered from the live index, with its applied offset
may_answer(s, n) ==
  LET at == Applied(n) live == node[n].live IN
  /\ Up(n) /\ at # None
  /\ at >= needed_offset(s, n) \/ Bug = "a read does not wait"
  /\ saw(s, at)
  /\ wrong' = wrong \cup (IF at < seen[s] THEN {"older"} ELSE {})
                    \cup (IF session[s] = NOTHING /\ at < shown[n] THEN {"less"} ELSE {})
                    \cup (IF live # LiveAt(at) \/ node[n].took[live] # Content(live, at) THEN {"inexact"} ELSE {})
  /\ shown' = [shown EXCEPT ![n] = Max(@, at)]
  /\ UNCHANGED <<log, earliest, built, node, snapshots, changes>>

\* duramen/client/model/session.py: a token from another process
merge(s, other) ==
  /\ session[other] > session[s]
  /\ session' = [session EXCEPT ![s] = session[other]] /\ seen' = [seen EXCEPT ![s] = Max(@, session[other])]
  /\ UNCHANGED <<log, earliest, built, node, snapshots, shown, wrong, changes>>

----------------------------------------------------------------------------
(* Replicas: serving_tier/replica *)

\* serving_tier/replica/pieces.py: does the next record make another version the live one here?
_find_barrier(n) ==
  LET next == Applied(n) + 1 IN
  /\ next <= Latest /\ log[next].kind = "barrier" /\ log[next].version # node[n].live
  /\ log[next].job > JobAt(next - 1) \/ Bug = "a barrier takes effect twice"

\* what an index of version v has after record o, whose decision is carried over or reached anew
Folded(v, took, o) ==
  IF log[o].kind # "write" THEN took
  ELSE IF Bug = "a version decides anew" /\ v # LiveAt(o)
       THEN IF log[o].conditional /\ took # {} THEN took ELSE took \cup {o}
       ELSE IF log[o].took THEN took \cup {o} ELSE took

\* between two pieces every version that is not behind has the same offset
AllOver(n) == \A v \in Versions : node[n].at[v] # Applied(n) - 1 \/ Applied(n) = NOTHING

\* serving_tier/replica/standby.py: the live index first, and what is level with it
apply(n) ==
  LET i == node[n] at == Applied(n) IN
  /\ Up(n) /\ at # None /\ at < Latest /\ at + 1 >= earliest /\ AllOver(n)
  /\ ~_find_barrier(n) \/ Bug = "a barrier is passed over"
  /\ node' = [node EXCEPT ![n] = [i EXCEPT
       !.at = [v \in Versions |-> IF i.at[v] = at THEN at + 1 ELSE i.at[v]],
       !.took = [v \in Versions |-> IF i.at[v] = at THEN Folded(v, i.took[v], at + 1) ELSE i.took[v]]]]
  /\ UNCHANGED <<log, earliest, built, snapshots, session, seen, shown, wrong, changes>>

\* serving_tier/replica/standby.py: the new version goes over the barrier; the old one is still read, before the barrier
take_over(n) ==
  LET new == log[Applied(n) + 1].version IN
  /\ Up(n) /\ Applied(n) # None /\ _find_barrier(n) /\ node[n].at[new] = Applied(n) /\ AllOver(n)
  /\ node' = IF Bug = "the old version goes over the barrier first"
             THEN [node EXCEPT ![n].at[node[n].live] = Applied(n) + 1, ![n].at[new] = Applied(n) + 1]
             ELSE [node EXCEPT ![n].at[new] = Applied(n) + 1]
  /\ UNCHANGED <<log, earliest, built, snapshots, session, seen, shown, wrong, changes>>

\* serving_tier/replica/standby.py: the new version is the one that is read
exchange(n) == \E new \in Versions \ {node[n].live} :
  LET over == node[n].at[new] IN
  /\ Up(n) /\ over > NOTHING /\ log[over].kind = "barrier" /\ log[over].version = new
  /\ over \in {Applied(n), Applied(n) + 1} /\ (over = Applied(n) => Bug = "the old version goes over the barrier first")
  /\ node' = [node EXCEPT ![n].live = new]
  /\ UNCHANGED <<log, earliest, built, snapshots, session, seen, shown, wrong, changes>>

\* serving_tier/replica/standby.py: the old one, and what was level with it, follow
follow_over(n) == \E old \in Versions :
  /\ Up(n) /\ Applied(n) > NOTHING /\ node[n].at[old] = Applied(n) - 1 /\ log[Applied(n)].kind = "barrier"
  /\ old # node[n].live
  /\ node' = [node EXCEPT ![n].at[old] = Applied(n)]
  /\ UNCHANGED <<log, earliest, built, snapshots, session, seen, shown, wrong, changes>>

RECURSIVE CaughtUp(_, _, _, _)
CaughtUp(v, took, o, until) == IF o > until THEN took ELSE CaughtUp(v, Folded(v, took, o), o + 1, until)

\* serving_tier/replica/standby.py: a version is fetched, and folds the log from its base until it is level
add(n, v) ==
  /\ Up(n) /\ v # node[n].live /\ built[v] # None /\ node[n].at[v] = None
  /\ Applied(n) >= built[v] /\ built[v] + 1 >= earliest /\ AllOver(n)
  /\ ~_find_barrier(n) \/ Bug # "nobody fetches the version of a barrier"
  /\ node' = [node EXCEPT ![n].at[v] = Applied(n),
                          ![n].took[v] = IF Bug = "a version skips what was written since its base" THEN {}
                                         ELSE CaughtUp(v, {}, built[v] + 1, Applied(n))]
  /\ UNCHANGED <<log, earliest, built, snapshots, session, seen, shown, wrong, changes>>

----------------------------------------------------------------------------
(* Nodes: serving_tier/node, serving_tier/snapshots *)

Changed == changes < ChangesMax /\ changes' = changes + 1
Floor == IF Bug = "a floor forgotten at a restart" THEN NOTHING ELSE Latest

\* serving_tier/replica/replica.py: the process starts again and finds its indexes
open(n) ==
  /\ Up(n) /\ Applied(n) # None /\ Changed
  /\ node' = [node EXCEPT ![n].floor = Floor]
  /\ UNCHANGED <<log, earliest, built, snapshots, session, seen, shown, wrong>>

\* serving_tier/folders.py: an index is not to be trusted, and goes
discard(n) ==
  /\ Up(n) /\ Applied(n) # None /\ Changed
  /\ node' = [node EXCEPT ![n] = [Absent EXCEPT !.role = node[n].role]]
  /\ UNCHANGED <<log, earliest, built, snapshots, session, seen, shown, wrong>>

\* versions that barriers behind an offset name, and that are not here
Leads(at, here) == \A o \in Barriers : o > at /\ log[o].job > JobAt(o - 1) =>
                     log[o].version \in here \/ built[log[o].version] # None

Sources == {[live |-> s.live, at |-> s.at, took |-> s.took] : s \in {each \in snapshots : each.at + 1 >= earliest}}
           \cup (IF earliest = 1 THEN {[live |-> 1, at |-> NOTHING, took |-> {}]} ELSE {})

\* serving_tier/snapshots/sources.py: the index comes from a snapshot, or from the log; one that leads to the end
bootstrap(n) == \E source \in Sources :
  /\ Up(n) /\ (Applied(n) = None \/ Applied(n) + 1 < earliest)
  /\ Leads(source.at, {source.live})
  /\ node' = [node EXCEPT ![n] = [Absent EXCEPT !.role = node[n].role, !.live = source.live, !.at[source.live] = source.at,
                                                !.took[source.live] = source.took, !.floor = Floor]]
  /\ UNCHANGED <<log, earliest, built, snapshots, session, seen, shown, wrong, changes>>

\* serving_tier/snapshots/take.py: a copy of the live index
take_snapshot(n) ==
  LET ahead == IF Bug = "a manifest ahead of its data" /\ Applied(n) < Latest THEN 1 ELSE 0 IN
  /\ Up(n) /\ Applied(n) > NOTHING /\ Cardinality(snapshots) < SnapshotsMax /\ node[n].live = LiveAt(Applied(n))
  /\ snapshots' = snapshots \cup {[live |-> node[n].live, at |-> Applied(n) + ahead, took |-> node[n].took[node[n].live],
                                   job |-> JobAt(Applied(n))]}
  /\ snapshots' # snapshots
  /\ UNCHANGED <<log, earliest, built, node, session, seen, shown, wrong, changes>>

\* log_tier/catalog/job_fold.py: a replica joins at another node, and only when it is ready the source leaves
_begin_move(m) ==
  /\ node[m].role = "absent" /\ Changed
  /\ node' = [node EXCEPT ![m].role = "joining"]
  /\ UNCHANGED <<log, earliest, built, snapshots, session, seen, shown, wrong>>

\* log_tier/catalog/job_fold.py: the target says that it is ready, and the source leaves
task_ready(n, m) ==
  /\ node[m].role = "joining" /\ node[n].role = "member"
  /\ (Applied(m) # None /\ Applied(m) >= node[m].floor) \/ Bug = "a move does not wait"
  /\ node' = [node EXCEPT ![m].role = "member", ![n] = Absent]
  /\ UNCHANGED <<log, earliest, built, snapshots, session, seen, shown, wrong, changes>>

----------------------------------------------------------------------------
(* Versions and the log's beginning: log_tier/catalog, serving_tier/jobs *)

Covering == {s \in snapshots : s.live = LiveAt(Latest) /\ s.job = JobAt(Latest)}

\* serving_tier/jobs/swapping.py: a version that was built at an offset is staged
stage_version(v) == \E base \in NOTHING..Latest :
  /\ v # 1 /\ built[v] = None /\ ~\E o \in Barriers : log[o].version = v
  /\ base + 1 >= earliest /\ built' = [built EXCEPT ![v] = base]
  /\ UNCHANGED <<log, earliest, node, snapshots, session, seen, shown, wrong, changes>>

\* serving_tier/jobs/swapping.py: a swap, a rollback, or the late barrier of an earlier job (`job` is not the newest)
put_barriers(v, job) ==
  /\ Cardinality(Barriers) < BarriersMax /\ job <= JobAt(Latest) + 1
  /\ v # LiveAt(Latest) /\ (job <= JobAt(Latest) => \E o \in Barriers : log[o].job = job /\ log[o].version = v)
  /\ \A n \in Nodes : Up(n) /\ Applied(n) # None => node[n].at[v] # None \* all hold it: log_tier/catalog/version_fold.py
  /\ \E n \in Nodes : node[n].at[v] # None
  /\ LET effective == job > JobAt(Latest) IN
     log' = Append(log, [kind |-> "barrier", version |-> v, job |-> job, took |-> FALSE, conditional |-> FALSE,
                         live |-> IF effective THEN v ELSE LiveAt(Latest),
                         last |-> IF effective THEN job ELSE JobAt(Latest)])
  /\ UNCHANGED <<earliest, built, node, snapshots, session, seen, shown, wrong, changes>>

\* log_tier/embedded/upkeep/trim.py: below a snapshot of the live version that holds the last barrier (C5)
trim_partition(before) ==
  /\ before > earliest /\ Changed /\ \A v \in Versions : built[v] # None => \E o \in Barriers : log[o].version = v
  /\ \E s \in (IF Bug = "a trim below a snapshot of before the barrier" THEN snapshots ELSE Covering) : before <= s.at + 1
  /\ earliest' = before
  /\ UNCHANGED <<log, built, node, snapshots, session, seen, shown, wrong>>

Next ==
  \/ \E s \in Sessions, is_conditional \in BOOLEAN : append(s, is_conditional)
  \/ \E s \in Sessions, n \in Nodes : may_answer(s, n)
  \/ \E s, other \in Sessions : merge(s, other)
  \/ \E n \in Nodes : apply(n)
  \/ \E n \in Nodes : take_over(n)
  \/ \E n \in Nodes : exchange(n)
  \/ \E n \in Nodes : follow_over(n)
  \/ \E n \in Nodes, v \in Versions : add(n, v)
  \/ \E n \in Nodes : open(n)
  \/ \E n \in Nodes : discard(n)
  \/ \E n \in Nodes : bootstrap(n)
  \/ \E n \in Nodes : take_snapshot(n)
  \/ \E n \in Nodes : _begin_move(n)
  \/ \E n, m \in Nodes : task_ready(n, m)
  \/ \E v \in Versions : stage_version(v)
  \/ \E v \in Versions, job \in 1..BarriersMax : put_barriers(v, job)
  \/ \E before \in 2..WritesMax + BarriersMax : trim_partition(before)
Spec == Init /\ [][Next]_vars
Fair == Spec /\ \A n \in Nodes :
  /\ WF_vars(apply(n)) /\ WF_vars(take_over(n)) /\ WF_vars(exchange(n)) /\ WF_vars(follow_over(n)) /\ WF_vars(bootstrap(n))
  /\ \A v \in Versions : WF_vars(add(n, v))
Symmetry == Permutations(Nodes) \cup Permutations(Sessions)

NoneOlder == "older" \notin wrong
NoneLess == "less" \notin wrong
Exact == "inexact" \notin wrong
Alike == \A n \in Nodes, v \in Versions : node[n].at[v] # None => node[n].took[v] = Content(v, node[n].at[v])
Joined == \E n \in Nodes : node[n].role = "joining" /\ node'[n].role = "member"
Hosted == [][Joined => \E n \in Nodes : node'[n].role = "member" /\ node'[n].at[node'[n].live] # None]_vars
Leading == \E source \in Sources : Leads(source.at, {source.live})
Way == [][earliest' # earliest /\ Leading => Leading']_vars
Level == \A n \in Nodes : []<>(Up(n) => Applied(n) = Latest)
=============================================================================
