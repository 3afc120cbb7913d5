"""Every command and every line of Python in the README and in `docs/START.md` runs, and gives what the page says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from kit.deadlines import patience_s
from kit.kafka.foreign import make_topic
from kit.pages.markdown import TOP, Block, blocks_of
from kit.pages.terminal import Terminal

from spark_bulk.spark_session import java_problem

README = TOP / "README.md"
START = TOP / "docs" / "START.md"

_PROGRAM = """
from duramen import testing

def test_orders(duramen_table):
    duramen_table.put(b"order-1", b"open")

@testing.simulated(seeds=20)
async def test_a_node_dies():
    async with testing.Cluster(nodes=2) as cluster:
        table = await (await cluster.connect()).create_table("orders")
        cluster.faults.kill("n2")
        await table.put(b"order-1", b"open")
        cluster.faults.start("n2")
        await cluster.check()
"""

# The two commands of the Makefile; what they run is run by tests/examples and by this suite.
MAKE = "make demo"


@pytest.fixture
def sit_down(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Makes terminals in a folder of the test's own, and ends what runs there."""
    made: list[Terminal] = []

    def make(**settings: object) -> Terminal:
        made.append(Terminal(tmp_path, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.close()


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if MAKE not in block.text]


def kind_of(block: Block) -> str:
    """What a block needs: nothing but Duramen, a package index, grpcurl, Kafka, or Spark."""
    if "pip install" in block.text:
        return "install"
    if "grpcurl" in block.text:
        return "grpcurl"  # run by tests/clients/test_grpc_page.py
    if "kafka://" in block.text:
        return "kafka"
    return "spark" if "spark" in block.heading.lower() else "plain"


def blocks(page: Path, kind: str) -> list[Block]:
    return [block for block in runnable(page) if kind_of(block) == kind]


def test_every_block_is_run_by_a_test_of_its_kind() -> None:
    for page in (README, START):
        for block in runnable(page):
            assert block.language == "python" or block.is_terminal, f"{page.name}:{block.line} is run by nothing"
    assert [len(blocks(README, kind)) for kind in ("install", "plain", "grpcurl", "kafka", "spark")] == [1, 6, 1, 1, 2]
    assert [len(blocks(START, kind)) for kind in ("install", "kafka", "spark")] == [1, 0, 0]


def test_getting_started(sit_down: Callable[..., Terminal]) -> None:
    need_redis_cli()
    terminal = sit_down(ports=(7070, 6379))
    for block in blocks(START, "plain"):
        terminal.check_block(block)
    assert terminal.compared >= 13


@pytest.mark.timeout(600)
def test_the_readme(sit_down: Callable[..., Terminal]) -> None:
    need_redis_cli()
    terminal = sit_down(ports=(7070, 7080, 6379))
    for block in blocks(README, "plain"):
        terminal.check_block(block)
    assert terminal.compared >= 3


@pytest.mark.timeout(600)
def test_the_installation(tmp_path: Path) -> None:
    """As both pages say, in a copy of the clone: without `.venv`, and without what is built."""
    (block,), (other,) = blocks(README, "install"), blocks(START, "install")
    assert block.text == other.text, "one installation is run for both pages"
    copy = tmp_path / "clone"
    copy.mkdir()
    for name in ("log_tier", "serving_tier", "router", "spark_bulk", "duramen", "protos"):
        shutil.copytree(TOP / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(TOP / name, copy / name)
    script = "\n".join(line.removeprefix("$ ") for line in block.text.splitlines())
    # What is installed tests a program, too: the kit is in the wheel, and pytest finds its plugin.
    program = tmp_path / "program"
    program.mkdir()
    (program / "test_program.py").write_text(_PROGRAM)
    script += f"\npip install -q pytest\ncd {program}\npython -m pytest -q -p no:cacheprovider --duramen-seeds 2"
    script += "\npython -m pytest -q -p no:cacheprovider -p no:duramen -k node_dies"
    path = f"{Path(sys.executable).resolve().parent}{os.pathsep}{os.environ['PATH']}"
    environment: Mapping[str, str] = {**os.environ, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        ["bash", "-e", "-c", script + "\ncd /\nduramen --version"],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        timeout=patience_s(500),
        check=False,
    )
    if "Could not find a version" in done.stderr or "No matching distribution" in done.stderr:
        pytest.skip("no package index is reached from here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "1 passed, 1 deselected" in done.stdout, "without the plugin"
    assert done.stdout.splitlines()[-1].startswith("duramen ")


@pytest.mark.kafka
def test_the_readme_on_kafka(kafka: str, sit_down: Callable[..., Terminal]) -> None:
    make_topic(kafka, name="orders-v1", partitions=2)
    terminal = sit_down(ports=(7070,), words={"broker1:9092,broker2:9092": f"{kafka}/t{uuid.uuid4().hex[:12]}"})
    for block in blocks(README, "kafka"):
        terminal.check_block(block)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_readme_with_spark(
    tmp_path: Path, sit_down: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := java_problem():
        pytest.skip(reason)
    import pyarrow
    from pyarrow import parquet
    from pyspark.sql import SparkSession

    begun_before = SparkSession.getActiveSession() is not None
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # what `python3` is in an activated environment
    rows = {"id": [f"A{number}" for number in range(100)], "value": [f"ship {number}" for number in range(100)]}
    parquet.write_table(pyarrow.table(rows), tmp_path / "ships.parquet")
    terminal = sit_down(ports=(7080,))
    (many,) = [block for block in blocks(README, "plain") if block.heading == "Many nodes"]
    terminal.check_block(many)
    for block in blocks(README, "spark"):
        terminal.check_block(block)
    if not begun_before:  # else it is the one that all tests of this process share
        terminal.names["spark"].stop()


def need_redis_cli() -> None:
    if shutil.which("redis-cli") is None:
        pytest.skip("redis-cli is not installed (apt-get install redis-tools)")
