"""Texts that hostile callers write as locations, and what a server makes of them."""

from __future__ import annotations

import ipaddress
import posixpath
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import InvalidRequest, LocationRefused
from serving_tier.locations.addresses import is_local, parse_address
from serving_tier.locations.allowed import ANY_LOCAL, AllowedLocations, allowed_of, is_open_address, listens_on_loopback
from serving_tier.locations.location import Bucket, Folder, NoLocation, parse_location

NAMED = allowed_of(["/bulk", "s3://lake/versions", "s3://*?endpoint_url=http://10.0.0.5:9000"], host="0.0.0.0")
PIECES = st.sampled_from(
    [
        "/",
        "//",
        ".",
        "..",
        "%2e",
        "%252e",
        "%2F",
        "%5c",
        "\\",
        "bulk",
        "bulk2",
        "etc",
        "file:",
        "file://",
        "FILE://",
        "s3://",
        "S3://",
        "host",
        "~",
        "?",
        "#",
        "::",
        "@",
        ":",
        "%00",
        "\x00",
        "\n",
        "endpoint_url=",
        "http://",
        "[::1]",
        "127.1",
        "169.254.169.254",
        "localhost",
        "lake",
        "versions",
        "&",
        "=",
        "region=",
        "*",
        "é",
    ]
)
HOSTILE = st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=40)


@given(HOSTILE)
def test_what_is_allowed_lies_below_what_is_named(text: str) -> None:
    try:
        found = NAMED.check(text)
    except LocationRefused:
        return
    if isinstance(found, Folder):
        assert posixpath.normpath(found.path) == found.path, found
        assert found.path == "/bulk" or found.path.startswith("/bulk/"), found
        assert posixpath.normpath(unquote(unquote(found.path))).startswith("/bulk"), found
    elif found.endpoint is None:
        assert (found.name, (found.prefix + "/").startswith("versions/")) == ("lake", True), found
    else:
        assert found.endpoint.url == "http://10.0.0.5:9000", found


@given(st.lists(PIECES, min_size=1, max_size=8).map(lambda pieces: "/bulk/" + "/".join(pieces)))
def test_no_path_climbs(text: str) -> None:
    try:
        found = NAMED.check(text)
    except LocationRefused:
        return
    assert isinstance(found, Folder), found
    assert ".." not in unquote(unquote(found.path)).split("/"), found


@given(HOSTILE)
def test_a_location_has_one_text(text: str) -> None:
    try:
        found = parse_location(text)
    except NoLocation:
        return
    assert parse_location(found.url) == found


@given(st.ip_addresses(v=4))
def test_an_address_is_the_same_in_the_forms_of_ipv6(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    for carrier in ("::ffff:0:0", "64:ff9b::", "::"):
        carried = ipaddress.IPv6Address(int(ipaddress.IPv6Address(carrier)) | number)
        assert is_local(carried) or not is_local(address), carried
    assert is_local(ipaddress.IPv6Address((0x2002 << 112) | (number << 80))) == is_local(address)
    mapped = f"s3://bucket/p?endpoint_url=http://[::ffff:{address}]:9000"
    plain = f"s3://bucket/p?endpoint_url=http://{address}:9000"
    assert _refuses(ANY_LOCAL, mapped) == _refuses(ANY_LOCAL, plain) == is_local(address)


def _refuses(allowed: AllowedLocations, text: str) -> bool:
    try:
        allowed.check(text)
    except LocationRefused:
        return True
    return False


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.9.9.9",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[::]",
        "[fe80::1]",
        "[fc00::1]",
        "[fec0::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[::127.0.0.1]",
        "[ff02::1]",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "metadata.google.internal",
        "minio",
        "nas.local",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.0.0.01",
        "1.2.3.4.5",
        "user@example.com",
        "example.com%2f",
        "example.com#",
        "[fe80::1%25eth0]",
        "[example.com]",
        ".example.com",
        "exa+mple.com",
    ],
)
def test_endpoints_that_must_be_named(host: str) -> None:
    for scheme in ("http", "https"):
        with pytest.raises(LocationRefused, match="allowed_locations"):
            ANY_LOCAL.check(f"s3://bucket/x?endpoint_url={scheme}://{host}:9000")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "0 characters"),
        ("/" + "x" * 5000, "5001 characters"),
        ("folder", "no absolute path"),
        ("~/folder", "no absolute path"),
        ("/a/../b", "'..'"),
        ("/a/./b", "'..'"),
        ("/a/%2e%2e/b", "'..'"),
        ("/a/%252e%252e/b", "'..'"),
        ("/a%2f..%2fb", "encoded slash"),
        ("/a\\..\\b", "backslash"),
        ("/a%5c..%5cb", "encoded slash"),
        ("/a\nb", "control character"),
        ("/a%00", "zero byte"),
        ("//host/share", "'//'"),
        ("file:////host/share", "names a host"),
        ("file://host/share", "names a host"),
        ("file://~/x", "names a host"),
        ("file://localhost/x", "names a host"),
        ("FILE:///x", "small letters"),
        ("file:/x", "small letters"),
        ("S3://bucket/x", "small letters"),
        ("http://example.com/x", "small letters"),
        ("memory://x", "small letters"),
        ("simplecache::file:///x", "chains"),
        ("file:///x::file:///y", "chains"),
        ("file:///x?y", "settings"),
        ("s3:///x", "no name of a bucket"),
        ("s3://*/x", "no name of a bucket"),
        ("s3://user@host/x", "no name of a bucket"),
        ("s3://bucket/a/../b", "'..'"),
        ("s3://bucket/x?profile=y", "each once"),
        ("s3://bucket/x?region=a&region=b", "each once"),
        ("s3://bucket/x?region=@127.0.0.1", "region"),
        ("s3://bucket/x?region=", "region"),
        ("s3://bucket/x?endpoint_url=ftp://example.com", "is not http"),
        ("s3://bucket/x?endpoint_url=http://example.com/path", "is not http"),
        ("s3://bucket/x?endpoint_url=http://example.com:99999", "is not http"),
        ("s3://bucket/x?nonsense", "cannot be read"),
    ],
)
def test_texts_that_are_no_locations(text: str, why: str) -> None:
    with pytest.raises(LocationRefused, match=why):
        ANY_LOCAL.check(text)


def test_what_the_default_opens() -> None:
    open_ones = ["/any/folder/", "file:///any", "s3://bucket/x", "s3://bucket/x?endpoint_url=https://s3.example.com"]
    for text in open_ones:
        ANY_LOCAL.check(text)
        with pytest.raises(LocationRefused, match="--allow-location"):
            allowed_of([], host="0.0.0.0").check(text)
    own = allowed_of([], host="10.0.0.1", own="file:///data/n1/snapshots")
    assert own.check("/data/n1/snapshots/x") == Folder("/data/n1/snapshots/x")
    with pytest.raises(LocationRefused):
        own.check("/data/n1/snapshots2")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "localhost", "::1", "[::1]"])
def test_servers_on_loopback(host: str) -> None:
    assert listens_on_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com"])
def test_servers_that_others_reach(host: str) -> None:
    assert not listens_on_loopback(host)


def test_an_endpoint_that_is_named_may_be_local() -> None:
    named = "s3://bucket/versions?endpoint_url=http://127.0.0.1:9000"
    allowed = allowed_of([named], host="127.0.0.1")
    assert isinstance(allowed.check(named), Bucket)
    for other in (named.replace("9000", "9001"), named.replace("versions", "other"), named.replace("http:", "https:")):
        with pytest.raises(LocationRefused, match="of the local network"):
            allowed.check(other)
    assert isinstance(NAMED.check("s3://every/one?endpoint_url=http://10.0.0.5:9000/&region=eu-west-1"), Bucket)


@pytest.mark.parametrize("entry", ["bulk", "/bulk/../etc", "ftp://host", ""])
def test_an_entry_that_is_none(entry: str) -> None:
    with pytest.raises(InvalidRequest, match="allowed_locations"):
        allowed_of([entry], host="127.0.0.1")


def test_a_hostile_text_is_shown_in_part() -> None:
    with pytest.raises(LocationRefused) as caught:
        ANY_LOCAL.check("x" * 4000)
    assert len(str(caught.value)) < 600


def test_addresses_of_name_servers() -> None:
    assert parse_address("example.com") is None
    assert is_open_address("8.8.8.8")
    for text in ("127.0.0.1", "fe80::1%eth0", "::ffff:10.0.0.1", "nonsense"):
        assert not is_open_address(text), text
