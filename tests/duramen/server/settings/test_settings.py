"""Settings: who wins, and errors that name the key and the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from duramen.server.settings.loading import load_settings
from duramen.server.settings.models import ROLES, LogSettings, NodeSettings, RouterSettings
from duramen.server.settings.resp import resp_settings
from duramen.server.supervisor.cluster import ClusterOptions
from log_tier.kafka.cluster.kafka_address import KafkaAddress
from log_tier.model.errors import InvalidRequest

pytestmark = pytest.mark.embedded_log_only


def test_the_defaults_are_a_cluster_on_one_machine() -> None:
    log, node, router = (
        load_settings(LogSettings, None, {}),
        load_settings(NodeSettings, None, {}),
        load_settings(RouterSettings, None, {}),
    )
    assert node.log == router.log == f"grpc://127.0.0.1:{log.port}"
    assert len({log.port, node.port, router.port}) == 3


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "node.toml"
    file.write_text('id = "filed"\nport = 1\nsnapshots_keep = 5\ndata = "/x"\n')
    monkeypatch.setenv("DURAMEN_NODE_PORT", "2")
    monkeypatch.setenv("DURAMEN_NODE_ID", "environed")
    settings = load_settings(NodeSettings, file, {"id": "flagged"})
    assert (settings.id, settings.port, settings.snapshots_keep, settings.data) == ("flagged", 2, 5, Path("/x"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", r"node.toml has the key 'prot', which this role does not know; it knows .*port"),
        ("port = 70000", r"the setting port \(.*node.toml, DURAMEN_NODE_PORT or --port\) is 70000"),
        ('port = "many"', r"the setting port .* is 'many'"),
        ("snapshots_keep = 0", r"the setting snapshots_keep .* is 0"),
        ("snapshot_every_s = -1", r"the setting snapshot_every_s .* is -1"),
        ('log_level = "loud"', r"the setting log_level .* is 'loud'"),
        ("port = ", r"node.toml is no TOML"),
        pytest.param(f"port = {'9' * 5000}", r"node.toml is no TOML", id="many digits"),
    ],
)
def test_errors_name_the_key_and_the_file(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(text)
    with pytest.raises(InvalidRequest, match=message):
        load_settings(NodeSettings, file, {})


@pytest.mark.parametrize("data", [b'id = "\xff"', b"id = " + b"[" * 5000], ids=["no UTF-8", "deep"])
def test_a_file_that_is_no_text_of_toml_is_refused_by_its_name(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_bytes(data)
    with pytest.raises(InvalidRequest, match=r"node.toml is no TOML"):
        load_settings(NodeSettings, file, {})


def test_a_wrong_variable_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURAMEN_ROUTER_PORT", "x")
    with pytest.raises(InvalidRequest, match=r"the setting port .* is 'x'"):
        load_settings(RouterSettings, None, {})


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_settings(LogSettings, tmp_path / "missing.toml", {})


def test_every_key_has_a_reason() -> None:
    for role, kind in ROLES.items():
        assert str(kind.model_config["env_prefix"]) == f"DURAMEN_{role.upper()}_"
        for name, field in kind.model_fields.items():
            assert field.description, f"{role}.{name}"


def test_a_bad_password_is_not_in_the_error(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("resp_password = 4711042\n")
    with pytest.raises(InvalidRequest, match="resp_password") as caught:
        load_settings(NodeSettings, file, {})
    assert "4711042" not in caught.value.message
    with pytest.raises(InvalidRequest, match=r"port .*\*\*\*") as caught:
        load_settings(NodeSettings, None, {"port": "kafka://a/?sasl.password=4711042"})
    assert "4711042" not in caught.value.message


def test_no_secret_is_in_the_repr_of_settings() -> None:
    url = "kafka://a/?sasl.password=4711042"
    node = NodeSettings.model_validate({"log": url, "snapshots": url, "resp_password": "4711042"})
    router = RouterSettings.model_validate({"log": url, "client_log": url, "resp_password": "4711042"})
    options = ClusterOptions(1, "h", 0, "info", "plain", 0.0, log_url=url, resp_password="4711042")
    for settings in (node, router, resp_settings(node), options, KafkaAddress.parse(url, environment={})):
        assert "4711042" not in f"{settings!r} {settings}", type(settings)
