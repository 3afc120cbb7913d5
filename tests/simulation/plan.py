"""What a seed draws: the shape of a log, what its clients call, and what goes wrong. Plain data that can be shrunk."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

from duramen.testing.machine.fault import DAMAGES, FAULTS, LOST_END, FaultKind, MachineFault
from duramen.testing.machine.node_disk.node_fault import NodeFault
from simulation.node_faults import commit_faults_of, node_faults_of

__all__ = [
    "INCIDENTS",
    "TASK",
    "Call",
    "CallKind",
    "ClockStep",
    "Incident",
    "IncidentKind",
    "Plan",
    "Trims",
    "plan_of",
]

CallKind = Literal["append", "together", "gathered", "trim", "compact", "create", "delete", "restart"]
IncidentKind = Literal[
    "cut", "one way", "late", "behind", "slow", "reset", "reset reply", "pause", "kill", "stop", "copies"
]

INCIDENTS: Final[dict[IncidentKind, str]] = {
    "cut": "nothing passes between two processes for a while",
    "one way": "nothing passes from one process to another one for a while",
    "late": "what passes between two processes is late for a while",
    "behind": "a node gets late what the log sends, for a while, and answers at once from what it has",
    "slow": "what a node answers to clients is late for a while",
    "reset": "the connections of two processes are reset",
    "reset reply": "they are reset by the next message from one to the other, which is lost",
    "pause": "a process is paused for a while",
    "kill": "a process is killed, and started again after a while",
    "stop": "a process is stopped as an operator stops it, and started again after a while",
    "copies": "some requests of a process arrive at another one a second time, later",
}

PROCESSES: Final = ("n1", "n2", "n3", "router", "log", "clients")
"""Of a cluster."""
TASK: Final = "task"
"""In an aimed incident: the node that does the task."""
_NODES: Final = ("n1", "n2", "n3")
_KILLED: Final = ("n1", "n2", "n3", "router")
_DRAWN: Final[tuple[IncidentKind, ...]] = tuple(each for each in INCIDENTS if each != "copies")
"""The kinds of which a run draws its own mix; copies have a stream of their own, which moves no other draw."""

_AIMED: Final[tuple[IncidentKind, ...]] = (
    "kill",
    "kill",
    "stop",
    "pause",
    "cut",
    "one way",
    "late",
    "behind",
    "slow",
    "reset",
    "reset reply",
)

_LENGTH_S: Final = 12.0
_UNEVEN_CHANCE: Final = 0.3
_COPIES_CHANCE: Final = 0.3
_USERS_CHANCE: Final = 0.3
_QUOTAS_CHANCE: Final = 0.5
_PLACES_CHANCE: Final = 0.5
_PASSWORDS_CHANCE: Final = 0.5
_AUDIT_CHANCE: Final = 0.5
_COPIERS: Final = ("clients", "clients", "router", *_NODES)
_COPIED_TO: Final = ("log", "log", "router", *_NODES)
_TRIMS_CHANCE: Final = 0.3
_DAMAGES_CHANCE: Final = 0.25
_PUT_BACK_CHANCE: Final = 0.1
_OPENINGS_CHANCE: Final = 0.75
_CLOCKS_CHANCE: Final = 0.35
_COPIED_S_MAX: Final = 2.5
_CALLS: Final[tuple[CallKind, ...]] = get_args(CallKind)


@dataclass(frozen=True)
class Call:
    """One call of one client."""

    at_s: float
    client: int
    kind: CallKind
    number: int
    """Names what it writes; drawn once, so that a shrunk plan writes the same."""
    partitions: tuple[int, ...] = ()
    records: int = 1
    size: int = 10
    hot: bool = False
    """Whether it writes to keys that others write too."""


@dataclass(frozen=True)
class Incident:
    """Something happens to processes of a cluster, or to the network between two of them."""

    at_s: float
    kind: IncidentKind
    one: str
    other: str
    seconds: float
    keeps: bool
    """Whether a killed node finds its indexes again."""
    late_s: float = 0.0
    """What is late is at most so late, copies of requests too."""
    aimed: bool = False
    """Whether it waits for a task of a job: it happens `delay_s` after one is seen, `TASK` is the node of that task."""
    delay_s: float = 0.0


@dataclass(frozen=True)
class ClockStep:
    """The wall clock of a process is set."""

    at_s: float
    process: str
    """Of a cluster; other worlds have one process, whose clock it is."""
    seconds: float
    """Negative: set back."""


@dataclass(frozen=True)
class Trims:
    """How the log of a cluster gets shorter."""

    snapshot_every_s: float
    """0: snapshots only on demand."""
    retention_ms: int
    retention_bytes: int
    """What an operator sets now and then for the table; the other bound is none, or both are."""
    round_s: float
    """How often nodes look whether the retention lets records go."""
    pause_s: float
    """Of the operator, on average."""


@dataclass(frozen=True)
class Plan:
    """One run."""

    seed: int
    partitions: int
    segment_bytes: int
    journal_bytes: int
    tail_bytes: int
    open_segments: int
    quick: bool
    """Whether commits may be made in a caller's thread."""
    calls: tuple[Call, ...]
    faults: tuple[MachineFault, ...]
    damages: tuple[MachineFault, ...] = ()
    """Of the log alone: its disk lies."""
    openings: tuple[MachineFault, ...] = ()
    """Of the log alone: what strikes while its life of the number `at_s` begins, at the change after `steps` ones."""
    incidents: tuple[Incident, ...] = ()
    """Of a cluster; other worlds have one process."""
    node_faults: tuple[NodeFault, ...] = ()
    """Of the disks of a cluster's nodes."""
    clock_steps: tuple[ClockStep, ...] = ()
    expiring: float = 0.0
    """Of the writes of clients of the Python API, so many are about expiries."""
    trims: Trims | None = None
    """Of a cluster; None: its log keeps everything."""
    copied_s: float | None = None
    """Of a cluster: when a copy of the log is made that is put back later, with everything stopped; None: never."""

    def has_users(self, what: str = "users") -> bool:
        """Has a cluster users? `what` is drawn: those of a world have a stream of their own. Not where requests of
        clients are copied: a copied grant is one more grant. Nor where the log is put back: the users may go with its
        end.
        """
        copied = any(each.kind == "copies" and each.one == "clients" for each in self.incidents)
        return not copied and self.copied_s is None and random.Random(f"{what} {self.seed}").random() < _USERS_CHANCE

    def has_quotas(self, what: str = "users") -> bool:
        """Have some of these users quotas? See `has_users`."""
        return self.has_users(what) and random.Random(f"quotas {self.seed}").random() < _QUOTAS_CHANCE

    def has_places(self, what: str = "users") -> bool:
        """Are watches of others bounded, where nobody has a quota of calls? See `has_users`."""
        return (
            self.has_users(what)
            and not self.has_quotas(what)
            and random.Random(f"places {self.seed}").random() < _PLACES_CHANCE
        )

    def has_table_quotas(self, what: str = "users") -> bool:
        """Have tables quotas, where no user has one? See `has_users`."""
        return self.has_users(what) and not self.has_quotas(what) and not self.has_places(what)

    def has_passwords(self, what: str = "users") -> bool:
        """Have some of these users passwords? See `has_users`."""
        return self.has_users(what) and random.Random(f"passwords {self.seed}").random() < _PASSWORDS_CHANCE

    def has_audit(self, what: str = "users") -> bool:
        """Does a cluster with these users write its audit? See `has_users`."""
        return self.has_users(what) and random.Random(f"audit {self.seed}").random() < _AUDIT_CHANCE

    @property
    def copies_s(self) -> float:
        """How late a copy of a request may arrive at most; 0: none is copied."""
        return max((each.late_s for each in self.incidents if each.kind == "copies"), default=0.0)

    @property
    def is_uneven(self) -> bool:
        """Whether, from the start, the node that has everything answers late, and the others have not all."""
        return any(each.kind == "slow" and each.at_s == 0 for each in self.incidents)


def plan_of(seed: int) -> Plan:
    """The plan of a seed. Which kinds of calls and faults there are is drawn first: some runs have few kinds."""
    chance = random.Random(f"plan {seed}")
    partitions = chance.choice((1, 2, 3, 3, 5))
    copied_s = _copied_s(random.Random(f"copy {seed}"))
    weights = {kind: chance.choice((0, 1, 3)) for kind in _CALLS}
    weights["append"] = max(1, weights["append"]) * 4
    weights["together"] *= 4
    weights["gathered"] *= 4
    for rare in ("create", "delete", "restart"):
        weights[rare] = chance.choice((0, 0, 1))
    kinds = chance.choices(tuple(weights), tuple(weights.values()), k=chance.randrange(20, 160))
    calls = tuple(sorted((_call(chance, number, kind, partitions) for number, kind in enumerate(kinds)), key=_at))
    possible = [kind for kind in FAULTS if chance.random() < 0.5] or ["power"]
    faults = tuple(sorted((_fault(chance, possible) for _ in range(chance.randrange(1, 7))), key=_at))
    late = _copies(random.Random(f"late copies {seed}"))
    disks = node_faults_of(random.Random(f"node disks {seed}"), _NODES, length_s=_LENGTH_S)
    commits = commit_faults_of(random.Random(f"commits {seed}"), _NODES, length_s=_LENGTH_S)
    return Plan(
        seed,
        partitions,
        segment_bytes=chance.choice((1024, 2048, 8192, 1 << 20)),
        journal_bytes=chance.choice((1500, 4096, 65536)),
        tail_bytes=chance.choice((0, 2000, 1 << 20)),
        open_segments=chance.choice((0, 0, 2)),
        quick=chance.random() < 0.5,
        calls=calls,
        faults=faults,
        damages=_damages(random.Random(f"damages {seed}")),
        openings=_openings(random.Random(f"openings {seed}")),
        incidents=tuple(sorted((*_incidents(random.Random(f"incidents {seed}")), *late), key=_at)),
        node_faults=tuple(sorted((*disks, *commits), key=_at)),
        clock_steps=_clock_steps(random.Random(f"clocks {seed}")),
        expiring=random.Random(f"expiring {seed}").choice((0.0, 0.0, 0.2)),
        trims=None if copied_s is not None else _trims(random.Random(f"trims {seed}")),
        copied_s=copied_s,
    )


def _damages(chance: random.Random) -> tuple[MachineFault, ...]:
    if chance.random() > _DAMAGES_CHANCE:
        return ()
    possible = [kind for kind in DAMAGES if chance.random() < 0.6] or ["flip"]
    damages = [_fault(chance, possible) for _ in range(chance.choice((1, 1, 2, 4)))]
    damages += [_fault(chance, [LOST_END]) for _ in range(chance.choice((0, 0, 1, 3)))]
    return tuple(sorted(damages, key=_at))


def _openings(chance: random.Random) -> tuple[MachineFault, ...]:
    if chance.random() > _OPENINGS_CHANCE:
        return ()
    kinds: tuple[FaultKind, ...] = ("power", "power", "kill", "sync", "write")
    # The first life has hardly begun when its folder is made.
    first: tuple[FaultKind, ...] = ("kill", "kill", "power", "sync", "write")
    return tuple(
        MachineFault(
            life,
            chance.choice(kinds if life > 1 else first),
            steps=chance.randrange(25 if life > 1 else 6),
            seed=chance.getrandbits(32),
        )
        for life in range(1, 9)
        if chance.random() < 0.6
    )


def _copied_s(chance: random.Random) -> float | None:
    return chance.random() * _COPIED_S_MAX if chance.random() < _PUT_BACK_CHANCE else None


def _trims(chance: random.Random) -> Trims | None:
    if chance.random() > _TRIMS_CHANCE:
        return None
    return Trims(
        snapshot_every_s=chance.choice((0.0, 1.0, 2.5)),
        retention_ms=chance.choice((500, 2000)),
        retention_bytes=chance.choice((5000, 20_000)),
        round_s=chance.choice((0.3, 1.0)),
        pause_s=chance.choice((0.2, 0.5, 1.0)),
    )


def _clock_steps(chance: random.Random) -> tuple[ClockStep, ...]:
    if chance.random() > _CLOCKS_CHANCE:
        return ()
    # Half of them happen to the log's clock, which has most to say.
    processes = ("log", "log", "log", *_NODES)
    steps = [
        ClockStep(
            chance.random() * _LENGTH_S,
            chance.choice(processes),
            chance.choice((-1, 1)) * chance.choice((0.03, 1.0, 60.0, 86_400.0)) * (0.5 + chance.random()),
        )
        for _ in range(chance.choice((1, 2, 5)))
    ]
    return tuple(sorted(steps, key=_at))


def _incidents(chance: random.Random) -> tuple[Incident, ...]:
    possible = [kind for kind in _DRAWN if chance.random() < 0.4] or ["kill"]
    incidents = [_incident(chance, possible) for _ in range(chance.randrange(1, 9))]
    if chance.random() < _UNEVEN_CHANCE:
        # The node that has everything answers late, the others have not all: what is asked twice may be answered old.
        slow, *behind = chance.sample(_NODES, 3)
        for at_s in range(0, int(_LENGTH_S), 3):
            late_s = chance.choice((0.5, 1.5))
            incidents += [Incident(at_s, "behind", "log", node, 3.0, True, late_s=late_s) for node in behind]
            incidents.append(Incident(at_s, "slow", slow, "clients", 3.0, True, late_s=0.3))
    incidents += [_aimed(chance) for _ in range(chance.choice((0, 2, 4, 8)))]
    return tuple(sorted(incidents, key=_at))


def _copies(chance: random.Random) -> Iterator[Incident]:
    """Requests that arrive a second time: soon, or when the sender has long gone on."""
    if chance.random() > _COPIES_CHANCE:
        return
    for _ in range(chance.choice((2, 4, 8))):
        one, other = chance.choice(_COPIERS), chance.choice(_COPIED_TO)
        if one != other:
            at_s, seconds = chance.random() * _LENGTH_S / 2, chance.choice((2.0, 8.0)) * (0.5 + chance.random())
            yield Incident(at_s, "copies", one, other, seconds, True, late_s=chance.choice((0.02, 0.3, 2.0, 6.0)))


def _aimed(chance: random.Random) -> Incident:
    """At the node of a task, or at whom it needs: the log's server, the router, another node."""
    kind = chance.choice(_AIMED)
    one, other = chance.choice((TASK, TASK, TASK, "log", "router")), chance.choice(("log", *_NODES))
    if kind == "behind":
        one, other = "log", TASK
    elif one == other or kind == "slow":
        one, other = TASK, "clients" if kind == "slow" else "log"
    seconds = chance.choice((0.02, 0.3, 1.0, 3.0)) * (0.5 + chance.random())
    delay_s = chance.choice((0.0, 0.002, 0.02, 0.3)) * chance.random()
    at_s, keeps = chance.random() * _LENGTH_S, chance.random() < 0.5
    return Incident(at_s, kind, one, other, seconds, keeps, late_s=seconds / 4, aimed=True, delay_s=delay_s)


def _incident(chance: random.Random, possible: list[IncidentKind]) -> Incident:
    kind = chance.choice(possible)
    one, other = chance.sample(PROCESSES, 2)
    if kind in ("kill", "stop"):
        one = chance.choice(_KILLED)
    elif kind == "behind":
        one, other = "log", chance.choice(_NODES)
    elif kind == "slow":
        one, other = chance.choice(_NODES), "clients"
    seconds = chance.choice((0.02, 0.3, 1.0, 3.0, 12.0)) * (0.5 + chance.random())
    at_s, keeps = chance.random() * _LENGTH_S, chance.random() < 0.5
    return Incident(at_s, kind, one, other, seconds, keeps, late_s=seconds / 4)


def _at(one: Call | ClockStep | MachineFault | Incident | NodeFault) -> float:
    return one.at_s


def _call(chance: random.Random, number: int, kind: CallKind, partitions: int) -> Call:
    # Calls come in bursts, so that several share a commit.
    at_s = chance.randrange(1, 30) * _LENGTH_S / 30 + chance.random() * chance.choice((0.0001, 0.01, 0.3))
    many = kind in ("together", "gathered")
    wanted = chance.sample(range(partitions), chance.randrange(1, partitions + 1) if many else 1)
    return Call(
        at_s,
        chance.randrange(6),
        kind,
        number,
        tuple(sorted(wanted)),
        records=chance.choice((1, 1, 1, 3, 8)),
        size=chance.choice((10, 10, 100, 700)),
        hot=chance.random() < 0.4,
    )


def _fault(chance: random.Random, possible: list[FaultKind]) -> MachineFault:
    return MachineFault(
        chance.random() * _LENGTH_S,
        chance.choice(possible),
        steps=chance.choice((0, 1, 2, 3, chance.randrange(40))),
        seconds=chance.random() * 2,
        seed=chance.getrandbits(32),
    )
