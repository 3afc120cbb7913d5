"""The extra that Arrow needs."""

from __future__ import annotations

from log_tier.model.errors import InvalidRequest

__all__ = ["need_arrow"]


def need_arrow(what: str) -> None:
    """Raise `InvalidRequest`, which names the extra, where pyarrow or numpy is not installed."""
    try:
        import numpy  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise InvalidRequest(f"{what} needs pyarrow and numpy: pip install 'duramen[parquet]'") from error
