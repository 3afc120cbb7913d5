"""Readers of decimals: whole numbers in as many bytes as they need, the highest first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from log_tier.rows.columns.plain_columns import column_of
from log_tier.rows.columns.row_bytes import Places, RowBytes
from log_tier.rows.json_rows.json_leaves import decimal_text

__all__ = ["DecimalColumn"]


@dataclass(frozen=True)
class DecimalColumn:
    """Decimals of a fixed size, or behind their lengths (None)."""

    type: pa.DataType
    size: int | None
    scale: int

    def read(self, rows: RowBytes, at: Places) -> tuple[pa.Array, Places]:
        sizes, begins = self._sizes(rows, at)
        ends = begins + sizes
        if pa.types.is_string(self.type):
            texts = [
                decimal_text(int.from_bytes(rows.raw[begin:end], signed=True), self.scale)
                for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
            ]
            return pa.array(texts, self.type), ends
        width = self.type.bit_width // 8
        negative = (rows.data.take(np.minimum(begins, rows.size)) >> 7) & (sizes > 0)
        made = np.repeat((negative * np.uint8(255)).astype(np.uint8)[:, None], width, axis=1)
        for place in range(min(width, int(sizes.max()) if len(sizes) else 0)):
            has = sizes > place
            made[has, place] = rows.data.take(ends[has] - 1 - place)
        return column_of(self.type, made), ends

    def skip(self, rows: RowBytes, at: Places) -> Places:
        sizes, begins = self._sizes(rows, at)
        return begins + sizes

    def _sizes(self, rows: RowBytes, at: Places) -> tuple[Places, Places]:
        return rows.sizes(at) if self.size is None else (np.full(len(at), self.size), at)
