"""URLs as people may see them: without passwords, keys and tokens. Pure.

`mask_url` is for every message, log line, event and answer that shows a URL:

    kafka://broker:9093/ns?sasl.username=app&sasl.password=***
    s3://AKIAEXAMPLE:***@bucket/prefix

It never raises. A URL that cannot be read without doubt loses more than its secrets, never fewer: a raw `@`, `/`, `?`,
`#` or `&` inside a password does not let its rest through.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote_plus

from log_tier.model.errors import InvalidRequest

__all__ = ["MASK", "check_no_secret", "has_secret", "is_secret_name", "mask_url"]

MASK: Final = "***"
"""What stands where a secret was."""

# A name that has one of these in it holds a secret: Kafka's `sasl.password` and `ssl.key.pem`, S3's `secret_key`,
# Azure's `sig`, the query of a presigned URL.
_SECRET: Final = re.compile(r"pass(word|wd|phrase)|pwd|secret|token|key|credential|signature|jaas|(\A|[._-])sig\Z")

# Names that say where something is, although a secret word is in them.
_PLACES: Final = frozenset(
    {
        "sasl.kerberos.keytab",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.key.location",
        "ssl.keystore.location",
    }
)

# Behind a secret, and with a raw "@", only these begin a parameter: anything else may be the rest of a password.
_KNOWN: Final = _PLACES | {
    "compression.type",
    "config",
    "endpoint_url",
    "min_insync",
    "region",
    "replication",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.certificate.location",
}

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@]*)(:[0-9]{0,5})?")
_USER: Final = re.compile(r"[A-Za-z0-9._-]+")
# From the beginning of a word on: a long one is walked once, and not again from each of its characters.
_ASSIGNED: Final = re.compile(r"(?<![A-Za-z0-9._-])([A-Za-z0-9._-]+)\s*=")

# Nobody encodes a name more often, and each round costs a pass.
_DECODED_TIMES_MAX: Final = 4

# A URL may be a parameter of another one. Of what is deeper nothing is shown: each level costs a pass.
_NESTED_MAX: Final = 4


def mask_url(url: str) -> str:
    """`url` with `MASK` for each secret in it: the password of its user, and the values of secret parameters.

    What is not secret stays as it was written. O(length).
    """
    return _masked(url, _NESTED_MAX)


def _masked(url: str, nested: int) -> str:
    """The same; `nested`: how many levels of URLs in it may be shown."""
    scheme = _SCHEME.match(url)
    if scheme is None:
        # A folder, `host:port` and `empty:12/530` are shown; what may hold a user and a password is not.
        return MASK if "://" in url or _is_doubtful(url) else _masked_parameters("", url, nested)
    begin, rest = scheme.group(), url[scheme.end() :]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    place, _, query = rest.partition("?")
    is_host = all(_HOST.fullmatch(host) for host in authority.split(","))
    # `user:123/4@host`: with a port before it, an "@" in the path is taken for the end of a password.
    if is_host and not (":" in authority and "@" in place) and not _has_stray_at(query):
        return _masked_parameters(begin, rest, nested)
    # The last "@" is the one before the host, as a password may hold more of them; behind a "?" it may be anything.
    user_info, at, behind = rest.rpartition("@")
    if not at or "?" in user_info:
        return begin + MASK
    user, colon, _ = user_info.partition(":")
    shown = f"{user}:{MASK}" if colon and _USER.fullmatch(user) else MASK
    return _masked_parameters(f"{begin}{shown}@", behind, nested)


def has_secret(url: str) -> bool:
    """Does `mask_url` hide anything of `url`?"""
    return mask_url(url) != url


def check_no_secret(url: str) -> None:
    """Refuse a URL that would go into the catalog with a secret. Raises `InvalidRequest`."""
    if has_secret(url):
        raise InvalidRequest(
            f"{mask_url(url)} holds a secret, and every client can read the catalog: give it to the nodes by their "
            "environment"
        )


def is_secret_name(name: str) -> bool:
    """Is the value of the parameter or setting `name` a secret? Whatever its case and its percent encoding."""
    plain = _decoded(name).strip().lower()
    return plain not in _PLACES and _SECRET.search(plain) is not None


def _masked_parameters(begin: str, rest: str, nested: int) -> str:
    """`begin`, which is masked already, and what is behind it: host, path, and a query, whose secrets are masked."""
    place, question, query = rest.partition("?")
    if any(is_secret_name(name) for name in _ASSIGNED.findall(_decoded(place))):
        return begin + MASK  # a query without its "?"
    if not question:
        return begin + place
    shown: list[str] = []
    is_behind_secret = False
    for parameter in re.split("([&;])", query):
        if parameter in ("&", ";"):
            shown.append(parameter)
            continue
        name, equals, value = parameter.partition("=")
        if parameter and (not equals or (is_behind_secret and _decoded(name) not in _KNOWN)):
            return f"{begin}{place}?{''.join(shown)}{MASK}"
        is_secret = is_secret_name(name)
        is_behind_secret = is_behind_secret or is_secret
        shown.append(f"{name}{equals}{(MASK if value else '') if is_secret else _masked_value(value, nested)}")
    return f"{begin}{place}?{''.join(shown)}"


def _masked_value(value: str, nested: int) -> str:
    """The value of a parameter that is no secret by its name: a URL in it is masked, settings in it are hidden."""
    plain = _decoded(value)
    if "://" in plain:
        masked = _masked(plain, nested - 1) if nested else MASK
        return value if masked == plain else quote(masked, safe=":/*?=&@" if value == plain else ":/*")
    return MASK if any(mark in plain for mark in "=&#") else value


def _has_stray_at(query: str) -> bool:
    """Is a raw "@" where no parameter of a known name has it?"""
    return any(
        "@" in parameter and _decoded(parameter.partition("=")[0]) not in _KNOWN
        for parameter in re.split("[&;]", query)
    )


def _is_doubtful(text: str) -> bool:
    """May text without a scheme hold a user and a password? A path from the root or from here does not."""
    return "@" in text and not text.startswith(("/", "./", "../", "~"))


def _decoded(text: str) -> str:
    for _ in range(_DECODED_TIMES_MAX):
        plain = unquote_plus(text)
        if plain == text:
            break
        text = plain
    return text
