"""Rows from files: what becomes of good ones, and what is said about bad ones."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duramen.loading import (
    ExtraMissing,
    FileFormat,
    FileRefused,
    LoadOptions,
    Reject,
    RowRefused,
    format_of,
    read_rows,
)
from duramen.loading.rows import CHUNK_ROWS
from log_tier.model.errors import InvalidRequest

pytestmark = pytest.mark.embedded_log_only

ID = LoadOptions(key_columns=("id",))


def read(
    path: Path, options: LoadOptions = ID, file_format: FileFormat = "csv"
) -> tuple[list[tuple[bytes, bytes]], list[Reject]]:
    pairs: list[tuple[bytes, bytes]] = []
    rejects: list[Reject] = []
    for chunk in read_rows(path, file_format, options):
        pairs += chunk.pairs
        rejects += chunk.rejects
    return pairs, rejects


class Write(Protocol):
    """Makes a file of rows, named `name`."""

    def __call__(self, content: str | bytes, name: str = "rows.csv") -> Path: ...


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: str | bytes, name: str = "rows.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


class TestCsv:
    def test_a_row_is_its_columns_as_json_text(self, write: Write) -> None:
        pairs, rejects = read(write("id,name,age\nu1,Ada,36\nu2,,007\n"))
        assert pairs == [
            (b"u1", b'{"id":"u1","name":"Ada","age":"36"}'),
            (b"u2", b'{"id":"u2","name":"","age":"007"}'),
        ]
        assert rejects == []

    def test_numbers_are_those_that_json_would_write_so(self, write: Write) -> None:
        options = LoadOptions(key_columns=("id",), numbers=True)
        pairs, _ = read(write("id,n\na,36\nb,-1.50\nc,007\nd,+1\ne,1e3\nf,NaN\ng,\nh,1_000\ni,.5\n"), options)
        texts = [value.decode() for _, value in pairs]
        assert [text.partition('"n":')[2].rstrip("}") for text in texts] == [
            "36",
            "-1.50",
            '"007"',
            '"+1"',
            "1e3",
            '"NaN"',
            '""',
            '"1_000"',
            '".5"',
        ]
        assert all(json.loads(text) for text in texts)

    def test_several_key_columns_and_one_value_column(self, write: Write) -> None:
        options = LoadOptions(key_columns=("b", "a"), key_separator=":", value_column="c")
        pairs, _ = read(write("a,b,c\n1,2,three\n"), options)
        assert pairs == [(b"2:1", b"three")]

    def test_quotes_line_ends_and_blank_lines(self, write: Write) -> None:
        pairs, rejects = read(write('id,text\r\n1,"say ""hi"", now"\r\n\r\n2,"two\r\nlines"\r\n'))
        assert [json.loads(value)["text"] for _, value in pairs] == ['say "hi", now', "two\r\nlines"]
        assert rejects == []

    def test_a_byte_order_mark_is_no_part_of_the_header(self, write: Write) -> None:
        assert read(write(b"\xef\xbb\xbfid\n1\n"))[0] == [(b"1", b'{"id":"1"}')]

    def test_percent_signs_in_column_names(self, write: Write) -> None:
        assert read(write("id,50%\n1,%s\n"))[0] == [(b"1", b'{"id":"1","50%":"%s"}')]

    def test_another_delimiter(self, write: Write) -> None:
        options = LoadOptions(key_columns=("id",), delimiter=";")
        assert read(write("id;x\n1;a,b\n"), options)[0] == [(b"1", b'{"id":"1","x":"a,b"}')]

    def test_gzip_is_recognized_by_its_bytes(self, write: Write) -> None:
        assert read(write(gzip.compress(b"id\n1\n")))[0] == [(b"1", b'{"id":"1"}')]

    def test_chunks_are_bounded_and_tell_where_the_file_is_read(self, write: Write) -> None:
        count = 2 * CHUNK_ROWS + 5
        path = write("id\n" + "".join(f"{number}\n" for number in range(count)))
        chunks = list(read_rows(path, "csv", ID))
        assert [len(chunk.pairs) for chunk in chunks] == [CHUNK_ROWS, CHUNK_ROWS, 5]
        assert [chunk.first_row for chunk in chunks] == [1, CHUNK_ROWS + 1, 2 * CHUNK_ROWS + 1]
        assert chunks[-1].position == path.stat().st_size

    @given(
        st.lists(
            st.tuples(
                st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20),
                st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
            )
        )
    )
    def test_reads_what_the_csv_module_writes(self, rows: list[tuple[str, str]]) -> None:
        from duramen.loading.csv_rows import csv_rows

        text = io.StringIO(newline="")
        writer = csv.writer(text, quoting=csv.QUOTE_ALL)
        writer.writerows([("id", "x"), *rows])
        file = io.BytesIO(text.getvalue().encode())
        chunks = list(csv_rows(Path("x.csv"), file, file.tell, ID))
        assert [pair for chunk in chunks for pair in chunk.pairs] == [
            (key.encode(), json.dumps({"id": key, "x": other}, ensure_ascii=False, separators=(",", ":")).encode())
            for key, other in rows
        ]


class TestBadCsv:
    @pytest.mark.parametrize(
        ("bad", "column", "reason"),
        [
            ("2,x", "c", "2 fields, the header has 3"),
            ("2,x,y,z", "c", "4 fields, the header has 3"),
            (",x,y", "id", "the key is empty"),
            ("k" * 512 + ",x,y", "id", "512 bytes"),
            ('2,"x"x,y', "b", "',' expected after '\"'"),
        ],
    )
    def test_names_row_line_and_column_and_goes_on(self, write: Write, bad: str, column: str, reason: str) -> None:
        pairs, rejects = read(write(f'id,b,c\n1,"two\nlines",y\n{bad}\n3,x,y\n'))
        assert [key for key, _ in pairs] == [b"1", b"3"]
        (reject,) = rejects
        assert (reject.row, reject.line, reject.column, reject.text) == (2, 4, column, bad)
        assert reason in reject.reason

    def test_bytes_that_are_no_utf8(self, write: Write) -> None:
        pairs, (reject,) = read(write(b"id,name\n1,caf\xc3\xa9\n2,caf\xe9\n3,x\n"))
        assert [key for key, _ in pairs] == [b"1", b"3"]
        assert (reject.row, reject.column, reject.text) == (2, "name", "2,caf\\xe9")
        assert "0xe9" in reject.reason

    def test_a_quote_that_is_never_closed(self, write: Write) -> None:
        pairs, (reject,) = read(write('id,b\n1,x\n2,"never\n3,x\n'))
        assert [key for key, _ in pairs] == [b"1"]
        assert (reject.row, reject.line, reject.column) == (2, 3, "b")
        assert "end of data" in reject.reason

    def test_a_value_over_the_limit(self, write: Write) -> None:
        options = LoadOptions(key_columns=("id",), value_column="v")
        limit = 4 * 1024 * 1024
        pairs, (reject,) = read(write(f'id,v\n1,{"x" * limit}\n2,"{"é" * (limit // 2)}x"\n'), options)
        assert [len(value) for _, value in pairs] == [limit]
        assert (reject.row, reject.column) == (2, "v")

    def test_the_separator_inside_a_key_column(self, write: Write) -> None:
        """Else `a/b` + `c` and `a` + `b/c` would share a key. In the last column it is harmless."""
        options = LoadOptions(key_columns=("a", "b"))
        pairs, (reject,) = read(write("a,b\na,b/c\na/b,c\n"), options)
        assert [key for key, _ in pairs] == [b"a/b/c"]
        assert (reject.row, reject.column) == (2, "a")
        assert "--key-separator" in reject.reason

    def test_an_empty_part_of_a_key(self, write: Write) -> None:
        _, (reject,) = read(write("a,b\nx,\n"), LoadOptions(key_columns=("a", "b")))
        assert (reject.row, reject.column, reject.reason) == (1, "b", "this part of the key is empty")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "is empty"),
            (b"\n", "is empty"),
            (b"id,b,id\n", "two columns named 'id'"),
            (b"Id,b\n1,2\n", "no column 'id' (did you mean 'Id'?); its columns are: Id, b"),
            (b"id,\xff\n", "header"),
            (b'id,"b"c\n', "header"),
        ],
    )
    def test_headers_that_cannot_be_used(self, write: Write, content: bytes, message: str) -> None:
        path = write(content)
        with pytest.raises(FileRefused, match=r".") as caught:
            read(path)
        assert message in str(caught.value)
        assert caught.value.fields["file"] == str(path)

    def test_a_value_column_that_is_missing(self, write: Write) -> None:
        with pytest.raises(FileRefused, match="no column 'v'"):
            read(write("id\n1\n"), LoadOptions(key_columns=("id",), value_column="v"))

    def test_a_damaged_gzip_file_names_the_row_behind_which_nothing_is_known(self, write: Write) -> None:
        rows = b"id\n" + b"".join(b"%d-%s\n" % (number, str(hash(str(number))).encode()) for number in range(20_000))
        path = write(gzip.compress(rows)[:-5000], "rows.csv.gz")
        read_before: list[tuple[bytes, bytes]] = []
        with pytest.raises(RowRefused) as caught:
            read_before.extend(pair for chunk in read_rows(path, "csv", ID) for pair in chunk.pairs)
        assert caught.value.fields["row"] == len(read_before) + 1
        assert len(read_before) >= CHUNK_ROWS


class TestJsonLines:
    def read(self, path: Path, options: LoadOptions = ID) -> tuple[list[tuple[bytes, bytes]], list[Reject]]:
        return read(path, options, "jsonl")

    def test_a_row_is_its_object_again(self, write: Write) -> None:
        pairs, rejects = self.read(write('{"id": "a", "n": [1, 2.5, null]}\n\n{ "name":"é", "id": 7 }'))
        assert pairs == [(b"a", b'{"id":"a","n":[1,2.5,null]}'), (b"7", '{"name":"é","id":7}'.encode())]
        assert rejects == []

    def test_one_member_as_the_value(self, write: Write) -> None:
        options = LoadOptions(key_columns=("id",), value_column="v")
        pairs, _ = self.read(write('{"id":"a","v":"text"}\n{"id":"b","v":{"x": 1}}\n'), options)
        assert pairs == [(b"a", b"text"), (b"b", b'{"x":1}')]

    @pytest.mark.parametrize(
        ("bad", "column", "reason"),
        [
            ('{"id": 1', "", "no JSON"),
            ("[1]", "", "no object but list"),
            ('{"x": 1}', "id", "no member 'id'; it has: x"),
            ('{"id": ""}', "id", "the key is empty"),
            ('{"id": null}', "id", "text and whole numbers"),
            ('{"id": 1.5}', "id", "text and whole numbers"),
            ('{"id": true}', "id", "text and whole numbers"),
            ('{"id": 1e999}', "id", "this is inf"),
            ('{"id": "x", "n": NaN}', "", "no JSON number"),
            ('{"id": "x", "n": 1e999}', "", "number that JSON does not have"),
            ('{"id": "x", "n": "\\ud800"}', "", "surrogate"),
            ("[" * 100_000, "", "no JSON"),
        ],
    )
    def test_names_row_and_member_and_goes_on(self, write: Write, bad: str, column: str, reason: str) -> None:
        pairs, rejects = self.read(write(f'{{"id":1}}\n\n{bad}\n{{"id":3}}\n'))
        assert [key for key, _ in pairs] == [b"1", b"3"]
        (reject,) = rejects
        assert (reject.row, reject.line, reject.column) == (2, 3, column)
        assert reason in reject.reason

    def test_bytes_that_are_no_utf8(self, write: Write) -> None:
        _, (reject,) = self.read(write(b'{"id":"\xff"}\n'))
        assert "0xff" in reject.reason

    def test_an_empty_file(self, write: Write) -> None:
        with pytest.raises(FileRefused, match="is empty"):
            self.read(write("\n\n"))


class TestParquet:
    @pytest.fixture
    def table(self, tmp_path: Path) -> Callable[..., Path]:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")

        def table(**columns: object) -> Path:
            path = tmp_path / "rows.parquet"
            parquet.write_table(pyarrow.table(columns), path)
            return path

        return table

    def test_what_json_lacks_becomes_text(self, table: Callable[..., Path]) -> None:
        path = table(
            id=["a"],
            when=[datetime(2013, 1, 1, 10, tzinfo=UTC)],
            day=[date(2013, 1, 1)],
            price=[Decimal("1.50")],
            blob=[b"\x00"],
            hole=[float("nan")],
            items=[[1, 2]],
            nothing=[None],
        )
        ((key, value),), rejects = read(path, ID, "parquet")
        assert rejects == []
        assert key == b"a"
        assert json.loads(value) == {
            "id": "a",
            "when": "2013-01-01T10:00:00+00:00",
            "day": "2013-01-01",
            "price": "1.50",
            "blob": "AA==",
            "hole": None,
            "items": [1, 2],
            "nothing": None,
        }

    def test_bytes_as_the_value_stay_bytes(self, table: Callable[..., Path]) -> None:
        options = LoadOptions(key_columns=("id",), value_column="v")
        assert read(table(id=[7], v=[b"\xff\x00"]), options, "parquet")[0] == [(b"7", b"\xff\x00")]

    def test_bad_rows_and_columns(self, table: Callable[..., Path]) -> None:
        pairs, rejects = read(table(id=["a", None, ""]), ID, "parquet")
        assert [key for key, _ in pairs] == [b"a"]
        assert [(reject.row, reject.column) for reject in rejects] == [(2, "id"), (3, "id")]
        with pytest.raises(FileRefused, match="no column 'id'"):
            read(table(x=[1]), ID, "parquet")

    def test_values_that_are_none_of_their_type(self, table: Callable[..., Path]) -> None:
        """As a damaged file, or a careless writer, has them."""
        pyarrow = pytest.importorskip("pyarrow")
        offsets, text = pyarrow.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0\6\0\0\0"), pyarrow.py_buffer(b"ok\xc8\xffno")
        texts = pyarrow.StringArray.from_buffers(3, offsets, text)
        pairs, (reject,) = read(table(id=[1, 2, 3], v=texts), ID, "parquet")
        assert pairs == [(b"1", b'{"id":1,"v":"ok"}'), (b"3", b'{"id":3,"v":"no"}')]
        assert (reject.row, reject.reason[:40]) == (2, "it holds what is no value of its type: '")
        seconds = pyarrow.array([1 << 40], pyarrow.timestamp("s"))
        _, (late,) = read(table(id=[1], when=seconds), ID, "parquet")
        assert "no value of its type" in late.reason

    def test_damaged_metadata(self, table: Callable[..., Path]) -> None:
        path = table(id=["a"])
        whole = path.read_bytes()
        refused = 0
        for place in range(len(whole) - 60, len(whole) - 8):
            path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
            try:
                read(path, ID, "parquet")
            except FileRefused:
                refused += 1
        assert refused, "and nothing else was raised"

    def test_another_file(self, write: Write) -> None:
        with pytest.raises(FileRefused, match="no Parquet file"):
            read(write("id\n1\n", "rows.parquet"), ID, "parquet")

    def test_without_pyarrow(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(ExtraMissing, match=r"duramen\[parquet\]"):
            read(write("x"), ID, "parquet")


class TestOptions:
    def test_the_format_by_the_name(self) -> None:
        names = ["a.csv", "a.CSV.gz", "a.b.jsonl", "a.ndjson.gz", "a.parquet"]
        assert [format_of(Path(name)) for name in names] == ["csv", "csv", "jsonl", "jsonl", "parquet"]
        for name in ["a.txt", "csv", "a.gz"]:
            with pytest.raises(FileRefused, match="--format"):
                format_of(Path(name))

    def test_files_that_are_none(self, tmp_path: Path) -> None:
        with pytest.raises(FileRefused, match="does not exist"):
            read(tmp_path / "missing.csv")
        with pytest.raises(FileRefused, match="is a folder"):
            read(tmp_path)

    @pytest.mark.parametrize(
        "options",
        [
            {"key_columns": ()},
            {"key_columns": ("a", "a")},
            {"key_columns": ("a", "b"), "key_separator": ""},
            {"key_columns": ("a",), "delimiter": ""},
            {"key_columns": ("a",), "delimiter": '"'},
        ],
    )
    def test_options_that_mean_nothing(self, options: dict[str, object]) -> None:
        with pytest.raises(InvalidRequest):
            LoadOptions(**options)  # type: ignore[arg-type]

    def test_options_that_write_something_else_have_another_digest(self) -> None:
        variants = [
            LoadOptions(("a",)),
            LoadOptions(("b",)),
            LoadOptions(("a", "b")),
            LoadOptions(("a", "b"), key_separator="-"),
            LoadOptions(("a",), value_column="b"),
            LoadOptions(("a",), numbers=True),
            LoadOptions(("a",), delimiter=";"),
        ]
        assert len({options.digest() for options in variants}) == len(variants)
        assert LoadOptions(("a",)).digest() == LoadOptions(("a",)).digest()
