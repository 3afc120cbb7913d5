"""Keys that a page must show as text."""

from __future__ import annotations

from typing import Final

__all__ = ["BINARY", "HOSTILE"]

HOSTILE: Final = '<img src=x onerror="window.harmed=1">'
BINARY: Final = b"\xff\x00<script>window.harmed=1</script>"
