"""The locks meet what `pyproject.toml` asks for, fix the bytes of each package, and name no place to fetch from."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest
from kit.lock_file import Pin, Project, form_faults, pins, unmet
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "requirements"
PROJECT = Project(ROOT / "pyproject.toml")
LOCKS = ("build", "dev", "runtime", "tools")

IMAGE_EXTRAS = ("s3", "kafka", "otel")
"""What the image can do."""

A_HASH = "--hash=sha256:" + "0" * 64


def lock(name: str) -> str:
    return (FOLDER / f"{name}.lock").read_text()


def sources(name: str) -> list[Requirement]:
    """What a `.in` asks for."""
    lines = (FOLDER / f"{name}.in").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def versions(name: str) -> dict[tuple[str, str], str]:
    return {(pin.name, str(pin.requirement.marker)): pin.version for pin in pins(lock(name))}


def test_these_are_all_locks() -> None:
    assert tuple(sorted(path.stem for path in FOLDER.glob("*.lock"))) == LOCKS


@pytest.mark.parametrize("name", LOCKS)
def test_each_package_has_one_version_and_hashes_and_no_place_to_fetch_from(name: str) -> None:
    assert list(pins(lock(name)))
    assert form_faults(lock(name)) == []


def test_the_locks_meet_what_pyproject_asks_for() -> None:
    assert unmet(PROJECT.requirements(PROJECT.extras), lock("dev")) == []
    assert unmet(PROJECT.requirements(IMAGE_EXTRAS), lock("runtime")) == []
    assert unmet(PROJECT.build, lock("build")) == []
    assert unmet(sources("build"), lock("build")) == []
    assert unmet(sources("tools"), lock("tools")) == []


def test_extras_that_packages_ask_for_are_in_the_lock() -> None:
    """pip takes `coverage==7.1` for no pin of `coverage[toml]`, and looks for the newest one: it then has no hash."""
    locked = {pin.name: pin.requirement.extras for pin in pins(lock("dev"))}
    asked = [
        (package.name, requirement)
        for package in metadata.distributions()
        if canonicalize_name(package.name) in locked
        for requirement in map(Requirement, package.requires or ())
        if requirement.extras and (requirement.marker is None or requirement.marker.evaluate({"extra": ""}))
    ]
    assert asked, "pytest-cov asks for coverage[toml]"
    lacking = [each for each in asked if not each[1].extras <= locked[canonicalize_name(each[1].name)]]
    assert lacking == []


def test_what_the_image_holds_is_what_is_tested() -> None:
    tested, held = versions("dev"), versions("runtime")
    assert {name: version for name, version in held.items() if tested.get(name) != version} == {}
    tested_names = {name for name, _ in tested}
    shared = {key: version for key, version in versions("build").items() if key[0] in tested_names}
    assert {key: version for key, version in shared.items() if tested.get(key) != version} == {}


def test_the_image_does_not_hold_what_only_tests_need() -> None:
    held = {pin.name for pin in pins(lock("runtime"))}
    assert held.isdisjoint({"pytest", "hypothesis", "moto", "ruff", "mypy", "pyspark", "grpcio-tools"})


def test_ci_installs_from_the_locks() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^export LOCKED=1$", script, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^BY_HASH := .*--require-hashes .*--only-binary :all:", makefile, re.MULTILINE)
    for name in ("build", "runtime", "dev"):
        assert re.search(rf"\$\(BY_HASH\) .*requirements/{name}\.lock", makefile), name


# --- what these tests see


def test_an_extra_that_names_extras_stands_for_theirs() -> None:
    names = {each.name for each in PROJECT.requirements(["dev"])}
    assert {"pytest", "s3fs", "pyspark", "confluent-kafka", "grpcio"} <= names
    assert "duramen" not in names


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a==1", "no hash: a==1"),
        (f"a>=1 {A_HASH}", "no version: a>=1"),
        (f"a==1.* {A_HASH}", "no version: a==1.*"),
        ("a==1 --hash=md5:00", "no SHA-256: a==1 --hash=md5:00"),
        (f"-i https://example.com\na==1 {A_HASH}", "where from: -i https://example.com"),
        (f"--find-links files\na==1 {A_HASH}", "where from: --find-links files"),
        (f"# https://example.com\na==1 {A_HASH}", "where from: # https://example.com"),
    ],
    ids=["no hash", "a range", "a wildcard", "md5", "an index", "a folder", "an address in a comment"],
)
def test_a_fault_of_form_is_found(text: str, fault: str) -> None:
    assert form_faults(text) == [fault]


def test_a_line_without_a_fault_has_none() -> None:
    text = f'# made by a tool\na==1.0 ; sys_platform == "win32" \\\n    {A_HASH} \\\n    {A_HASH}\n    # via b\n'
    assert form_faults(text) == []
    (pin,) = pins(text)
    assert pin == Pin(Requirement('a==1.0 ; sys_platform == "win32"'), [A_HASH, A_HASH])
    assert not pin.holds_here


def test_a_requirement_that_is_not_met_is_found() -> None:
    held = f"a-b==1.5 {A_HASH}\nc==2 ; python_version < '3.12' {A_HASH}\nc==3 ; python_version >= '3.12' {A_HASH}"
    assert unmet([Requirement("A_B[x]>=1"), Requirement("c>=2")], held) == []
    assert unmet([Requirement("a.b<1.5"), Requirement("c>=3"), Requirement("d")], held) == [
        "a.b<1.5: locked is 1.5",
        "c>=3: locked is 2",
        "not locked: d",
    ]
