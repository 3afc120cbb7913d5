"""A program: a call is handed over and waited for again and again, and interrupted one instruction later each time.

It prints how many instructions there were, and fails where an interrupt was swallowed, the loop ended or reported.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from types import FrameType
from typing import Any

from log_tier.concurrency.background_loop import BackgroundLoop
from log_tier.concurrency.handed_call import HandedCall


def main() -> None:
    loop = BackgroundLoop("interrupted")
    reported: list[dict[str, Any]] = []
    loop.loop.set_exception_handler(lambda _, context: reported.append(context))
    steps = 1
    while is_interrupted_at(steps, loop):
        steps += 1
    gc.collect()
    assert is_alive(loop)
    assert reported == []
    loop.end()
    sys.stdout.write(f"{steps}\n")


def is_interrupted_at(step: int, loop: BackgroundLoop) -> bool:
    """Interrupt a hand-over and its wait at their `step`th instruction; False if they have fewer."""
    seen = 0

    def at_each(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        frame.f_trace_opcodes = frame.f_code.co_filename.endswith("handed_call.py")
        seen += 1
        if seen == step:
            raise KeyboardInterrupt
        return at_each

    call = HandedCall(loop.loop, fails_soon)
    before = sys.gettrace()
    sys.settrace(at_each)
    try:
        call.begin()
        call.result()
    except KeyboardInterrupt:
        assert seen >= step
        return True
    except ValueError:
        assert seen < step, "the interrupt was swallowed"
        return False
    else:
        raise AssertionError("it fails")
    finally:
        sys.settrace(before)
        call.cancel()
        assert is_alive(loop)


def is_alive(loop: BackgroundLoop) -> bool:
    call = HandedCall(loop.loop, lambda: asyncio.sleep(0, "alive"))
    call.begin()
    return call.result() == "alive"


async def fails_soon() -> None:
    await asyncio.sleep(0.005)
    raise ValueError("an error")


if __name__ == "__main__":
    main()
