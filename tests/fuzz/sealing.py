"""Making the checksums of changed bytes right again, so that an input reaches what is behind them."""

from __future__ import annotations

import base64
import re
import struct
from zlib import crc32

import google_crc32c

from log_tier.model.batch_header import HEADER_BYTES

__all__ = ["sealed_batch", "sealed_run", "sealed_text", "sealed_token"]

_CHECK = re.compile(rb'(,\s*"check": )"[0-9a-f]*"')


def sealed_batch(data: bytes) -> bytes:
    """A batch of one piece: its length and the producer's checksum made right."""
    if len(data) < HEADER_BYTES:
        return data
    changed = bytearray(data)
    changed[8:12] = struct.pack("<I", len(changed))
    check = google_crc32c.extend(google_crc32c.value(bytes(changed[4:12])), bytes(changed[40:]))
    changed[12:16] = struct.pack("<I", check)
    return bytes(changed)


def sealed_run(data: bytes, place: int) -> bytes:
    """Stored batches one after the other: both checksums of each made right, as far as its length holds."""
    changed, at = bytearray(data), 0
    while at + HEADER_BYTES <= len(changed):
        length = struct.unpack_from("<I", changed, at + 8)[0]
        end = at + length
        if not HEADER_BYTES <= length <= len(changed) - at:
            break
        body = google_crc32c.extend(
            google_crc32c.value(bytes(changed[at + 4 : at + 12])), bytes(changed[at + 40 : end])
        )
        changed[at + 12 : at + 16] = struct.pack("<I", body)
        stamp = google_crc32c.extend(place, bytes(changed[at : at + 36]))
        changed[at + 36 : at + 40] = struct.pack("<I", stamp)
        at = end
    return bytes(changed)


def sealed_text(data: bytes) -> bytes:
    """Sealed JSON: its `check` made right for the text without it."""
    checks = list(_CHECK.finditer(data))
    if not checks:
        return data
    found = checks[-1]  # of the text itself; those before it are of what it describes
    head, tail = data[: found.start()], data[found.end() :]
    check = b"%08x" % google_crc32c.value(head + tail.rstrip(b"\n"))
    return head + found[1] + b'"' + check + b'"' + tail


def sealed_token(data: bytes) -> bytes:
    """A token's text of a changed body: the samples of its target are bodies without their checksum."""
    body = data + crc32(data).to_bytes(4, "little")
    return b"d1." + base64.urlsafe_b64encode(body).rstrip(b"=")
