"""An answer as a line of JSON, for programs."""

from __future__ import annotations

from google.protobuf.message import Message

from duramen.cli.terminal.output import say_json
from router.admin.answers.document import document_of

__all__ = ["say_answer"]


def say_answer(answer: Message, *, flush: bool = False) -> None:
    """Print every field of a message of `admin.proto`; `flush` in streams that somebody waits for."""
    say_json(document_of(answer), flush=flush)
