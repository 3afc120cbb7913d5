"""Versions fetched through the check of a node: real files, links, names and an object store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kit.index.version_building import build_version

from log_tier.catalog.cluster_map import TableEntry
from log_tier.model.errors import InvalidRequest, LocationRefused
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.table_ref import TableRef
from serving_tier.locations.allowed import ANY_LOCAL, AllowedLocations, allowed_of
from serving_tier.locations.opening import open_version
from serving_tier.node.staging import fetch_version

REF = TableRef(TableId("AAECAwQFBgcICQoLDA0ODw"), "flights", 1)
TABLE = TableEntry(REF.id, "flights", 1, 1, ((),), starts=(Offset(0),))


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """The folder in which everything lies; only `allowed` in it is named."""
    (tmp_path / "allowed").mkdir()
    return tmp_path


def confined(roots: Path) -> AllowedLocations:
    """What a server opens that others reach."""
    return allowed_of([str(roots / "allowed")], host="0.0.0.0")


async def built_at(url: str, roots: Path) -> None:
    await build_version(url, REF, {b"a": b"1"}, bases=[5], work=roots / "work")


async def fetched(url: str, roots: Path, allowed: AllowedLocations) -> Path:
    folder = roots / "fetched"
    await fetch_version(url, TABLE, TABLE.partition(Partition(0)), 2, folder, lambda *_: None, allowed=allowed)
    return folder


async def test_a_version_below_a_named_folder(roots: Path) -> None:
    await built_at(str(roots / "allowed" / "v"), roots)
    folder = await fetched(f"file://{roots}/allowed//v/", roots, confined(roots))
    assert (folder / "data.mdb").exists()


async def test_a_version_elsewhere(roots: Path) -> None:
    await built_at(str(roots / "elsewhere"), roots)
    with pytest.raises(LocationRefused, match="--allow-location"):
        await fetched(str(roots / "elsewhere"), roots, confined(roots))
    assert not (roots / "fetched").exists()
    await fetched(str(roots / "elsewhere"), roots, ANY_LOCAL)


def _folder(roots: Path) -> None:
    (roots / "allowed" / "v").symlink_to(roots / "elsewhere")


def _parent(roots: Path) -> None:
    (roots / "allowed" / "deep").symlink_to(roots)


def _inside(roots: Path) -> None:
    """The version's folder is a real one, with a link to each thing in it."""
    (roots / "allowed" / "v").mkdir()
    for each in (roots / "elsewhere").iterdir():
        (roots / "allowed" / "v" / each.name).symlink_to(each)


def _data(roots: Path) -> None:
    """All is real, but the index's file is a link to one that lies outside."""
    (roots / "elsewhere").rename(roots / "allowed" / "v")
    (data,) = (roots / "allowed" / "v").glob("*/*/*/data.mdb")
    data.rename(roots / "secret")
    data.symlink_to(roots / "secret")


@pytest.mark.parametrize(
    ("link", "path"),
    [(_folder, "allowed/v"), (_parent, "allowed/deep/elsewhere"), (_inside, "allowed/v"), (_data, "allowed/v")],
)
async def test_a_link_that_leads_out(roots: Path, link: Callable[[Path], None], path: str) -> None:
    await built_at(str(roots / "elsewhere"), roots)
    link(roots)
    with pytest.raises(LocationRefused, match="symbolic link leads out"):
        await fetched(str(roots / path), roots, confined(roots))
    assert not (roots / "fetched").exists()


async def test_a_link_within_and_a_root_that_is_one(roots: Path) -> None:
    (roots / "allowed").rmdir()
    (roots / "mounted").mkdir()
    (roots / "allowed").symlink_to(roots / "mounted")
    await built_at(str(roots / "mounted" / "v1"), roots)
    (roots / "mounted" / "newest").symlink_to(roots / "mounted" / "v1")
    folder = await fetched(str(roots / "allowed" / "newest"), roots, confined(roots))
    assert (folder / "data.mdb").exists()


async def test_two_stores_with_other_roots_are_not_one(roots: Path) -> None:
    """fsspec keeps file systems by their arguments."""
    await built_at(str(roots / "elsewhere"), roots)
    wide = allowed_of([str(roots)], host="0.0.0.0")
    await fetched(str(roots / "elsewhere"), roots, wide)
    with pytest.raises(LocationRefused):
        await open_version(str(roots / "elsewhere"), confined(roots))


async def test_nothing_at_a_named_place(roots: Path) -> None:
    with pytest.raises(InvalidRequest, match="is missing") as caught:
        await fetched(str(roots / "allowed" / "nothing"), roots, confined(roots))
    assert not isinstance(caught.value, LocationRefused)


async def test_an_object_store_on_loopback_is_named(roots: Path, s3_address: str, bucket: str) -> None:
    url = f"s3://{bucket}/v?endpoint_url={s3_address}"
    await built_at(url, roots)
    for allowed in (ANY_LOCAL, confined(roots)):
        with pytest.raises(LocationRefused, match="of the local network"):
            await fetched(url, roots, allowed)
    await fetched(url, roots, allowed_of([f"s3://*?endpoint_url={s3_address}"], host="0.0.0.0"))
    assert (roots / "fetched" / "data.mdb").exists()


async def test_a_name_that_no_name_server_knows(roots: Path) -> None:
    """`.invalid` is reserved; the name is refused before anybody connects."""
    with pytest.raises(LocationRefused, match="no address of its endpoint"):
        await open_version("s3://bucket/v?endpoint_url=http://store.invalid:9000", ANY_LOCAL)


async def test_a_name_that_is_at_a_local_address(roots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The resolver's answer is the seam: one address of two is local."""

    def answer(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        assert host == "rebound.example.com", host
        return [(2, 1, 6, "", (address, port)) for address in ("93.184.215.14", "169.254.169.254")]

    monkeypatch.setattr("socket.getaddrinfo", answer)
    with pytest.raises(LocationRefused, match=r"is at 169\.254\.169\.254"):
        await open_version("s3://bucket/v?endpoint_url=https://rebound.example.com", ANY_LOCAL)
