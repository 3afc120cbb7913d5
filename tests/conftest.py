"""What all tests need before anything is imported."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings
from kit.kafka.kafka_brokers import kafka, kafka_url, start_brokers, three_brokers
from kit.late.lateness import lateness
from kit.log.log_choice import log_of_the_databases
from kit.marked_files import has_mark, wanted_mark
from kit.spark.spark_session import prepare_starts, spark
from kit.storage.s3_server import bucket, s3_address

__all__ = [
    "bucket",
    "kafka",
    "kafka_url",
    "lateness",
    "log_of_the_databases",
    "s3_address",
    "spark",
    "start_brokers",
    "three_brokers",
]

# A background job of a script, and some CI systems, start us with SIGINT ignored, and so would everything that we start
# be: what tests interrupt would not hear it. A signal that has a handler here has its default in what is started.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start processes while gRPC runs in this one. Its handlers around fork can leave a child waiting for a thread
# that it does not have; our children run another program at once and need nothing of it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# Hypothesis ends an example that takes 200 ms, and calls it flaky when it is quicker the second time. On a busy machine
# any example may take that long. What hangs ends by pytest's limit.
settings.register_profile("any load", deadline=None)
settings.load_profile("any load")


CLUSTER_SEEDS_MIN = 400
"""With so many every step of a job meets a fault; a part of a campaign has fewer."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--log kafka`: the end-to-end tests with their log on a real broker."""
    parser.addoption("--log", choices=["embedded", "kafka"], default="embedded", help="where databases have their log")
    parser.addoption("--slow-replicas", type=float, default=0.0, help="seconds that a replica waits before it applies")
    parser.addoption("--slow-reports", type=float, default=0.0, help="seconds that maps and nodes' reports are late")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A run for one mark, such as `-m kafka`, imports the files that have it, and no others."""
    if collection_path.suffix != ".py" or (mark := wanted_mark(config.option.markexpr)) is None:
        return None
    return None if has_mark(collection_path, mark) else True


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before the workers of a run for Spark begin: they inherit the options of its Java processes."""
    if wanted_mark(session.config.option.markexpr) == "spark" and not hasattr(session.config, "workerinput"):
        prepare_starts()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without Python's collector of cycles, and have it never look at them.

    They are a million objects that live as long as the process. The collector went through all of them again and again
    while they were made, and in every full collection of every test.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A campaign fails where a step of a job met no fault in any of its seeds."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if (
        os.environ.get("DURAMEN_CAMPAIGN") == "1"
        and reporter is not None
        and not hasattr(session.config, "workerinput")
    ):
        seeds, met = _simulated(reporter)
        if seeds["cluster"] >= CLUSTER_SEEDS_MIN:
            from simulation.job_steps import never_met

            if session.exitstatus == 0 and never_met(sum(met.values(), Counter[str]())):
                session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the simulation has run and met, over all workers; at the end of a campaign on one page."""
    seeds, met = _simulated(terminalreporter)
    if not seeds.total():
        return
    steps = {name: count for name, count in sum(met.values(), Counter[str]()).items() if not name.startswith("answer")}
    run = ", ".join(f"{count} of {world}" for world, count in seeds.items())
    terminalreporter.write_line(
        f"simulation: {seeds.total()} seeds ({run}); {sum(steps.values())} faults at {len(steps)} kinds of steps"
    )
    if os.environ.get("DURAMEN_CAMPAIGN") == "1":
        # Imported late: it takes with it everything that the simulation runs.
        from simulation.page import page

        failed = [each for each in terminalreporter.stats.get("failed", []) if "tests/simulation/" in each.nodeid]
        for line in page(seeds, met, len(failed)):
            terminalreporter.write_line(line)


def _simulated(reporter: pytest.TerminalReporter) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """By world: how many seeds were run, and what they met."""
    seeds, met = Counter[str](), defaultdict[str, Counter[str]](Counter)
    for report in reporter.stats.get("passed", []):
        noted = dict(report.user_properties)
        if (world := noted.get("simulation world")) is not None:
            seeds[world] += noted["simulation seeds"]
            met[world] += Counter(noted["simulation met"])
    return seeds, met


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What does not touch the log that was chosen says so, and is left out where that is not the embedded one."""
    if config.getoption("--log") != "embedded":
        for item in items:
            if item.get_closest_marker("embedded_log_only") is not None:
                item.add_marker(pytest.mark.skip(reason="about the embedded log, or no log"))
