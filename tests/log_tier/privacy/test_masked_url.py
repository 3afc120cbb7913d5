"""No secret of a URL is in what people see of it, and what is no secret stays."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.privacy.masked_url import MASK, has_secret, is_secret_name, mask_url

# Characters that no masked URL below has of its own, so a secret that is found in one came through.
_MARK = st.text("QXZ", min_size=4, max_size=12)
_RAW = st.text("QXZ@/?#&=:;%+.-_ []\n", max_size=12)

_SECRET_NAMES = [
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
    "sasl.oauthbearer.client.secret",
    "SASL.PASSWORD",
    "sasl%2Epassword",
    "sasl.jaas.config",
    "access_key",
    "aws_secret_access_key",
    "session_token",
    "X-Amz-Signature",
    "sig",
]


@pytest.mark.parametrize(
    "plain",
    [
        "file:///data",
        "file:///data/a%20b",
        "/data/me@home",
        "data",
        "grpc://127.0.0.1:7071",
        "grpc://[::1]:7071",
        "localhost:7070",
        "empty:12/530",
        "kafka://a:9092,b:9092/ns?replication=3&min_insync=2&config=/etc/duramen/kafka.properties",
        "kafka://a:9092/ns?security.protocol=SASL_SSL&sasl.username=me@home&ssl.ca.location=/etc/ca.pem",
        "kafka://a/ns?ssl.key.location=/etc/key.pem&compression.type=zstd&client.id=x",
        "s3://bucket/day=5/prefix?endpoint_url=http://127.0.0.1:9000&region=eu-1",
        "s3://bucket/prefix?endpoint_url=http%3A%2F%2F127.0.0.1%3A9000",
        "s3://bucket/me@home",
        "",
    ],
)
def test_a_url_without_secrets_stays(plain: str) -> None:
    assert mask_url(plain) == plain
    assert not has_secret(plain)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("kafka://a:9092/ns?sasl.password=x&sasl.username=me", "kafka://a:9092/ns?sasl.password=***&sasl.username=me"),
        ("kafka://me:x@a:9092/ns?replication=3", "kafka://me:***@a:9092/ns?replication=3"),
        ("s3://AKIA:x/y@bucket/prefix", "s3://AKIA:***@bucket/prefix"),
        ("https://x@host/", "https://***@host/"),
        ("s3://b/p?endpoint_url=http://me:x@minio:9000", "s3://b/p?endpoint_url=http://me:***@minio:9000"),
    ],
)
def test_only_the_secret_of_a_sound_url_is_masked(url: str, shown: str) -> None:
    assert mask_url(url) == shown
    assert has_secret(url)


@given(st.sampled_from(_SECRET_NAMES), _MARK, _RAW, _RAW, st.sampled_from(["kafka://a:9092/ns", "s3://b/p", "x", ""]))
def test_a_secret_parameter_is_masked_whatever_is_in_it(
    name: str, mark: str, before: str, behind: str, place: str
) -> None:
    sound = f"{place}?replication=3&{name}={quote(before + mark + behind, safe='')}&region=eu"
    assert mask_url(sound) == f"{place}?replication=3&{name}={MASK}&region=eu"
    assert mark not in mask_url(f"{place}?replication=3&{name}={before}{mark}{behind}&region=eu")


@given(_MARK, _RAW, _RAW, st.sampled_from(["kafka", "s3", "grpc", "file", "https"]))
def test_the_password_of_a_user_is_masked_whatever_is_in_it(mark: str, before: str, behind: str, scheme: str) -> None:
    sound = f"{scheme}://me:{quote(before + mark + behind, safe='')}@host/path?region=eu"
    assert mask_url(sound) == f"{scheme}://me:{MASK}@host/path?region=eu"
    assert mark not in mask_url(f"{scheme}://me:{before}{mark}{behind}@host/path")
    if not before.startswith("//"):  # `me://NAME:@host` is a URL of the scheme `me`, and NAME its user
        assert mark not in mask_url(f"me:{before}{mark}{behind}@host")


@given(st.text())
def test_every_text_has_a_mask_and_a_masked_one_stays(text: str) -> None:
    assert mask_url(mask_url(text)) == mask_url(text)


@pytest.mark.parametrize("nested", ["http://h?a=", "http%3A%2F%2Fh%3Fa%3D"])
def test_urls_in_urls_are_shown_to_some_depth(nested: str) -> None:
    assert mask_url(f"s3://b?a={nested * 3}x") == f"s3://b?a={nested * 3}x"
    assert "XQZ" not in mask_url(f"s3://b?a={nested * 2}http://u:XQZ@h")
    assert mask_url(f"s3://b?a={nested * 5000}x").endswith(MASK)


def test_a_long_word_is_shown() -> None:
    """In one pass: a second for each of its characters' rest would be hours."""
    word = "x" * 1_000_000
    assert mask_url(word) == word


@pytest.mark.parametrize("name", _SECRET_NAMES)
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret_name(name)
