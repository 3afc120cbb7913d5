"""Numbers and expiry times in arguments, read as Redis reads them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from router.endpoints.resp.wire.replies import Problem
from serving_tier.fold.numbers import INTEGER_MAX, INTEGER_MIN

__all__ = [
    "SYNTAX",
    "check_options",
    "expiry_problem",
    "expiry_time",
    "integer",
    "long_double",
    "long_double_sum",
    "shown",
    "strict_integer",
    "text_of",
]

SYNTAX: Final = Problem("ERR syntax error")
_NO_INTEGER: Final = Problem("ERR value is not an integer or out of range")
_NO_FLOAT: Final = Problem("ERR value is not a valid float")
_NOT_FINITE: Final = Problem("ERR increment would produce NaN or Infinity")

_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}").fullmatch
_FLOAT: Final = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch
_INFINITE: Final = re.compile(rb"[+-]?inf(?:inity)?", re.IGNORECASE).fullmatch

# Python reads and writes decimal numbers of up to 4300 digits. A long double ends at 1.2e4932; what is beyond this here
# is refused, and nobody counts that far.
_FLOAT_BYTES_MAX: Final = 4096
_EXPONENT_MAX: Final = 4000
_SUM_MAX: Final = 10**_EXPONENT_MAX


# The longest list of options that means something has seven words. Redis takes any of them again and again; a hundred
# thousand would take longer than a turn of the event loop.
_OPTIONS_MAX: Final = 64


def check_options(words: Sequence[bytes]) -> None:
    """Raises `SYNTAX` for more words than the options of one command can have. O(1)."""
    if len(words) > _OPTIONS_MAX:
        raise SYNTAX


def strict_integer(text: bytes) -> int | None:
    """A 64-bit integer in its one canonical form, as Redis' `string2ll`; None for anything else.

    >>> strict_integer(b"-12"), strict_integer(b"012"), strict_integer(b"-0"), strict_integer(b"9223372036854775808")
    (-12, None, None, None)
    """
    if _INTEGER(text):
        number = int(text)
        if INTEGER_MIN <= number <= INTEGER_MAX:
            return number
    return None


def integer(text: bytes) -> int:
    """A 64-bit integer in its canonical form. Raises `Problem` for anything else."""
    number = strict_integer(text)
    if number is None:
        raise _NO_INTEGER
    return number


def text_of(argument: bytes) -> str:
    """An argument as text; bytes that are none come out again as they were."""
    return argument.decode("utf-8", "surrogateescape")


def shown(argument: bytes, size: int = 128) -> str:
    """An argument as C prints it into an error: so many bytes of it, and no further than a zero byte."""
    return text_of(argument.partition(b"\0")[0][:size])


# --- expiry times


def expiry_problem(command: str) -> Problem:
    """An expiry that cannot be."""
    return Problem(f"ERR invalid expire time in '{command}' command")


def expiry_time(argument: bytes, *, seconds: bool, absolute: bool, now_ms: int, command: str) -> int:
    """The time in ms since 1970 that a positive expiry argument means. Raises `Problem`."""
    number = integer(argument)
    if number <= 0 or (seconds and number > INTEGER_MAX // 1000):
        raise expiry_problem(command)
    time_ms = number * 1000 if seconds else number
    if not absolute:
        time_ms += now_ms
    if time_ms > INTEGER_MAX:
        raise expiry_problem(command)
    return time_ms


# --- x87 long doubles, which INCRBYFLOAT computes with


def long_double(text: bytes) -> Fraction:
    """The 80-bit long double that `text` means. Raises `Problem`; for infinities too, as no sum of them is finite."""
    if _INFINITE(text):
        raise _NOT_FINITE
    if len(text) > _FLOAT_BYTES_MAX or not _FLOAT(text):
        raise _NO_FLOAT
    _, _, exponent = text.lower().partition(b"e")
    if exponent and abs(int(exponent)) > _EXPONENT_MAX:
        raise _NO_FLOAT
    return _rounded(Fraction(text.decode()))


def long_double_sum(left: Fraction, right: Fraction) -> bytes:
    """The sum, written as Redis writes it: at most 17 decimals, no zeros at the end, no exponent.

    >>> long_double_sum(long_double(b"10.5"), long_double(b"0.1")), long_double_sum(long_double(b"5e3"), Fraction(200))
    (b'10.6', b'5200')
    """
    total = _rounded(left + right)
    if abs(total) >= _SUM_MAX:
        raise _NOT_FINITE
    scaled = _quotient(total.numerator * 10**17, total.denominator)  # half to even, as printf does
    sign, digits = ("-" if scaled < 0 else ""), str(abs(scaled)).rjust(18, "0")
    text = f"{digits[:-17]}.{digits[-17:]}".rstrip("0").rstrip(".")
    return b"0" if text == "0" else (sign + text).encode()


def _rounded(number: Fraction) -> Fraction:
    """The nearest number with 64 significant bits, half to even."""
    if not number:
        return number
    # In integers: a Fraction looks for common divisors in each step, which was nine tenths of an INCRBYFLOAT's time.
    numerator, denominator = abs(number.numerator), number.denominator
    if numerator < 1 << 64 and not denominator & (denominator - 1):
        return number
    shift = numerator.bit_length() - denominator.bit_length() - 64
    if shift < 0:
        numerator <<= -shift
    else:
        denominator <<= shift
    if numerator >= denominator << 64:
        shift, denominator = shift + 1, denominator << 1
    elif numerator < denominator << 63:
        shift, numerator = shift - 1, numerator << 1
    bits = _quotient(numerator if number > 0 else -numerator, denominator)
    return Fraction(bits << shift) if shift >= 0 else Fraction(bits, 1 << -shift)


def _quotient(numerator: int, denominator: int) -> int:
    """The nearest integer, half to even."""
    whole, rest = divmod(numerator, denominator)
    return whole + (2 * rest > denominator or (2 * rest == denominator and whole & 1))
