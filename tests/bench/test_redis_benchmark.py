"""What `redis-benchmark` is asked, and what is read from its answer."""

from __future__ import annotations

import asyncio

import pytest
from kit.deadlines import within

from bench.data import VALUE_BYTES, make_numbered_pairs
from bench.redis_benchmark import BenchmarkFailed, Load, Result, parse_csv, run_load
from bench.workload import find_binary

_HEADING = (
    '"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"'
)
_GET = '"GET","98039.22","0.011","0.000","0.015","0.015","0.023","3.975"'


def test_a_result_is_read_by_the_names_of_its_columns() -> None:
    found = parse_csv(f"{_HEADING}\n{_GET}\n")
    assert found == Result(per_second=98039.22, p50_us=15, p99_us=23)
    assert parse_csv('"p99_latency_ms","rps","test","p50_latency_ms"\n"2","7.5","SET","1.5"\n') == Result(
        7.5, 1500, 2000
    )


def test_a_test_that_is_a_whole_command_is_one_field() -> None:
    row = '"MGET key:__rand_int__ key:__rand_int__","6024.10","8.243","3.320","8.023","9.471","9.895","10.255"'
    assert parse_csv(f"{_HEADING}\n{row}\n").per_second == 6024.10


@pytest.mark.parametrize(
    "said",
    [
        "",
        f"{_HEADING}\n",
        f"{_HEADING}\n{_GET}\n{_GET}\n",
        f"{_GET}\n",  # as before 6.2
        f"{_HEADING}\n" + '"GET","98039.22"\n',
        f"{_HEADING}\n" + _GET.replace("98039.22", "many"),
    ],
)
def test_what_is_no_single_result_is_refused(said: str) -> None:
    with pytest.raises(BenchmarkFailed, match=r"one row with p50_latency_ms, .*|not a number in"):
        parse_csv(said)


def test_its_own_tests_and_other_commands_are_asked_differently() -> None:
    common = ["-h", "127.0.0.1", "-p", "7", "--csv", "-n", "9", "-c", "50", "-P", "16", "-r", "1000", "-d", "100"]
    own = Load(("get",), connections=50, keys=1000, pipelined=16)
    assert own.arguments(port=7, requests=9) == [*common, "-t", "get"]
    other = Load(("MGET", "key:__rand_int__"), connections=50, keys=1000, pipelined=16)
    assert other.arguments(port=7, requests=9) == [*common, "MGET", "key:__rand_int__"]


def test_loaded_keys_are_those_that_it_asks_for() -> None:
    pairs = make_numbered_pairs(1000)
    assert {key for key, _ in pairs} == {f"key:{number:012}".encode() for number in range(1000)}
    assert {len(value) for _, value in pairs} == {VALUE_BYTES}
    assert pairs == make_numbered_pairs(1000)
    assert pairs != sorted(pairs)
    assert pairs != make_numbered_pairs(1000, seed=2)


@pytest.mark.skipif(find_binary("redis-benchmark") is None, reason="redis-benchmark is not installed")
async def test_a_reply_that_is_an_error_is_no_measurement() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            writer.write(b"-ERR not today\r\n")
        writer.close()

    async with within(30), await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BenchmarkFailed, match=r"redis-benchmark get ended with 1: .*ERR not today"):
            await run_load(Load(("get",), connections=1, keys=10), port=port, requests=10)
