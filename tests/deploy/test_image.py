"""The image as its Dockerfile makes it: a user of its own, a read-only root, a list of what it holds."""

from __future__ import annotations

import itertools
import json
import os
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from kit.client.server_process import START_SECONDS_MAX, STOP_SECONDS_MAX, read_line
from kit.clients.programs import ROOT
from kit.deadlines import patience_s
from kit.image.container import Image, need_containers
from kit.lock_file import pins

import duramen

pytestmark = [pytest.mark.image, pytest.mark.timeout(900)]

USER = 7070
SBOM = "opt/duramen/sbom.cdx.json"
TOOLS_PYTHON = ROOT / ".venv" / "tools" / "bin" / "python"

UP = ("up", "--data", "/data", "--host", "127.0.0.1", "--port", "0", "--resp-port", "0", "--json")

# Where a process of this user could write.
WRITABLE = ("sh", "-c", "find / -path /proc -prune -o -not -type l -writable -print 2>/dev/null || true")
# They keep nothing.
DEVICES = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    need_containers()
    return Image(ROOT / "deploy" / "Dockerfile", tmp_path_factory.mktemp("image") / "stages")


@pytest.fixture
def data(image: Image, tmp_path: Path) -> str:
    return image.volume(tmp_path / "data", "/data")


def output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience_s(60), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def served(command: Sequence[str], errors: Path) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """A server that runs, and what it said when it was ready."""
    with errors.open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
    try:
        line = read_line(process, START_SECONDS_MAX)
        assert line, errors.read_text()
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@pytest.mark.parametrize("more", [(), ("--resp-readers", "1")], ids=["one process", "a reader process"])
def test_a_server_works_with_a_read_only_root(image: Image, data: str, tmp_path: Path, more: tuple[str, ...]) -> None:
    errors = tmp_path / "errors"
    for start in range(2):
        with served(image.duramen(*UP, *more, volumes=[data]), errors) as (process, said):
            mounts = [line.split() for line in Path(f"/proc/{process.pid}/mountinfo").read_text().splitlines()]
            assert [options.split(",")[0] for _, _, _, _, place, options, *_ in mounts if place == "/"] == ["ro"]
            of_process = status(process.pid)
            assert of_process["Uid"].split() == of_process["Gid"].split() == [str(USER)] * 4
            assert of_process["Groups"] == ""
            assert {int(of_process[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
            assert of_process["NoNewPrivs"] == "1"
            with duramen.connect(f"127.0.0.1:{said['port']}", timeout=20) as database:
                table = database.table("cities") if start else database.create_table("cities")
                assert table.get(b"Oslo") == (b"Norway" if start else None)
                table.put(b"Oslo", b"Norway")
            with redis.Redis(port=said["resp_port"]) as client:
                client.set("Rome", "Italy")
                assert client.get("Rome") == b"Italy"
            process.terminate()
            assert process.wait(patience_s(STOP_SECONDS_MAX)) == 0, errors.read_text()
    assert errors.read_text() == ""
    folder = Path(data.partition(":")[0])
    found = [folder, *folder.rglob("*")]
    assert len(found) > 3
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in found} == {(USER, USER)}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_its_own_command_needs_certificates_and_names_the_commands_that_make_them(
    image: Image, data: str, tmp_path: Path
) -> None:
    """As `deploy/Dockerfile` has it, but for the address, which would be open to others here."""
    own = [*image.stage.last("CMD").array, "--host", "127.0.0.1", "--port", "0", "--json"]
    certs = image.volume(tmp_path / "certs", "/certs")
    refused = subprocess.run(
        image.duramen(*own, volumes=[data, certs]), capture_output=True, text=True, timeout=patience_s(60), check=False
    )
    assert refused.returncode == 1, refused.stdout
    assert "`duramen cert issue server --server HOST,… --dir /certs`" in refused.stderr + refused.stdout
    output(image.duramen("cert", "init", "--dir", "/certs", volumes=[certs]))
    output(
        image.duramen("cert", "issue", "server", "--server", "localhost,127.0.0.1", "--dir", "/certs", volumes=[certs])
    )
    token_file, ca = tmp_path / "certs" / "admin.token", tmp_path / "certs" / "ca.crt"
    errors = tmp_path / "errors"
    for start in range(2):
        with served(image.duramen(*own, volumes=[data, certs]), errors) as (_, said):
            at = f"duramens://localhost:{said['port']}"
            with duramen.connect(at, ca=ca, token=token_file.read_text().strip(), timeout=20) as database:
                table = database.table("cities") if start else database.create_table("cities")
                table.put(b"Oslo", b"Norway")
            with pytest.raises(duramen.Unauthenticated):
                duramen.connect(at, ca=ca, timeout=20)
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600


def test_a_cluster_works_with_read_only_roots(image: Image, data: str, tmp_path: Path) -> None:
    """As in `deploy/compose.yaml`: a router has no volume, and a node has one for snapshots."""
    volumes = [image.volume(tmp_path / "node", "/data"), image.volume(tmp_path / "snapshots", "/snapshots")]
    here, errors = ("--host", "127.0.0.1", "--port", "0", "--json"), tmp_path / "errors"
    log_command = image.duramen("serve", "log", "--data", "/data", *here, volumes=[data])
    with served(log_command, errors) as (_, log):
        at = ("--log", f"grpc://127.0.0.1:{log['port']}")
        node = ("serve", "node", "--id", "n1", "--data", "/data", *at, "--snapshots", "file:///snapshots")
        with (
            served(image.duramen(*node, *here, volumes=volumes), errors),
            served(image.duramen("serve", "router", *at, *here), errors) as (_, router),
        ):
            target = f"127.0.0.1:{router['port']}"
            with duramen.connect(target, timeout=60) as database:
                table = database.create_table("cities", partitions=1)
                table.put(b"Oslo", b"Norway")
                assert table.get(b"Oslo", level="strong") == b"Norway"
            output(image.duramen("admin", "snapshot", "cities", "--at", target))
    assert [path for path in (tmp_path / "snapshots").rglob("*") if path.is_file()]
    assert "Read-only file system" not in errors.read_text()


def test_nothing_but_the_volume_can_be_written(image: Image, data: str) -> None:
    assert set(output(image.command(*WRITABLE, volumes=[data])).split()) == {"/data", "/dev/shm"} | DEVICES


def test_a_root_that_is_not_read_only_is_noticed(image: Image, data: str) -> None:
    found = set(output(image.command(*WRITABLE, volumes=[data], read_only=False)).split())
    assert {"/tmp", "/snapshots", "/data", "/certs"} <= found
    assert not [path for path in found if path.startswith(("/opt", "/usr", "/etc"))], "ours to change"


def test_a_folder_of_snapshots_is_writable_as_well(image: Image, data: str, tmp_path: Path) -> None:
    snapshots = image.volume(tmp_path / "snapshots", "/snapshots")
    assert "/snapshots" in output(image.command(*WRITABLE, volumes=[data, snapshots])).split()


def test_the_final_image_has_no_sources_and_no_installer(image: Image) -> None:
    assert not (image.root / "source").exists()
    packages = image.root / "opt" / "duramen"
    assert list(packages.rglob("site-packages/duramen/__init__.py"))
    assert not list(packages.rglob("pip")) + list(packages.rglob("setuptools"))
    assert not [path for path in packages.rglob("*") if path.stat(follow_symlinks=False).st_uid != 0]


# --- what it holds


@pytest.fixture(scope="module")
def sbom(image: Image) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((image.root / SBOM).read_text())
    return document


def test_the_sbom_lists_what_is_locked_for_this_platform_and_nothing_else(sbom: dict[str, Any]) -> None:
    listed = {component["purl"] for component in sbom["components"]}
    lock = (ROOT / "requirements" / "runtime.lock").read_text()
    assert listed == {f"pkg:pypi/{pin.name}@{pin.version}" for pin in pins(lock) if pin.holds_here}
    assert sbom["metadata"]["component"]["name"] == "duramen"
    assert sbom["metadata"]["component"]["version"] == duramen.__version__


def test_the_sbom_says_who_needs_what(sbom: dict[str, Any]) -> None:
    known = {component["bom-ref"] for component in sbom["components"]} | {sbom["metadata"]["component"]["bom-ref"]}
    needs = {each["ref"]: set(each.get("dependsOn", ())) for each in sbom["dependencies"]}
    assert needs.keys() == known
    assert set(itertools.chain.from_iterable(needs.values())) <= known
    reached, left = set[str](), [sbom["metadata"]["component"]["bom-ref"]]
    while left:
        reached.add(name := left.pop())
        left += needs[name] - reached
    assert reached == known, "held for nobody"


@pytest.mark.parametrize("broken", [False, True], ids=["as it is", "without a name"])
def test_the_sbom_is_valid_by_its_schema(sbom: dict[str, Any], broken: bool) -> None:
    document = json.loads(json.dumps(sbom))
    if broken:
        del document["components"][0]["name"]
    done = subprocess.run(
        [TOOLS_PYTHON, "-c", _VALIDATE], input=json.dumps(document), capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) is not broken, done.stderr


_VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()) is not None)
"""


def test_the_same_content_makes_the_same_sbom(sbom: dict[str, Any]) -> None:
    assert "serialNumber" not in sbom
    assert "timestamp" not in sbom["metadata"]
    assert os.fspath(ROOT) not in json.dumps(sbom)
