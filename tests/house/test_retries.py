"""Every retry pauses by the one policy, `log_tier.concurrency.backoff`: callers spread out, and pauses are bounded.

A retry is recognized by its form: a loop with an `except` and with a sleep whose length the policy does not give.
Loops of that form that are no retries are listed here, each with what it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("duramen", "log_tier", "router", "serving_tier", "spark_bulk")

OTHERS: dict[str, str] = {
    "serving_tier/jobs/snapshotting.py": "ticks of a schedule; a snapshot that fails is taken at another tick",
    "duramen/testing/machine/simulated_process.py": "what a simulated process takes to start again",
    "log_tier/embedded/segments/reader.py": "a poll: a follower waits until the process has a descriptor again",
}


def retries_by_hand(tree: ast.AST) -> Iterator[int]:
    """The lines of sleeps in loops that catch errors, but of those that take `backoff.next_s()`, and `sleep(0)`."""
    for loop in ast.walk(tree):
        if not isinstance(loop, (ast.While, ast.For, ast.AsyncFor)):
            continue
        inside = list(ast.walk(loop))
        if not any(isinstance(node, ast.ExceptHandler) for node in inside):
            continue
        for node in inside:
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "sleep":
                continue
            length = node.args[0] if node.args else None
            given = isinstance(length, ast.Call) and getattr(length.func, "attr", "") == "next_s"
            if not given and not (isinstance(length, ast.Constant) and length.value == 0):
                yield node.lineno


def test_retries_pause_by_the_policy() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for line in retries_by_hand(ast.parse(path.read_text()))
        if str(path.relative_to(ROOT)) not in OTHERS
    }
    assert not found, f"use log_tier.concurrency.backoff.Backoff, or list the loop with its kind: {sorted(found)}"


def test_what_is_a_retry_by_hand() -> None:
    source = """
while True:
    try:
        ask()
    except Unavailable:
        await asyncio.sleep(0.1)
        await asyncio.sleep(backoff.next_s())
        await asyncio.sleep(0)
        await backoff.pause()
while not done():
    time.sleep(0.1)
"""
    assert list(retries_by_hand(ast.parse(source))) == [6]
