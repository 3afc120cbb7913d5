"""Scripts of the fold: what is said to the log, and what every index must make of it.

A script is a text file of blocks, with an empty line between them. A block has comments (`#`), batches one a line, then
`---` and what came out: a line for each record about which there is something to say, and the state afterwards.

    at=+10 producer=7:3 | put a=1 ttl=50 ; + add b=2 if=present ; delete c if=5

`at=+10` lets the log time rise by 10 ms, `producer=7:3` is a producer's id and the batch's first sequence; `+` puts a
record in the group of the one before it; `if=` is absent, present or a version; `ttl=`, `until=` (ms after the script's
beginning) and `keep` are the expiry. `DURAMEN_RECORD=1` in the environment writes down what comes out; read the
difference before believing it.
"""

from __future__ import annotations

import re

from kit.log.stored_log import Said, StoredLog
from log_tier.model.identifiers import Offset
from log_tier.model.record import Condition, Expiry, Operation
from serving_tier.fold.verdicts import Outcome, Verdict
from serving_tier.index.index import Index


def said(text: str, start_ms: int) -> Said:
    """One record of a script."""
    words = text.split()
    grouped = words[0] == "+"
    if grouped:
        words = words[1:]
    operation = Operation[words[0].upper()]
    key, _, value = words[1].partition("=") if len(words) > 1 else ("", "", "")
    condition, version, expiry, expiry_ms = Condition.NONE, 0, Expiry.NONE, 0
    for word in words[2:]:
        name, _, argument = word.partition("=")
        if name == "if" and argument.lstrip("-").isdigit():
            condition, version = Condition.VERSION, int(argument)
        elif name == "if":
            condition = Condition[argument.upper()]
        elif name == "ttl":
            expiry, expiry_ms = Expiry.TTL, int(argument)
        elif name == "until":
            expiry, expiry_ms = Expiry.AT, start_ms + int(argument)
        elif name == "keep":
            expiry = Expiry.KEEP
        else:
            raise AssertionError(f"{word!r} in {text!r} means nothing")
    return Said(operation, key.encode(), value.encode(), condition, version, expiry, expiry_ms, grouped)


def store(line: str, log: StoredLog, start_ms: int) -> bytes:
    """One batch of a script."""
    options, bar, records = line.rpartition("|")
    later_ms = producer_id = sequence = 0
    if bar:
        for option in options.split():
            name, _, argument = option.partition("=")
            if name == "at":
                later_ms = int(argument)
            elif name == "producer":
                producer_id, sequence = map(int, argument.split(":"))
            else:
                raise AssertionError(f"{option!r} in {line!r} means nothing")
    return log.append(
        *(said(record, start_ms) for record in records.split(";")),
        producer_id=producer_id,
        sequence=sequence,
        later_ms=later_ms,
    )


def outcome_line(offset: int, outcome: Outcome) -> str:
    words = [f"{offset}:", outcome.verdict.name.lower().replace("_", " ")]
    if outcome.verdict is Verdict.CONDITION_FAILED:
        words.append("(absent)" if outcome.actual < 0 else f"(version {outcome.actual})")
    place = offset if outcome.duplicate_of is None else outcome.duplicate_of
    if outcome.verdict not in (Verdict.ACCEPTED, Verdict.DUPLICATE) and outcome.failed != place:
        words.append(f"by {outcome.failed}")
    if outcome.result is not None:
        words.append(f"→ {outcome.result.decode()}")
    if outcome.duplicate_of is not None:
        words.append(f"copy of {outcome.duplicate_of}" if outcome.duplicate_of >= 0 else "copy of something older")
    return " ".join(words)


def play(script: str, index: Index) -> str:
    """Run a script against an index; return it with what came out."""
    log = StoredLog()
    start_ms = log.time_ms
    blocks = []
    for block in re.split(r"\n\s*\n", script.strip()):
        asked = block.partition("\n---")[0]
        lines = [line for line in asked.splitlines() if not line.startswith("#")]
        first = Offset(log.next_offset)
        index.apply(b"".join(store(line, log, start_ms) for line in lines))
        said = [outcome_line(offset, what) for offset, what in sorted(index.outcomes(first, index.applied).items())]
        for key, entry in index.scan(b"", None).entries:
            expiry = f", expires at {entry.expires_at_ms - start_ms}" if entry.expires_at_ms else ""
            said.append(f"  {key.decode()} = {entry.value.decode()!r} version {entry.version}{expiry}")
        said.append(f"applied {index.applied}, log time {index.log_time_ms - start_ms}")
        blocks.append("\n".join([asked, "---", *said]))
    return "\n\n".join(blocks) + "\n"
