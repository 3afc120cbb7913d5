"""Nothing waits for threads on an event loop: `shutdown` of an executor, the end of a `with` around one, `join`.

Such a wait lasts as long as the thread's work, a disk that does not answer for instance, and nothing else runs on the
loop meanwhile. What an event loop runs awaits a future of the work, or has another thread do the waiting. The waits in
functions that no loop runs are listed here, each with the thread that it is in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("duramen", "log_tier", "router", "serving_tier", "spark_bulk")

THREADS: dict[str, str] = {
    "duramen/tracing/export.py close": "the one that ends a server, which has stopped",
    "log_tier/concurrency/background_loop.py end": "a blocking caller's",
    "log_tier/concurrency/background_loop.py halt": "the interpreter's, at its end",
    "log_tier/concurrency/sized_work.py close": "the one that closes the log",
    "log_tier/concurrency/workers.py join": "the caller's, which this table names where it is one of ours",
    "log_tier/embedded/closing.py close_files": "the one that closes the log",
    "log_tier/embedded/commit/committer.py close": "the one that closes the log",
    "log_tier/embedded/commit/journal.py close": "the one that opens or closes the log",
    "log_tier/embedded/commit/room.py close": "the one that closes the log",
    "log_tier/embedded/engine.py _close": "the one that closes the log",
    "log_tier/embedded/recovery/many_looks.py look_at_many": "the one that opens the log, or makes a topic",
    "log_tier/kafka/cluster/topic_watcher.py close": "one of `asyncio.to_thread`",
    "log_tier/kafka/reading/shared_consumer.py join": "one of `asyncio.to_thread`",
    "log_tier/kafka/writing/sender.py _run": "the sender's own",
    "serving_tier/snapshots/take.py _copied": "one of `in_thread`",
    "spark_bulk/source/writes/appender.py __exit__": "a Spark task's",
    "spark_bulk/spark_session.py local_session": "a blocking caller's; it is the gateway's, and no executor",
}


def waits(tree: ast.AST, function: str = "") -> Iterator[tuple[str, int]]:
    """Each wait for threads: the function that is nearest around it, and its line."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from waits(node, node.name)
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_wait(node, node.func):
            yield function, node.lineno
        if isinstance(node, ast.With) and any("Executor" in ast.unparse(item.context_expr) for item in node.items):
            yield function, node.lineno
        yield from waits(node, function)


def _is_wait(call: ast.Call, method: ast.Attribute) -> bool:
    if method.attr == "join":
        # Of a thread, and not of strings or paths: those have something to join.
        return "thread" in ast.unparse(method.value).lower() or (
            not call.args and "writer" in ast.unparse(method.value)
        )
    waiting = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}.get("wait", "True")
    return method.attr == "shutdown" and not call.args and waiting != "False"


def test_no_wait_for_threads_on_a_loop() -> None:
    found = {
        f"{path.relative_to(ROOT)} {function}": line
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for function, line in waits(ast.parse(path.read_text()))
    }
    assert found.keys() == THREADS.keys(), f"await the work, or name the thread: {found.keys() ^ THREADS.keys()}"


def test_what_is_a_wait() -> None:
    source = """
async def leaves():
    with ThreadPoolExecutor(1) as thread:
        pass
def closes(self):
    self._pool.shutdown(wait=True, cancel_futures=True)
    self._thread.join()
    self._pool.shutdown(wait=False)
    ", ".join(names)
async def ends(self):
    await asyncio.to_thread(self._pool.shutdown, wait=True)
    await asyncio.to_thread(self._thread.join)
"""
    assert list(waits(ast.parse(source))) == [("leaves", 3), ("closes", 6), ("closes", 7)]
