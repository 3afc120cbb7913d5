"""Each parser of the product is entered by a target, or has a reason to be left out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from kit.deadlines import patience_s

from fuzz.parsers import PRODUCT, Parser, entered, parsers_in, parsers_of
from fuzz.target import Target
from fuzz.unfuzzed import unfuzzed

ROOT = Path(__file__).parents[2]


def test_each_parser_is_entered_by_a_target_or_left_out_with_a_reason() -> None:
    """In a process of its own: what other tests have a module remember is not asked again."""
    command = [sys.executable, "-m", "tests.fuzz", "--parsers"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience_s(120), check=False)
    assert run.returncode == 0, f"{run.stdout}{run.stderr}\nadd a target, or a line to tests/fuzz/unfuzzed.py"
    assert re.search(r"^\d+ parsers, \d+ entered", run.stdout, re.MULTILINE)


def test_who_is_a_parser_is_found() -> None:
    found = parsers_in(
        dedent('''
        import json
        import x_pb2 as messages
        from y import y_pb2 as z

        def parse_name(text: str) -> str: ...
        def quiet() -> int:
            return len("no parser")
        def hidden(data: bytes) -> object:
            return json.loads(data)
        def shown(data: bytes) -> str:
            return data.decode(errors="replace")
        def row_from(message: z.Row) -> object:
            return message.a
        def view_from(place: int) -> int:
            return place + 1
        class Codec:
            def read(self, data: bytes) -> str:
                """A text."""
                return data.decode()
            def decoded(self, value: bytes) -> object:
                return self.codec.decode(value)
            async def unpack(self, row: bytes) -> object:
                def inside(at: int) -> object:
                    return ROW.unpack_from(row, at)
                return inside(0)
        ''')
    )
    assert found == [
        "hidden",
        "row_from",
        "Codec.read",
        "Codec.decoded",
        "Codec.unpack",
        "Codec.unpack.<locals>.inside",
    ]


def test_the_product_has_as_many_parsers_as_it_seems() -> None:
    """Should a change of the search find hardly any, that is seen."""
    found = parsers_of()
    assert len(found) > 250
    assert len(set(found)) == len(found)
    assert {each.file.partition("/")[0] for each in found} == set(PRODUCT)


def test_no_parser_is_left_out_that_is_none() -> None:
    assert unfuzzed().keys() <= set(parsers_of())
    assert all(unfuzzed().values())


def test_what_a_target_enters_is_seen() -> None:
    from log_tier.model.tokens import Token

    target = Target("tokens", lambda: [str(Token()).encode()], lambda data: Token.parse(data.decode()), (Exception,))
    found = entered([target])
    assert found[Parser("log_tier/model/tokens.py", "Token.parse")] == "tokens"
    assert Parser("log_tier/model/barrier.py", "parse_barrier") not in found
