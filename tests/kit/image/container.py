"""An image that its Dockerfile makes without an engine, and containers of it: namespaces and mounts of Linux, as root.

The base image is this machine's `/usr` and a copy of its `/etc`. A container has a root of its own, no capability, and
no way to new privileges. Its processes and its network are the machine's: tests connect to it on loopback.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from kit.clients.programs import ROOT, run_checked
from kit.image.dockerfile import Dockerfile, Stage

__all__ = ["Image", "need_containers"]

PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
UNSHARE: Final = ("unshare", "--mount", "--propagation", "private", "bash", "-euc")

# Arguments: the root, whether it is read-only, volumes as SOURCE:TARGET, `--`, a command that runs in it.
ENTER: Final = r"""
root=$1 read_only=$2
shift 2
mount --bind "$root" "$root"
mount --bind /usr "$root/usr"
mount -o remount,bind,ro "$root/usr"
mount -t proc proc "$root/proc" 2>/dev/null || mount --rbind /proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir -m 1777 "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -o remount,ro "$root/dev"
while [ "$1" != -- ]; do
    mount --bind "${1%%:*}" "$root${1##*:}"
    shift
done
shift
[ "$read_only" = no ] || mount -o remount,bind,ro "$root"
exec chroot "$root" "$@"
"""


def need_containers() -> None:
    """Skip, visibly, where this user may not make namespaces, or the machine has no Python for other users."""
    if os.getuid() != 0 or subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mount namespaces need root")
    if subprocess.run(["/usr/bin/python3", "-c", "import ensurepip"], capture_output=True, check=False).returncode:
        pytest.skip("/usr/bin/python3 has no venv: apt-get install python3-venv")


class Image:
    """What a Dockerfile makes, in a folder."""

    def __init__(self, file: Path, folder: Path) -> None:
        """Follow each line of `file`, with the repository as the context. Takes a minute, and fetches packages."""
        self._stages: dict[str, Path] = {}
        for number, stage in enumerate(Dockerfile(file).stages):
            root = folder / str(number)
            _lay_base(root)
            self._stages[stage.name] = root
            self._follow(stage, root)
            self.root: Path = root
            self.stage: Stage = stage

    @property
    def user(self) -> tuple[int, int]:
        """The user and the group of its processes."""
        uid, gid = self.stage.last("USER").rest.split(":")
        return int(uid), int(gid)

    def volume(self, folder: Path, target: str) -> str:
        """A new volume in `folder`, for `target`: it takes owner and mode from the image's folder, as engines do."""
        model = (self.root / target.lstrip("/")).stat()
        folder.mkdir()
        folder.chmod(model.st_mode & 0o7777)
        os.chown(folder, model.st_uid, model.st_gid)
        return f"{folder}:{target}"

    def command(self, *arguments: str, volumes: Sequence[str] = (), read_only: bool = True) -> list[str]:
        """A command line that runs `arguments` in a container, as the image's user. It ends with their program, whose
        process id is that of the process started.
        """
        uid, gid = self.user
        variables = [f"{name}={value}" for name, value in self.stage.environment({"PATH": PATH}).items()]
        dropped = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]
        return [
            *_entered(self.root, volumes, read_only=read_only),
            *("/usr/bin/setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", *dropped),
            *("/usr/bin/env", "--ignore-environment", f"--chdir={self.stage.last('WORKDIR').rest}", *variables),
            *arguments,
        ]

    def duramen(self, *arguments: str, volumes: Sequence[str] = ()) -> list[str]:
        """`docker run --read-only --cap-drop ALL IMAGE ARGUMENTS`."""
        return self.command(*self.stage.last("ENTRYPOINT").array, *arguments, volumes=volumes)

    def _follow(self, stage: Stage, root: Path) -> None:
        workdir = "/"
        environment = {"PATH": PATH, **_of_pip(os.environ)}
        for step in stage.steps:
            if step.name == "WORKDIR":
                workdir = step.rest
                (root / workdir.lstrip("/")).mkdir(parents=True, exist_ok=True)
            elif step.name == "COPY":
                self._copy(step.words, root, workdir)
            elif step.name == "RUN":
                variables = [f"{name}={value}" for name, value in environment.items()]
                inside = ["/usr/bin/env", "-i", f"--chdir={workdir}", *variables, "/bin/sh", "-ec", step.rest]
                run_checked([*_entered(root, (), read_only=False), *inside], ROOT)

    def _copy(self, words: Sequence[str], root: Path, workdir: str) -> None:
        options = [word for word in words if word.startswith("--")]
        *sources, target = [word for word in words if not word.startswith("--")]
        context = self._stages[options[0].removeprefix("--from=")] if options else ROOT
        into = root / workdir.lstrip("/") / target if not target.startswith("/") else root / target.lstrip("/")
        for source in sources:
            found = context / source.lstrip("/")
            if found.is_dir():
                shutil.copytree(found, into, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(found, into)


def _entered(root: Path, volumes: Sequence[str], *, read_only: bool) -> list[str]:
    return [*UNSHARE, ENTER, "enter", str(root), "yes" if read_only else "no", *volumes, "--"]


def _of_pip(environment: Mapping[str, str]) -> dict[str, str]:
    """How pip reaches its packages here. A folder of packages is not part of an image."""
    others = ("HTTPS_PROXY", "https_proxy", "SSL_CERT_FILE")
    return {
        name: value
        for name, value in environment.items()
        if name in others or (name.startswith("PIP_") and name != "PIP_FIND_LINKS")
    }


def _lay_base(root: Path) -> None:
    """A root without anything of ours."""
    root.mkdir(parents=True)
    root.chmod(0o755)
    for name in ("usr", "proc", "dev", "opt", "run", "var"):
        (root / name).mkdir()
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(Path("/", name).readlink())
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    shutil.copytree("/etc", root / "etc", symlinks=True)
