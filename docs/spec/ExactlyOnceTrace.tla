-------------------------- MODULE ExactlyOnceTrace --------------------------
(* A run of the code, held against ExactlyOnce: each step of the trace must be a step of the specification.

`tests/spec/trace.py` runs the simulation of a database, writes down what its clients sent and were answered and what its
replica folded, and makes the module `TraceData` of it. The trace is accepted where TLC comes to its end: it then reports
that `Unfinished` does not hold. A step that the specification does not allow ends the search before. What the code found
(a duplicate, the offset of the copy that counts) is part of a step, so a wrong verdict is refused too. *)

EXTENDS ExactlyOnce, TraceData

VARIABLE step

Event == Trace[step + 1]
Is(name) == step < Len(Trace) /\ Event.name = name /\ step' = step + 1
Originals(i, o) == {each.original : each \in {one \in i.originals : one.offset = o}}

TraceNext ==
  \/ Is("_encoded") /\ _encoded(Event.producer) /\ Len(sent'[Event.producer]) = Event.write
  \/ Is("_try") /\ _try(Event.producer) /\ Len(sent[Event.producer]) = Event.write
  \/ Is("_give_up") /\ _give_up(Event.producer)
  \/ Is("append") /\ append(Event.producer, Event.write) /\ Len(log') = Event.offset
  \/ Is("answered") /\ answered(Event.producer, Event.offset) /\ misled' = {}
  \/ Is("outcomes_between") /\ \E r \in Replicas :
       /\ outcomes_between(Event.producer, Event.offset, r) /\ misled' = {}
       /\ Event.original = (IF Originals(index[r], Event.offset) = {} THEN Event.offset
                            ELSE Max(Originals(index[r], Event.offset)))
  \/ Is("fold_in") /\ \E r \in Replicas :
       /\ fold_in(r) /\ index'[r].applied = Event.offset
       /\ Event.void = (Originals(index'[r], Event.offset) # {})
  \/ Is("discard") /\ \E r \in Replicas : discard(r)

TraceSpec == Init /\ step = 0 /\ [][TraceNext]_<<vars, step>>
Unfinished == step < Len(Trace)
=============================================================================
