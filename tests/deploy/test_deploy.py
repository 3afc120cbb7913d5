"""The deployment files, without an engine: they parse, fit together, and say what our command line understands."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit.client.command_line import parsed
from kit.image.dockerfile import Dockerfile

from duramen.server.settings.models import ROLES

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
UID_GID = "7070:7070"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def port_of(arguments: list[str]) -> int:
    return int(parsed(arguments)["port"])


def test_the_parser_is_the_real_one() -> None:
    assert parsed(["serve", "node", "--port", "7072", "--id", "n1"])["port"] == 7072
    with pytest.raises(Exception, match="No such option"):
        parsed(["serve", "node", "--prot", "7072"])
    with pytest.raises(AssertionError, match="no command 'nodes'"):
        parsed(["serve", "nodes"])


@pytest.mark.parametrize("role", sorted(ROLES))
def test_a_settings_file_has_every_key_with_its_default_and_reason(role: str) -> None:
    text = (DEPLOY / f"{role}.toml").read_text()
    fields = ROLES[role].model_fields
    given = tomllib.loads(text)
    assert list(given) == list(fields)
    for name, field in fields.items():
        assert given[name] == (str(field.default) if isinstance(field.default, Path) else field.default), name
        comment = re.search(rf"((?:^# .*\n)+)^{name} = ", text, re.MULTILINE)
        assert comment is not None, f"{name} has no comment"
        said = " ".join(comment[1].replace("\n# ", " ").removeprefix("# ").split())
        assert said == " ".join((field.description or "").split()), name


# --- compose


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return document


def test_compose_has_a_log_three_nodes_and_two_routers(compose: dict[str, Any]) -> None:
    roles = [service["command"][1] for service in compose["services"].values()]
    assert sorted(roles) == ["log", "node", "node", "node", "router", "router"]
    nodes = [parsed(s["command"]) for s in compose["services"].values() if s["command"][1] == "node"]
    assert len({node["node_id"] for node in nodes}) == 3


def test_compose_fits_together(compose: dict[str, Any]) -> None:
    declared, ports = set(compose["volumes"]), {}
    for name, service in compose["services"].items():
        arguments = parsed(service["command"])
        ports[name] = arguments["port"]
        assert arguments["host"] == "0.0.0.0", name
        assert {volume.split(":")[0] for volume in service.get("volumes", ())} <= declared
        test = service["healthcheck"]["test"]
        assert test[:2] == ["CMD", "duramen"]
        assert parsed(test[2:])["at"] == f"127.0.0.1:{arguments['port']}", name
        assert set(service.get("depends_on", {})) <= set(compose["services"])
    for name, service in compose["services"].items():
        for target in re.findall(r"(?:grpc://|^)([\w-]+):(\d+)", "\n".join(service["command"]), re.MULTILINE):
            assert ports.get(target[0]) == int(target[1]), f"{name} names {target}"
        for variable in service.get("environment", {}):
            role = service["command"][1]
            prefix = str(ROLES[role].model_config["env_prefix"])
            assert variable.removeprefix(prefix).lower() in ROLES[role].model_fields, variable


def test_the_image_runs_what_it_says() -> None:
    file = Dockerfile(DEPLOY / "Dockerfile")
    assert file.image.last("ENTRYPOINT").array == ["duramen"]
    own = parsed(list(file.image.last("CMD").array))
    assert (Path(own["data"]), Path(own["certs"]), own["insecure"]) == (Path("/data"), Path("/certs"), False)
    assert (own["first_user"], Path(own["token_file"])) == ("admin", Path("/certs/admin.token"))
    copied = {source for step in file.stages[0].all("COPY") for source in step.words[:-1]}
    wheel = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    of_the_build = {"pyproject.toml", "README.md", "requirements", "deploy/image"}
    assert copied == {*wheel["packages"], *wheel["force-include"], *of_the_build}
    allowed = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    assert {line[1:] for line in allowed if line.startswith("!")} == copied


def test_the_image_has_a_user_of_its_own_and_one_folder_from_its_build() -> None:
    build, image = Dockerfile(DEPLOY / "Dockerfile").stages
    assert image.last("USER").rest == UID_GID
    assert image.base == build.base
    assert [step.rest for step in image.all("COPY")] == [f"--from={build.name} /opt/duramen /opt/duramen"]
    assert [step.name for step in image.steps if step.name == "ADD"] == []


def services_of_ours(name: str) -> dict[str, Any]:
    services = yaml.safe_load((DEPLOY / name).read_text())["services"]
    return {service: each for service, each in services.items() if each["image"] == "duramen"}


@pytest.mark.parametrize("name", ["compose.yaml", "compose-kafka.yaml"])
def test_services_have_a_read_only_root_and_no_right_of_root(name: str) -> None:
    services = services_of_ours(name)
    assert services
    image = Dockerfile(DEPLOY / "Dockerfile").image
    made = " ".join(step.rest for step in image.all("RUN"))
    for service, each in services.items():
        assert (each["read_only"], each["cap_drop"]) == (True, ["ALL"]), service
        assert each["security_opt"] == ["no-new-privileges:true"], service
        for volume in each.get("volumes", ()):
            folder = volume.split(":")[1]
            assert re.search(rf"--owner duramen .* {folder}\b", made), f"{service} could not write to {folder}"


# --- Kubernetes


def documents() -> Iterator[dict[str, Any]]:
    for file in KUBERNETES:
        yield from yaml.safe_load_all(file.read_text())


def workloads() -> list[dict[str, Any]]:
    return [each for each in documents() if each["kind"] in ("StatefulSet", "Deployment")]


def test_kubernetes_has_what_a_cluster_needs() -> None:
    found = {(each["kind"], each["metadata"]["name"]): each for each in documents()}
    assert found["StatefulSet", "duramen-node"]["spec"]["replicas"] == 3
    assert found["Deployment", "duramen-router"]["spec"]["replicas"] == 2
    assert found["StatefulSet", "duramen-log"]["spec"]["replicas"] == 1
    assert ("PodDisruptionBudget", "duramen-node") in found
    versions = {"Service": "v1", "StatefulSet": "apps/v1", "Deployment": "apps/v1", "PodDisruptionBudget": "policy/v1"}
    for (kind, _), each in found.items():
        assert each["apiVersion"] == versions[kind]


@pytest.mark.parametrize("workload", workloads(), ids=lambda each: each["metadata"]["name"])
def test_a_workload_fits_together(workload: dict[str, Any]) -> None:
    spec = workload["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    (container,) = spec["template"]["spec"]["containers"]
    port = port_of(container["args"])
    assert container["ports"] == [{"name": "grpc", "containerPort": port}]
    assert container["readinessProbe"]["grpc"]["port"] == port
    claims = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())}
    mounts = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", ())}
    assert set(mounts) == claims
    if claims:
        # A folder that is the server's own: the volume's belongs to root, and its mode is the cluster's.
        assert Path(parsed(container["args"])["data"]) == Path(mounts["data"], "duramen")
    if workload["kind"] == "StatefulSet":
        services = {each["metadata"]["name"] for each in documents() if each["kind"] == "Service"}
        assert spec["serviceName"] in services


@pytest.mark.parametrize("workload", workloads(), ids=lambda each: each["metadata"]["name"])
def test_a_workload_has_a_read_only_root_and_no_right_of_root(workload: dict[str, Any]) -> None:
    pod = workload["spec"]["template"]["spec"]
    of_pod = pod["securityContext"]
    assert of_pod["runAsNonRoot"] is True
    assert f"{of_pod['runAsUser']}:{of_pod['runAsGroup']}" == UID_GID
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    has_volume = "volumeClaimTemplates" in workload["spec"]
    assert of_pod.get("fsGroup") == (of_pod["runAsGroup"] if has_volume else None)
    # Otherwise each start would give the group back what the server has closed to it.
    assert of_pod.get("fsGroupChangePolicy") == ("OnRootMismatch" if has_volume else None)
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_services_and_budgets_select_pods_that_there_are() -> None:
    pods = {each["metadata"]["name"]: each["spec"]["template"] for each in workloads()}
    ports = {each["spec"]["containers"][0]["ports"][0]["containerPort"] for each in pods.values()}
    for each in documents():
        if each["kind"] in ("Service", "PodDisruptionBudget"):
            selector = each["spec"]["selector"]
            selector = selector.get("matchLabels", selector)
            assert any(selector.items() <= pod["metadata"]["labels"].items() for pod in pods.values()), each["metadata"]
        if each["kind"] == "Service":
            assert each["spec"]["ports"][0]["port"] in ports


def test_addresses_name_services_with_their_ports() -> None:
    ports = {e["metadata"]["name"]: e["spec"]["ports"][0]["port"] for e in documents() if e["kind"] == "Service"}
    for workload in workloads():
        text = " ".join(workload["spec"]["template"]["spec"]["containers"][0]["args"])
        for host, port in re.findall(r"(?:grpc://|\)\.)([\w-]+):(\d+)", text):
            assert ports[host] == int(port)


# --- systemd


def test_the_unit_starts_a_role() -> None:
    text = (DEPLOY / "systemd" / "duramen@.service").read_text()
    (line,) = [line.removeprefix("ExecStart=") for line in text.splitlines() if line.startswith("ExecStart=")]
    for role in ROLES:
        program, *arguments = shlex.split(line.replace("%i", role))
        assert Path(program).name == "duramen"
        assert Path(parsed(arguments)["config"]) == Path(f"/etc/duramen/{role}.toml")
