"""What is fetched for other languages: each file by its hash, from no place that is named."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "examples" / "clients"
CHECK = ROOT / "scripts" / "check_jars.sh"


def test_go_has_the_hash_of_each_module_that_it_names() -> None:
    wanted = re.findall(r"^(?:require)?\s+([\w./-]+) (v\S+)", (CLIENTS / "go" / "go.mod").read_text(), re.MULTILINE)
    assert len(wanted) > 2
    sums = [line.split() for line in (CLIENTS / "go" / "go.sum").read_text().splitlines()]
    assert all(re.fullmatch(r"h1:[\w+/]{43}=", each[2]) for each in sums)
    assert set(wanted) <= {(module, version) for module, version, _ in sums}


def test_node_has_the_hash_of_each_package_and_no_address() -> None:
    lock: dict[str, Any] = json.loads((CLIENTS / "node" / "package-lock.json").read_text())
    asked: dict[str, Any] = json.loads((CLIENTS / "node" / "package.json").read_text())
    packages = dict(lock["packages"])
    assert packages.pop("")["dependencies"] == asked["dependencies"]
    for name, package in packages.items():
        assert re.fullmatch(r"sha512-[\w+/]{86}==", package["integrity"]), name
        assert "resolved" not in package, name


@pytest.mark.parametrize("folder", ["deploy/kafka", "docs/spec"])
def test_jars_that_are_fetched_are_listed_with_the_versions_of_their_pom(folder: str) -> None:
    pom = ElementTree.parse(ROOT / folder / "pom.xml")
    properties = {each.tag.partition("}")[2]: each.text for each in pom.find("{*}properties") or ()}
    listed = {line.split()[1] for line in (ROOT / folder / "libs.sha256").read_text().splitlines()}
    dependencies = pom.findall("{*}dependencies/{*}dependency")
    assert dependencies
    for each in dependencies:
        name, version = (each.findtext(f"{{*}}{tag}", "") for tag in ("artifactId", "version"))
        version = re.sub(r"\$\{(.+)\}", lambda match: properties[match[1]] or "", version)
        assert f"{name}-{version}.jar" in listed


def checked(folder: Path, names: str) -> subprocess.CompletedProcess[str]:
    """What the check says of a folder with two files, whose list has those of `names`."""
    folder.mkdir()
    for name in ("a.jar", "b.jar"):
        (folder / name).write_text(name)
    content = dict(word.split("=") for word in names.split())
    lines = [f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in content.items()]
    (folder.parent / "list").write_text("".join(lines))
    return subprocess.run([CHECK, folder, folder.parent / "list"], capture_output=True, text=True, check=False)


def test_the_files_of_a_list_pass(tmp_path: Path) -> None:
    done = checked(tmp_path / "libs", "a.jar=a.jar b.jar=b.jar")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("a.jar=a.jar b.jar=changed", "b.jar: FAILED"),
        ("a.jar=a.jar b.jar=b.jar c.jar=c.jar", "c.jar"),
        ("a.jar=a.jar", "b.jar"),
    ],
    ids=["changed", "missing", "not listed"],
)
def test_other_files_do_not(tmp_path: Path, names: str, said: str) -> None:
    done = checked(tmp_path / "libs", names)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr


def test_a_list_without_hashes_does_not_pass(tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    (tmp_path / "list").write_text("a.jar\n")
    assert subprocess.run([CHECK, tmp_path / "libs", tmp_path / "list"], capture_output=True, check=False).returncode
