"""What TLS, users and grants cost: each server with them and without, side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal

from bench.callers import run_async
from bench.drivers.driver import Driver
from bench.drivers.duramen import SERVER_NEEDS
from bench.workload import Bar, Measurement, Needs, RunSettings, Side, Workload
from bench.workloads.contenders import CONTENDERS, Contender, side_of
from bench.workloads.resp_endpoint import CONNECTIONS, GET, SET, Measure, by_benchmark
from bench.workloads.served import CALLERS, get_by, put_by

__all__ = ["SECURED"]

_SHARE: Final = 0.9
"""Of what the same server does without."""

_LOGINS_SHARE: Final = 1.2
"""The callers' p99, compared with that of a server at which nobody logs in."""


def _secured() -> Driver:
    from bench.drivers.secured import DuramenSecured

    return DuramenSecured()


def _resp_secured() -> Driver:
    from bench.drivers.secured import RespSecured

    return RespSecured()


def _redis_tls() -> Driver:
    from bench.drivers.secured import RedisTls

    return RedisTls()


def _etcd_with_users() -> Driver:
    from bench.drivers.secured import EtcdWithUsers

    return EtcdWithUsers()


def _side(name: str, role: Literal["subject", "peer"], like: str, measure: Measure, make: Callable[[], Driver]) -> Side:
    return side_of(name, Contender(role, make, CONTENDERS[like].needs), measure)


def _plain(name: str, like: str, measure: Measure) -> Side:
    return _side(name, "peer", like, measure, CONTENDERS[like].make)


def _served(name: str, title: str, measure: Measure) -> Workload:
    return Workload(
        name,
        f"{title}, {CALLERS} concurrent callers, one client process",
        (
            _side("secured", "subject", "duramen", measure, _secured),
            _plain("open", "duramen", measure),
            _side("etcd-users", "peer", "etcd", measure, _etcd_with_users),
            _plain("etcd", "etcd", measure),
        ),
        (Bar("per_second", "at least", _SHARE, "open", "secured"),),
    )


def _resp(name: str, title: str, command: tuple[str, ...]) -> Workload:
    measure = by_benchmark(command, connections=CONNECTIONS)
    sides = (
        _side("secured", "subject", "resp", measure, _resp_secured),
        _plain("open", "resp", measure),
        _side("redis-tls", "peer", "redis", measure, _redis_tls),
        _plain("redis", "redis", measure),
    )
    load = Needs((), ("redis-benchmark",), "Debian: redis-tools")
    return Workload(
        name,
        f"{title}, {CONNECTIONS} connections, redis-benchmark",
        tuple(replace(side, needs=_both(side.needs, load)) for side in sides),
        (Bar("per_second", "at least", _SHARE, "open", "secured"),),
    )


def _both(one: Needs, other: Needs) -> Needs:
    return Needs(one.modules, (*one.binaries, *other.binaries), f"{one.install}; {other.install}", one.here)


def _logins(name: str, *, log_in: bool) -> Side:
    """The callers' puts; with `log_in` another process has clients log in with a password meanwhile."""

    async def once(settings: RunSettings) -> Measurement:
        from bench.drivers.secured import DuramenLogins

        driver = DuramenLogins()
        said = ""
        try:
            await driver.start(settings.folder)
            await driver.give_password()
            logins = await driver.start_logins() if log_in else None
            try:
                metrics = await put_by(CALLERS)(driver, settings)
            finally:
                if logins is not None:
                    done, _ = await logins.communicate(b"")
                    assert int(done) > 0, "nobody has logged in"
                    said = f"; meanwhile {int(done)} logins with a password (argon2id), one after the other"
        finally:
            await driver.stop()
        return Measurement(metrics, driver.version, driver.note + said)

    return Side(name, "subject" if log_in else "peer", lambda settings: run_async(once(settings)), SERVER_NEEDS)


SECURED: Final = (
    _served("secured_put_256", "durable put with TLS, users and grants", put_by(CALLERS)),
    _served("secured_get_256", "get with TLS, users and grants", get_by(CALLERS)),
    _resp("secured_resp_get_50", "GET with TLS and users", GET),
    _resp("secured_resp_set_50", "SET with TLS and users, acknowledged after its sync", SET),
    Workload(
        "secured_logins",
        f"durable put, {CALLERS} callers, while clients log in with passwords (argon2id)",
        (_logins("secured", log_in=True), _logins("no-logins", log_in=False)),
        (Bar("p99_us", "at most", _LOGINS_SHARE, "no-logins", "secured"),),
    ),
)
