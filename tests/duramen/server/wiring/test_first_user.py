"""The first user: made once, before anybody is answered, whatever happens in between and whoever begins at once."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from duramen.server.wiring.first_user import NO_POLICY, FirstUser, UserPolicy, settle_users
from log_tier.access.authenticator import Authenticator
from log_tier.access.gate import Gate
from log_tier.catalog.catalog import Catalog
from log_tier.model.errors import InvalidName, InvalidRequest
from log_tier.model.log import Log
from log_tier.open import open_log
from log_tier.privacy.secret_files import read_secret_file
from log_tier.trust.grants import Right


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[Log]:
    made = await open_log(f"file://{tmp_path / 'data'}")
    yield made
    await made.close()


@pytest.fixture
async def catalog(log: Log) -> AsyncIterator[Catalog]:
    made = await Catalog.open(log)
    yield made
    await made.close()


def first(folder: Path, name: str = "admin", file: str = "admin.token") -> UserPolicy:
    return UserPolicy(FirstUser(name, folder / file))


def proves(catalog: Catalog, file: Path) -> str:
    """Whom the token in a file proves."""
    gate = Gate(lambda: catalog.map)
    gate.follow(catalog.map)
    return Authenticator(gate).by_token(read_secret_file(file)).name


async def test_it_is_made_once(catalog: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "admin.token"
    assert await settle_users(catalog, first(tmp_path)) == "made"
    assert proves(catalog, file) == "admin"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    rights = catalog.map.trust.rights_of("admin", catalog.map.version)
    assert rights.is_superuser
    assert all(rights.may(right, "orders", b"k") for right in Right)
    before, text = catalog.map.version, file.read_text()
    for again in (first(tmp_path), first(tmp_path, "other", "other.token")):
        assert await settle_users(catalog, again) == "there"
    assert (catalog.map.version, file.read_text()) == (before, text)
    assert not (tmp_path / "other.token").exists(), "a token that proves nobody is not kept"
    file.unlink()  # its owner has brought it elsewhere
    assert await settle_users(catalog, first(tmp_path)) == "there"
    assert not file.exists()


async def test_a_crash_before_the_command_loses_nothing(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(*_: Any, **__: Any) -> Any:
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(catalog, "submit", crash)
        with pytest.raises(asyncio.CancelledError):
            await settle_users(catalog, first(tmp_path))
    text = (tmp_path / "admin.token").read_text()
    assert not catalog.map.trust.is_closed
    assert await settle_users(catalog, first(tmp_path)) == "made"
    assert (tmp_path / "admin.token").read_text() == text
    assert proves(catalog, tmp_path / "admin.token") == "admin"


async def test_two_first_starts_at_once_with_one_file(log: Log, tmp_path: Path) -> None:
    catalogs = [await Catalog.open(log) for _ in range(2)]
    try:
        results = await asyncio.gather(*(settle_users(catalog, first(tmp_path)) for catalog in catalogs))
        assert "made" in results
        assert list((await catalogs[0].refresh()).trust.users) == ["admin"]
        assert proves(catalogs[0], tmp_path / "admin.token") == "admin"
    finally:
        for catalog in catalogs:
            await catalog.close()


async def test_two_first_starts_at_once_with_files_of_their_own(log: Log, tmp_path: Path) -> None:
    catalogs = [await Catalog.open(log) for _ in range(2)]
    try:
        results = await asyncio.gather(
            *(settle_users(catalog, first(tmp_path, file=f"{n}.token")) for n, catalog in enumerate(catalogs))
        )
        assert sorted(results) == ["made", "there"]
        left = [path for path in tmp_path.iterdir() if path.suffix == ".token"]
        assert left == [tmp_path / f"{results.index('made')}.token"]
        assert proves(catalogs[0], left[0]) == "admin"
    finally:
        for catalog in catalogs:
            await catalog.close()


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        ("nonsense", 0o600, "holds no token of admin"),
        ("", 0o600, "holds no token of admin"),
        (f"dt1_{'0' * 12}_{'0' * 64}_other", 0o600, "holds no token of admin"),
        (f"dt1_{'0' * 12}_{'0' * 64}_admin", 0o644, "chmod 600"),
    ],
)
async def test_a_file_that_is_there_is_never_replaced(
    catalog: Catalog, tmp_path: Path, content: str, mode: int, words: str
) -> None:
    file = tmp_path / "admin.token"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(InvalidRequest, match=words) as refused:
        await settle_users(catalog, first(tmp_path))
    assert "0" * 64 not in str(refused.value)
    assert file.read_text() == content
    assert not catalog.map.trust.is_closed


async def test_users_that_are_needed(catalog: Catalog, tmp_path: Path) -> None:
    assert await settle_users(catalog, NO_POLICY) == ""
    needed = UserPolicy(are_needed=True)
    with pytest.raises(InvalidRequest, match="--first-user admin --token-file"):
        await settle_users(catalog, needed)
    await settle_users(catalog, UserPolicy(FirstUser("admin", tmp_path / "t"), are_needed=True))
    assert await settle_users(catalog, needed) == ""
    assert await settle_users(catalog, NO_POLICY) == ""
    with pytest.raises(InvalidName):
        FirstUser("a b", tmp_path / "t")
