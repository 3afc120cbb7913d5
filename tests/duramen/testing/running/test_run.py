"""run(): virtual time, one seed, and what of the real machine is refused."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import duramen
from duramen import aio
from duramen.testing.machine.simulated_loop import Stuck
from duramen.testing.running.errors import NotSimulated, TooLong
from duramen.testing.running.run import run


def test_a_day_of_sleep_takes_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    began_s = time.process_time()
    assert 86_400 <= run(main, limit_s=100_000) < 86_401
    assert time.process_time() - began_s < 1


def test_arguments_and_result_pass() -> None:
    async def main(one: int, other: int) -> int:
        return one + other

    assert run(main, 3, 4) == 7


async def _drawn() -> list[object]:
    drawn: list[object] = [random.random(), secrets.token_hex(), uuid.uuid4(), os.urandom(5)]
    order: list[int] = []

    async def late(number: int) -> None:
        await asyncio.to_thread(order.append, number)

    await asyncio.gather(*map(late, range(20)))
    return [*drawn, order, asyncio.get_running_loop().time()]


def test_a_seed_is_one_run_and_another_one_is_another() -> None:
    assert run(_drawn, seed=3) == run(_drawn, seed=3)
    assert run(_drawn, seed=3) != run(_drawn, seed=4)


def test_nothing_stays_replaced() -> None:
    replaced = (time.sleep, threading.Thread.start, os.urandom, secrets.token_hex, socket.socket.connect)
    random.seed(5)
    wanted = random.random()
    random.seed(5)
    run(_drawn)
    with pytest.raises(ZeroDivisionError):
        run(_fails)
    assert random.random() == wanted
    assert replaced == (time.sleep, threading.Thread.start, os.urandom, secrets.token_hex, socket.socket.connect)
    assert "connect" not in vars(socket.socket)


async def _fails() -> None:
    await asyncio.sleep(1)
    raise ZeroDivisionError


def test_a_failure_names_its_seed() -> None:
    with pytest.raises(ZeroDivisionError) as failed:
        run(_fails, seed=81733)
    assert failed.value.__notes__ == ["in virtual time, seed 81733"]


def test_who_waits_for_ever_is_named() -> None:
    async def waits_for_nobody() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match=r"everybody waits.*\n(.*\n)?.*waits_for_nobody at .*test_run.py:\d+"):
        run(waits_for_nobody)


def test_what_retries_for_ever_ends() -> None:
    async def retries() -> None:
        while True:  # noqa: ASYNC110 - what the limit is for
            await asyncio.sleep(1)

    with pytest.raises(TooLong, match="60 s of virtual time"):
        run(retries, limit_s=60)


def test_a_timeout_of_the_test_is_its_own() -> None:
    async def main() -> None:
        async with asyncio.timeout(0.5):
            await asyncio.sleep(1)

    with pytest.raises(TimeoutError):
        run(main)


def test_the_function_is_wanted_and_not_what_it_returns() -> None:
    given: Any = _fails()
    with pytest.raises(TypeError, match="takes the function"):
        run(given)
    given.close()


def test_a_run_in_a_run_is_refused() -> None:
    async def main() -> None:
        run(_fails)

    with pytest.raises(NotSimulated, match="was called in one"):
        run(main)


REFUSED: dict[str, Callable[[], Awaitable[object]]] = {
    "a connection over a socket": lambda: asyncio.open_connection("127.0.0.1", 1),
    "a server on a socket": lambda: asyncio.start_server(lambda *_: None, "127.0.0.1", 0),
    "a program in a process of its own": lambda: asyncio.create_subprocess_exec("true"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_real_machine_is_refused(what: str) -> None:
    async def main() -> None:
        await REFUSED[what]()

    with pytest.raises(NotSimulated, match=what):
        run(main)


def _connect() -> None:
    with socket.socket() as made:
        made.connect(("127.0.0.1", 1))


def _blocks(tmp_path: Path) -> dict[str, Callable[[], object]]:
    return {
        "use await asyncio.sleep": lambda: time.sleep(1),
        "asyncio.to_thread": lambda: threading.Thread(target=print).start(),
        "to_thread, duramen.aio in place": lambda: ThreadPoolExecutor(1).submit(print),
        "duramen.aio in place of the blocking API": lambda: duramen.open(tmp_path),
        "a socket blocks everybody": _connect,
    }


@pytest.mark.parametrize("advice", _blocks(Path()))
def test_a_blocking_call_is_refused(advice: str, tmp_path: Path) -> None:
    async def main() -> None:
        _blocks(tmp_path)[advice]()

    with pytest.raises(NotSimulated, match=advice):
        run(main)


def test_a_connection_where_no_cluster_is_says_so() -> None:
    async def main() -> None:
        await aio.connect("localhost:7070", timeout=1)

    with pytest.raises(duramen.Disconnected):
        run(main)


def test_other_threads_go_on_as_they_were() -> None:
    """A worker of the test's framework sleeps, and starts threads, while a run goes on in this one."""
    begun, ended = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def other() -> None:
        try:
            begun.wait()
            time.sleep(0.001)
            threading.Thread(target=ended.set).start()
        except BaseException as error:  # noqa: BLE001 - shown by the test
            failed.append(error)
            ended.set()

    thread = threading.Thread(target=other)
    thread.start()

    async def main() -> None:
        begun.set()
        ended.wait(60)

    run(main)
    thread.join()
    assert not failed


def test_a_thread_that_hands_work_over_is_refused() -> None:
    heard: list[BaseException] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        hand_over.append(loop.call_soon_threadsafe)
        asked.set()
        answered.wait(60)

    hand_over: list[Callable[..., Any]] = []
    asked, answered = threading.Event(), threading.Event()

    def other() -> None:
        asked.wait(60)
        try:
            hand_over[0](print)
        except NotSimulated as error:
            heard.append(error)
        answered.set()

    thread = threading.Thread(target=other, name="somebody")
    thread.start()
    run(main)
    thread.join()
    assert "somebody" in str(heard)


def test_tasks_that_are_left_are_cancelled() -> None:
    seen: list[str] = []

    async def left() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            seen.append("cancelled")

    async def main() -> Coroutine[Any, Any, None] | None:
        main_task.append(asyncio.create_task(left()))
        await asyncio.sleep(0)
        return None

    main_task: list[asyncio.Task[None]] = []
    run(main)
    assert seen == ["cancelled"]


def test_a_second_run_at_once_is_refused_and_the_first_one_goes_on() -> None:
    begun, ended = threading.Event(), threading.Event()
    refused: list[BaseException] = []

    def other() -> None:
        begun.wait(60)
        try:
            run(_drawn)
        except NotSimulated as error:
            refused.append(error)
        ended.set()

    async def first() -> list[object]:
        begun.set()
        ended.wait(60)
        return await _drawn()

    thread = threading.Thread(target=other)
    thread.start()
    assert run(first, seed=1) == run(_drawn, seed=1)
    thread.join()
    assert "another thread" in str(refused)
