"""The Redis protocol as a client has it: a command's bytes, and typed replies with nothing hidden."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["RawError", "Status", "packed", "read_reply"]


class RawError(NamedTuple):
    """An error reply."""

    text: str


class Status(NamedTuple):
    """A simple string."""

    text: str


def packed(*words: bytes | str | int) -> bytes:
    """A command in its canonical bytes."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def read_reply(data: bytes, at: int = 0) -> tuple[Any, int]:
    """The reply at `at`, and where it ends. Raises `IndexError` where it is not complete."""
    end = data.find(b"\r\n", at)
    if end < 0:
        raise IndexError
    kind, head, after = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b"+":
        return Status(head.decode()), after
    if kind == b"-":
        return RawError(head.decode("latin-1")), after
    if kind == b":":
        return int(head), after
    if kind == b"_":
        return None, after
    if kind == b",":
        return float(head), after
    if kind == b"#":
        return head == b"t", after
    if kind == b"$":
        size = int(head)
        if size < 0:
            return None, after
        if len(data) < after + size + 2:
            raise IndexError
        return data[after : after + size], after + size + 2
    count = int(head)
    if count < 0:
        return None, after
    items = []
    for _ in range(count * (2 if kind == b"%" else 1)):
        item, after = read_reply(data, after)
        items.append(item)
    if kind == b"%":
        return dict(zip(items[::2], items[1::2], strict=True)), after
    assert kind in (b"*", b">", b"~"), data[at:]
    return items, after
