"""Tables of Spark's catalog: `CREATE TABLE t USING duramen OPTIONS (…)`. Pure.

Spark asks a Python data source for the schema of such a table once, when it is made, and passes OPTIONS then:

    at, table               the options, each also as `option.at`, `option.table`
    provider, owner, path, location, comment, is_managed_location        Spark's own
    owner.team, …           TBLPROPERTIES

Later Spark keeps the schema alone: a query over `t` gets no options but those of its own `WITH (…)` (Spark 4.2 and
4.3). So the schema carries them, as the comment of its first column: `duramen:at=db1:7070&table=flights`. `DESCRIBE t`
shows it.

Reads alone follow that comment. Columns keep their comments through `select` and `where`, so a write that followed it
would put rows of `t` into `t` again where its user forgot to say where they go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

from log_tier.model.errors import InvalidRequest
from log_tier.privacy.masked_url import has_secret, mask_url

__all__ = ["carried_options", "catalog_options", "options_comment", "with_options"]

_CARRIER: Final = "duramen:"
_OPTION: Final = "option."

# What reads better as it is; neither a quote nor a backslash, which would end or change the comment.
_PLAIN: Final = ":/,"


def catalog_options(options: Mapping[str, str]) -> dict[str, str] | None:
    """The OPTIONS of a `CREATE TABLE`; None: these are the options of something else."""
    if "provider" not in {name.lower() for name in options}:
        return None
    return {name[len(_OPTION) :].lower(): value for name, value in options.items() if name.lower().startswith(_OPTION)}


def with_options(ddl: str, options: Mapping[str, str]) -> str:
    """A schema as Spark's DDL that carries `options`. Its first column must be of a type without a comma. Raises as
    `options_comment`.
    """
    first, comma, others = ddl.partition(",")
    return f"{first} COMMENT '{options_comment(options)}'{comma}{others}"


def options_comment(options: Mapping[str, str]) -> str:
    """The comment of a first column that carries `options`.

    Raises `InvalidRequest` where the URL of snapshots, the only option that can, holds a secret: all who see the table
    see its schema.
    """
    url = options.get("snapshots", "")
    if has_secret(url):
        raise InvalidRequest(
            f"the option `snapshots` of CREATE TABLE holds a secret, {mask_url(url)}, and the table's schema would "
            "show it: give it to driver and executors by their environment"
        )
    return f"{_CARRIER}{urlencode(sorted(options.items()), safe=_PLAIN)}"


def carried_options(comments: Iterable[str]) -> dict[str, str]:
    """The options that the comments of a schema's columns carry; empty: none."""
    for comment in comments:
        if comment.startswith(_CARRIER):
            return dict(parse_qsl(comment[len(_CARRIER) :], keep_blank_values=True))
    return {}
