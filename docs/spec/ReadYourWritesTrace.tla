------------------------- MODULE ReadYourWritesTrace -------------------------
(* A run of the code, held against ReadYourWrites: each step of the trace must be a step of the specification.

`tests/spec/read_trace.py` runs the simulation of a cluster, writes down with which floors replicas began, what they
folded, and from which state nodes answered reads, and makes the module `TraceData` of it. The trace is accepted where
TLC comes to its end: it then reports that `Unfinished` does not hold. A step that the specification does not allow ends
the search before. The state that an answer shows and the floor of a replica are part of a step, so an answer that is too
old is refused, and a floor that is too low. *)

EXTENDS ReadYourWrites, TraceData

VARIABLE step

Event == Trace[step + 1]
Is(name) == step < Len(Trace) /\ Event.name = name /\ step' = step + 1
Begins(n) == node'[n].at[1] = Event.offset /\ node'[n].floor = Event.floor

TraceNext ==
  \/ Is("append") /\ append(Event.session, FALSE) /\ Latest' = Event.offset
  \/ Is("merge") /\ merge(Event.session, Event.other)
  \/ Is("apply") /\ apply(Event.node) /\ node'[Event.node].at[1] = Event.offset
  \/ Is("may_answer") /\ may_answer(Event.session, Event.node) /\ Applied(Event.node) = Event.offset /\ wrong' = {}
  \/ Is("open") /\ open(Event.node) /\ Begins(Event.node)
  \/ Is("discard") /\ discard(Event.node)
  \/ Is("_begin_move") /\ _begin_move(Event.node)
  \/ Is("bootstrap") /\ bootstrap(Event.node) /\ Begins(Event.node)
  \/ Is("take_snapshot") /\ take_snapshot(Event.node) /\ Applied(Event.node) = Event.offset

TraceSpec == Init /\ Up(First) /\ step = 0 /\ [][TraceNext]_<<vars, step>>
Unfinished == step < Len(Trace)
=============================================================================
