"""What it costs to be looked at: a server that is scraped and has a console open, and one that traces, side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal

from bench.drivers.driver import Driver
from bench.workload import Bar, Needs, Side, Workload
from bench.workloads.contenders import CONTENDERS, Contender, side_of
from bench.workloads.resp_endpoint import CONNECTIONS, GET, Measure, by_benchmark
from bench.workloads.served import CALLERS, get_by, put_by

__all__ = ["SIGHT"]

_WATCHED_SHARE: Final = 0.98
_TRACED_SHARE: Final = 0.95
"""Of what the same server does that nobody can look at."""

_OTEL: Final = Needs(("opentelemetry.sdk.trace:TracerProvider",), (), "extra: duramen[otel]")
_LOAD: Final = Needs((), ("redis-benchmark",), "Debian: redis-tools")


def _watched() -> Driver:
    from bench.drivers.watched import DuramenWatched

    return DuramenWatched()


def _unseen() -> Driver:
    from bench.drivers.watched import DuramenUnseen

    return DuramenUnseen()


def _traced() -> Driver:
    from bench.drivers.watched import DuramenTraced

    return DuramenTraced()


def _resp_watched() -> Driver:
    from bench.drivers.watched import RespWatched

    return RespWatched()


def _resp_unseen() -> Driver:
    from bench.drivers.watched import RespUnseen

    return RespUnseen()


def _side(
    name: str,
    role: Literal["subject", "peer"],
    like: str,
    measure: Measure,
    make: Callable[[], Driver],
    needs: Needs | None = None,
) -> Side:
    side = side_of(name, Contender(role, make, CONTENDERS[like].needs), measure)
    if needs is None:
        return side
    both = Needs(
        (*side.needs.modules, *needs.modules), (*side.needs.binaries, *needs.binaries), needs.install, side.needs.here
    )
    return replace(side, needs=both)


def _served(name: str, title: str, measure: Measure) -> Workload:
    return Workload(
        name,
        f"{title}, {CALLERS} concurrent callers, one client process",
        (
            _side("watched", "subject", "duramen", measure, _watched),
            _side("unseen", "peer", "duramen", measure, _unseen),
        ),
        (Bar("per_second", "at least", _WATCHED_SHARE, "unseen", "watched"),),
    )


def _traced_workload(name: str, title: str, measure: Measure) -> Workload:
    return Workload(
        name,
        f"{title}, {CALLERS} concurrent callers, one client process, one call of a hundred traced",
        (
            _side("traced", "subject", "duramen", measure, _traced, _OTEL),
            _side("unseen", "peer", "duramen", measure, _unseen),
        ),
        (Bar("per_second", "at least", _TRACED_SHARE, "unseen", "traced"),),
    )


_RESP_GET: Final = by_benchmark(GET, connections=CONNECTIONS)

SIGHT: Final = (
    _served("sight_put_256", "durable put while the server is looked at", put_by(CALLERS)),
    _served("sight_get_256", "get while the server is looked at", get_by(CALLERS)),
    Workload(
        "sight_resp_get_50",
        f"GET while the server is looked at, {CONNECTIONS} connections, redis-benchmark",
        (
            _side("watched", "subject", "resp", _RESP_GET, _resp_watched, _LOAD),
            _side("unseen", "peer", "resp", _RESP_GET, _resp_unseen, _LOAD),
        ),
        (Bar("per_second", "at least", _WATCHED_SHARE, "unseen", "watched"),),
    ),
    _traced_workload("sight_traced_put_256", "durable put", put_by(CALLERS)),
    _traced_workload("sight_traced_get_256", "get", get_by(CALLERS)),
)
