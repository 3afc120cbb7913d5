"""The files of the page: under which headers they are served, that they load nothing else, and are in the wheel."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from kit.deadlines import patience_s
from kit.http import http_get

from duramen.server.console.console_files import read_console_files
from duramen.server.roles.all_in_one import SingleServer

TOP = Path(__file__).resolve().parents[4]
FOLDER = TOP / "duramen/server/console/files"
SCRIPTS = sorted(FOLDER.glob("*.js"))


async def test_the_page_is_served_and_allowed_nothing_else(tmp_path: Path) -> None:
    server = await SingleServer.open(tmp_path / "data", port=0)
    try:
        await server.serve_http(0)
        for path, file in read_console_files().items():
            code, fields, body = await http_get(server.http_port, path)
            assert (code, body) == (200, file.body), path
            policy = dict(each.strip().partition(" ")[::2] for each in fields["content-security-policy"].split(";"))
            assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
            assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
            assert policy["img-src"] == "'self' data:"
            assert (fields["x-content-type-options"], fields["referrer-policy"]) == ("nosniff", "no-referrer")
            assert fields["x-frame-options"] == "DENY"
        assert (await http_get(server.http_port, "/"))[1]["content-type"] == "text/html; charset=utf-8"
        assert (await http_get(server.http_port, "/console/main.js"))[1]["content-type"].startswith("text/javascript")
        for path in ("/console/", "/console/index.html", "/console/../console.py", "/console/%2e%2e/console.py", "//"):
            assert (await http_get(server.http_port, path))[0] == 404, path
        assert (await http_get(server.http_port, "/", method="HEAD"))[2] == b""
        assert (await http_get(server.http_port, "/", method="POST"))[0] == 405
    finally:
        await server.close()


def test_each_file_has_a_path() -> None:
    files = read_console_files()
    names = {f"/console/{path.name}": path for path in FOLDER.iterdir() if path.name != "index.html"}
    assert files.keys() == names.keys() | {"/", "/console/verbs.json"}, "and one that is made of the verbs"
    assert all(files[path].body == name.read_bytes() for path, name in names.items())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_load_their_neighbours_alone_and_make_no_html(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    imported = [
        *re.findall(r"^import .* from \"(.*)\";$", text, re.MULTILINE),
        *re.findall(r"import\(\"(.*)\"\)", text),
    ]
    assert len(re.findall(r"\bimport\b[ (]", text)) == len(imported), "two forms of import, by names that stand there"
    assert all(name.startswith("./") and (FOLDER / name).is_file() for name in imported)
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "DOMParser"):
        assert word not in text


def test_the_page_has_no_script_or_style_in_its_lines() -> None:
    text = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]* src=\"/console/)", text) == []
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:|https?:", text) == []


def test_the_wheel_has_the_files(tmp_path: Path) -> None:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: it is where packages are built from locks (LOCKED=1)")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=TOP, check=True, capture_output=True, timeout=patience_s(300))
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    assert {f"duramen/server/console/files/{path.name}" for path in FOLDER.iterdir()} <= names
