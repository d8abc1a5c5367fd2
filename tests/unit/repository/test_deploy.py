"""The files in deploy/: not root, read-only, secrets by file; and what they name exists in the product."""

from __future__ import annotations

import configparser
import re
import shlex
import stat
import subprocess
import tomllib
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from presence_core import Settings
from presence_core.cli import build_parser
from presence_core.files.secret_files import SECRETS
from presence_core.web.service import metrics

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
NAMES = ("worker", "http", "dashboard")


@cache
def text_of(name: str) -> str:
    return (DEPLOY / name).read_text("utf-8")


@cache
def source() -> str:
    packages = (ROOT / "presence_core", ROOT / "presence_dashboard")
    return "\n".join(path.read_text("utf-8") for package in packages for path in package.rglob("*.py"))


def check_variables(named: dict[str, str]) -> None:
    """Every variable is read by the product, and none of them holds a secret."""
    assert not set(SECRETS) & set(named)
    settings = {f"PRESENCE_{field.name.upper()}" for field in fields(Settings)}
    for name in set(named) - settings:
        if name.startswith("PRESENCE_"):
            assert f'"{name.removesuffix("_FILE") if name[:-5] in SECRETS else name}"' in source(), name


def check_command(words: list[str]) -> None:
    """The words are a command of ``presence``, with options that it has."""
    build_parser().parse_args(words)


def routes_of(command: str) -> set[str]:
    """The addresses that a program answers to without a sign-in."""
    if command == "dashboard":
        return set(re.findall(r'Route\("(/\w+)", healthz\)', (ROOT / "dashboard.py").read_text("utf-8")))
    return {getattr(route, "path", "") for route in metrics.router.routes} - {"/metrics"}


# -- Images -----------------------------------------------------------------------------------------------------------


def stages() -> dict[str, list[tuple[str, str]]]:
    """Name of a stage → its instructions."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in re.sub(r"\\\n\s*", "", text_of("Dockerfile")).splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = [("FROM", base)]
        elif word.isupper() and found:
            found[name].append((word, rest))
    return found


@pytest.mark.parametrize("name", ["service", "dashboard"])
def test_an_image_has_a_user_that_is_not_root_a_command_and_a_health_check(name: str) -> None:
    given = dict(stages()[name])
    assert given["FROM"] == "${FINAL_IMAGE}"
    assert "RUN" not in given, "there is no shell in the final images"
    user, _, group = given["USER"].partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert yaml.safe_load(given["ENTRYPOINT"]) == ["/usr/local/bin/presence"]
    command = yaml.safe_load(given["CMD"])
    check_command(command)
    path = re.search(r"://(?:127\.0\.0\.1|localhost):(\d+)(/\w+)", given["HEALTHCHECK"])
    assert path
    assert path[1] == given["EXPOSE"]
    assert path[2] in routes_of(command[0])
    variables = dict(word.split("=", 1) for word in given["ENV"].split())
    check_variables(variables)
    assert variables["PYTHONPATH"].endswith("/site-packages"), "elsewhere Streamlit does not start"


def test_an_image_contains_only_packages_whose_digests_are_checked() -> None:
    installs = [rest for stage in stages().values() for word, rest in stage if word == "RUN" and " install " in rest]
    assert len(installs) == 3
    for command in " && ".join(installs).split(" && "):
        assert " install " not in command or "--require-hashes" in command or "--no-deps --no-index" in command


def test_what_the_image_copies_exists_and_reaches_the_builder() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    copied = [rest.split()[:-1] for stage in stages().values() for word, rest in stage if word == "COPY"]
    paths = [path for words in copied if "--from" not in words[0] for path in words if not path.startswith("--")]
    assert len(paths) > 8
    for path in paths:
        assert (ROOT / path).exists(), path
        assert path in allowed or (path.endswith(".lock") and "deploy/*.lock" in allowed), path


ENTRY = re.compile(r"^(([a-z0-9-]+)==[^\\\n]+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)


@pytest.mark.parametrize(("lock", "extra"), [("service", "web"), ("dashboard", "dashboard"), ("build", None)])
def test_the_locks_of_the_images_are_a_part_of_the_lock_of_the_checkout(lock: str, extra: str | None) -> None:
    whole = (ROOT / "requirements-lock.txt").read_text("utf-8")
    known = {(name, version) for name, version in re.findall(r"^([a-z0-9-]+)==(\S+)", whole, re.MULTILINE)}
    digests = set(re.findall(r"sha256:[0-9a-f]{64}", whole))
    locked = ENTRY.findall(text_of(f"{lock}.lock"))
    assert ENTRY.sub("", text_of(f"{lock}.lock")).strip() == ""
    assert {tuple(pin.split(" ")[0].split("==")) for pin, _, _ in locked} <= known, "make lock"
    assert set(re.findall(r"sha256:[0-9a-f]{64}", text_of(f"{lock}.lock"))) <= digests, "make lock"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    needed = project["build-system"]["requires"]
    if extra:
        needed = project["project"]["dependencies"] + project["project"]["optional-dependencies"][extra]
    names = {re.split(r"[\[<>=;~ ]", line)[0].replace("_", "-").lower() for line in needed}
    assert names <= {name for _, name, _ in locked}, "make lock"


# -- Compose ----------------------------------------------------------------------------------------------------------


@cache
def compose() -> Any:
    return yaml.safe_load(text_of("compose.yaml"))


@pytest.mark.parametrize("name", ["valkey", *NAMES])
def test_a_compose_service_has_no_privileges_and_no_secret_outside_of_files(name: str) -> None:
    service = compose()["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert int(service["user"].split(":")[0]) > 0
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    for secret in service["secrets"]:
        assert compose()["secrets"][secret]["file"].startswith("./secrets/")
    check_variables(service.get("environment", {}))
    files = [value for key, value in service.get("environment", {}).items() if key.endswith("_FILE")]
    assert all(Path(value).name in service["secrets"] for value in files)
    assert name == "valkey" or files


@pytest.mark.parametrize("name", NAMES)
def test_a_compose_service_runs_a_command_of_an_image_and_is_checked(name: str) -> None:
    service = compose()["services"][name]
    image = dict(stages()[service["build"]["target"]])
    assert service["image"] == f"presence-{service['build']['target']}"
    check_command(service.get("command", yaml.safe_load(image["CMD"])))
    if name == "worker":  # the image's own check is for HTTP
        assert service["healthcheck"]["test"][:2] == ["CMD", *yaml.safe_load(image["ENTRYPOINT"])]
        check_command(service["healthcheck"]["test"][2:])
    assert all(port.rpartition(":")[2] == image["EXPOSE"] for port in service.get("ports", ()))


def test_valkey_keeps_its_data_in_a_volume_with_an_append_only_file() -> None:
    service = compose()["services"]["valkey"]
    options = dict(re.findall(r"--(\S+) (\S+)", " ".join(service["command"])))
    assert options["appendonly"] == "yes"
    assert options["maxmemory-policy"] == "noeviction"
    assert f"valkey:{options['dir']}" in service["volumes"]
    assert options["aclfile"] == "/run/secrets/valkey_acl"
    assert service["networks"] == ["internal"]
    assert compose()["networks"]["internal"]["internal"] is True
    assert "ports" not in service


def test_secrets_are_random_kept_and_closed_to_others(tmp_path: Path) -> None:
    script = tmp_path / "make_secrets.sh"
    script.write_text(text_of("make_secrets.sh"))
    passwords = set()
    for _ in range(2):
        subprocess.run(["sh", str(script)], check=True, capture_output=True, timeout=30)
        url = urlsplit((tmp_path / "secrets" / "redis_url").read_text())
        passwords.add(url.password)
        assert f">{url.password} " in (tmp_path / "secrets" / "valkey_acl").read_text()
        assert url.hostname in compose()["services"]
    [password] = passwords
    assert password
    assert len(password) == 48
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    assert {f"./secrets/{path.name}" for path in (tmp_path / "secrets").iterdir()} == {
        secret["file"] for secret in compose()["secrets"].values()
    }


# -- systemd ----------------------------------------------------------------------------------------------------------


def unit(path: Path) -> dict[str, list[str]]:
    """The lines of the section Service."""
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(path.read_text("utf-8"))
    assert parser["Install"]["wantedby"] == "multi-user.target"
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", path.read_text("utf-8").partition("[Service]")[2], re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_runs_a_command_with_credentials_as_files(path: Path) -> None:
    lines = unit(path)
    program, *words = shlex.split(lines["ExecStart"][0])
    assert program == "/opt/presence/bin/presence"
    check_command(words)
    environment = dict(word.split("=", 1) for line in lines["Environment"] for word in line.split())
    check_variables(environment)
    credentials = {line.partition(":")[0] for line in lines["LoadCredential"]}
    files = {value for name, value in environment.items() if name.endswith("_FILE")}
    assert files == {f"%d/{name}" for name in credentials}
    assert environment["PRESENCE_REDIS_URL_FILE"] == "%d/redis_url"


def test_the_units_have_the_same_hardening() -> None:
    assert [path.stem for path in UNITS] == sorted(f"presence-{name}" for name in NAMES)
    [block] = {path.read_text("utf-8").partition("# Hardening")[2] for path in UNITS}
    for line in ("DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=",
                 "MemoryDenyWriteExecute=yes", "SystemCallFilter=@system-service"):  # fmt: skip
        assert f"\n{line}\n" in block


# -- Kubernetes -------------------------------------------------------------------------------------------------------


@cache
def objects() -> list[Any]:
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    return [item for path in files for item in yaml.safe_load_all(path.read_text("utf-8"))]


def of_kind(kind: str) -> dict[str, Any]:
    return {item["metadata"]["name"]: item["spec"] for item in objects() if item["kind"] == kind}


@pytest.mark.parametrize("name", NAMES)
def test_a_pod_is_not_root_and_its_probes_lead_to_routes(name: str) -> None:
    pod = of_kind("Deployment")[f"presence-{name}"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "privileged": False,
        "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    image = dict(stages()[container["image"].rpartition("presence-")[2]])
    check_command(container["args"])
    probes = [probe for key, probe in container.items() if key.endswith("Probe")]
    for probe in probes:
        if name == "worker":
            assert probe["exec"]["command"][:1] == yaml.safe_load(image["ENTRYPOINT"])
            check_command(probe["exec"]["command"][1:])
        else:
            assert probe["httpGet"]["path"] in routes_of(container["args"][0])
            assert probe["httpGet"]["port"] == container["ports"][0]["name"]
    assert "readinessProbe" in container
    assert name == "worker" or container["livenessProbe"]["httpGet"]["path"] == "/healthz", "never restarted for Redis"
    environment = {item["name"]: item["value"] for item in container["env"]}
    check_variables(environment)
    mounted = {item["path"] for volume in pod["volumes"] for item in volume.get("secret", {}).get("items", ())}
    assert {Path(value).name for key, value in environment.items() if key.endswith("_FILE")} == mounted


def test_selectors_choose_the_pods_of_a_deployment() -> None:
    labels = {name: item["template"]["metadata"]["labels"] for name, item in of_kind("Deployment").items()}
    assert labels.keys() == {f"presence-{name}" for name in NAMES}
    for name, item in of_kind("Deployment").items():
        assert item["selector"]["matchLabels"].items() <= labels[name].items()
    for name, item in of_kind("Service").items():
        assert item["selector"].items() <= labels[name].items()
    budgets = of_kind("PodDisruptionBudget")
    assert budgets.keys() == labels.keys()
    for name, item in budgets.items():
        assert item["selector"]["matchLabels"].items() <= labels[name].items()
        assert item["minAvailable"] < of_kind("Deployment")[name]["replicas"], "a node can be drained"


def test_network_policies_close_every_pod_and_open_its_port() -> None:
    labels = {name: item["template"]["metadata"]["labels"] for name, item in of_kind("Deployment").items()}
    policies = of_kind("NetworkPolicy")
    closed = policies["presence"]
    assert closed["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in closed
    assert all(closed["podSelector"]["matchLabels"].items() <= item.items() for item in labels.values())
    for name in labels:
        [rule] = policies[name]["ingress"]
        [container] = of_kind("Deployment")[name]["template"]["spec"]["containers"]
        assert policies[name]["podSelector"]["matchLabels"].items() <= labels[name].items()
        assert rule["from"]
        assert [port["port"] for port in rule["ports"]] == [port["containerPort"] for port in container["ports"]]


def test_every_file_and_page_gives_the_same_time_to_stop() -> None:
    """Twice ``confirm_hold``, for which a client holds changes when it closes, and a reserve."""
    files = [path for path in (ROOT / "deploy").rglob("*") if path.suffix in (".yaml", ".service")]
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    pattern = r"(?:stop_grace_period: |terminationGracePeriodSeconds: |TimeoutStopSec=)(\d+)|(\d+) s\w* to stop"
    found = [number for path in (*files, *pages) for number in re.findall(pattern, path.read_text("utf-8"))]
    assert len(found) >= 11
    assert {int(file or page) for file, page in found} == {2 * Settings().confirm_hold + 15}


def test_the_builder_of_the_images_gets_every_file_that_a_wheel_takes_from_elsewhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    copied = (ROOT / "deploy/Dockerfile").read_text("utf-8")
    sent = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for name in project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]:
        assert re.search(rf"^COPY .*(?<![\w/]){re.escape(name)}(?![\w/])", copied, re.MULTILINE), name
        assert f"!{name}" in sent
