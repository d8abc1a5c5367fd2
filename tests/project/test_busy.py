"""Short runs of the loads of a busy site: they count what they claim, and the page shows the stored runs.

The sites need wrk and their packages. If these are not installed, the tests of them are skipped, in CI too.
`python -m benchmarks busy --only fastapi` installs the packages.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import report
from benchmarks.busy import clients, first_changes, page, run, sites
from benchmarks.busy.load import Redis, redis_of
from benchmarks.busy.service import service
from benchmarks.measure import Json
from benchmarks.peers.install import installed
from presence_core import AsyncPresence, Presence, PresenceError
from tests.support.servers import missing, redis_binary, valkey_binary

SECONDS = 0.3


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    if not (valkey_binary() or redis_binary()):
        missing("any Redis server")
    with redis_of("unix") as redis:
        yield redis


class Said(dict[str, list[Json]]):
    """The figures of each case."""

    def __call__(self, work: str, case: str, figures: Json) -> None:
        self.setdefault(f"{work}: {case}", []).append(figures)


@pytest.mark.parametrize("load", [clients.in_flight, clients.threads, clients.route])
def test_each_round_of_callers_has_its_figures(load: Any, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "IN_FLIGHT", (1, 8))
    monkeypatch.setattr(clients, "THREADS", (1, 8))
    monkeypatch.setattr(clients, "SESSIONS", 20)
    said = Said()
    load(redis, 2, SECONDS, said)
    assert len(said) == 2
    for rounds in said.values():
        assert len(rounds) == 2
        for figures in rounds:
            assert figures["rate"] > 0
            assert figures["client_us"] > 0
            assert 0 < figures["p50_ms"] <= figures["p99_ms"]
            assert (figures["errors"], figures["messages"]) == (0, {})


def test_a_refused_session_and_a_failed_call_are_errors_and_no_round_lasts_longer(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = asyncio.run(clients._in_flight(redis.url, ["not-a-token"], 4, SECONDS))
    assert (refused["rate"], set(refused["messages"])) == (0, {clients.NOT_LIVE})
    with Presence.from_url(redis.url) as presence:
        assert clients._from_threads(presence, ["not-a-token"], 4, SECONDS).errors[clients.NOT_LIVE] > 0

    async def fails(self: AsyncPresence, token: str) -> None:
        raise PresenceError("away")

    monkeypatch.setattr(AsyncPresence, "validate", fails)
    failed = asyncio.run(asyncio.wait_for(clients._in_flight(redis.url, ["any"], 4, SECONDS), 30))
    assert (failed["rate"], set(failed["messages"])) == (0, {"away"})
    assert failed["errors"] > 4


def test_a_route_that_refuses_its_visitors_is_noticed(redis: Redis) -> None:
    figures = asyncio.run(clients._route(redis.url, ["not-a-token"], True, SECONDS))
    assert (figures["rate"], set(figures["messages"])) == (0, {"answers 401"})


def test_first_changes_run_every_method_once_for_each_client_after_all_connections_were_closed(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = first_changes._ways
    closed: list[int] = []

    def only_kill(own: Redis) -> dict[str, first_changes.Close]:
        def close() -> None:
            closed.append(first_changes._clients(own.nodes[0]) - 1)
            ways(own)["CLIENT KILL"]()
            assert first_changes._clients(own.nodes[0]) == 1

        return {"CLIENT KILL": close}

    monkeypatch.setattr(first_changes, "_ways", only_kill)
    said = Said()
    first_changes.first_changes(redis, 2, said)
    assert {case.partition(", ")[0]: figures["calls"] for case, [figures] in said.items()} == {
        "first_changes: AsyncPresence": 14, "first_changes: Presence": 14, "first_changes: presence serve": 12,
    }  # fmt: skip
    assert len(closed) == 7 + 7 + 12
    assert min(closed) >= 1, "each had a connection to close"
    for [figures] in said.values():
        assert figures["errors"] == sum(figures["failed"].values()) <= figures["calls"]
        assert all("did not reply" in message or "store" in message for message in figures["messages"])


@pytest.mark.parametrize("load", [sites.fastapi, sites.flask, sites.serve])
def test_every_site_knows_its_visitors_under_load(load: Any, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("wrk"):
        pytest.skip("wrk is not installed, which only these loads need")
    if load is not sites.serve and not installed("web"):
        pytest.skip("the sites are not installed: python -m benchmarks busy --only fastapi does it")
    for name, value in {"CONNECTIONS": (2,), "SERVICE_CONNECTIONS": (2,), "VISITORS": 5, "WARM_UP": 1.0}.items():
        monkeypatch.setattr(sites, name, value)
    said = Said()
    load(redis, 1, 1.0, said)
    assert len(said) == {sites.fastapi: 4, sites.flask: 3, sites.serve: 1}[load]
    for [figures] in said.values():
        assert figures["rate"] > 0
        assert figures["site_us"] > 0
        assert figures["errors"] == 0


def test_a_refused_visitor_of_a_site_is_an_error(redis: Redis, tmp_path: Path) -> None:
    if not shutil.which("wrk"):
        pytest.skip("wrk is not installed, which only these loads need")
    with service(redis.url) as (address, _, pid):
        sites._write(tmp_path / "requests", [sites._request("GET", "/v1/counts", address, {"Authorization": "none"})])
        figures = sites._load(sites.Site("", address, pid, tmp_path / "requests"), 2, 1.0)
    assert (figures["rate"], set(figures["messages"])) == (0, {"refused"})
    assert figures["errors"] > 0


def _run(*rounds: tuple[str, str, Json]) -> Json:
    return {"rounds": [{"work": work, "case": case, "figures": figures} for work, case, figures in rounds]}


def test_paired_runs_become_medians_ratios_and_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "STORED", tmp_path / "busy.json")
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    page.PAGE.write_text("# Page\n\n<!-- by python -m benchmarks busy: begin -->\n<!-- busy: end -->\nend\n")
    for side, rates in {"before": (1000, 2000), "after": (4000, 6000)}.items():
        for number, rate in enumerate(rates):
            figures = {"rate": rate, "errors": number, "messages": {"at 192.0.2.1": 1}}
            ours, plain = {"rate": rate, "errors": 0}, {"rate": 10_000, "errors": 0}
            seen = _run(
                ("in_flight", "256", figures),
                ("fastapi", "64 connections, no session", plain),
                ("fastapi", "64 connections, our middleware", ours),
            )
            (tmp_path / f"{side}-{number}.json").write_text(json.dumps(seen))
    files = {side: [str(tmp_path / f"{side}-{number}.json") for number in range(2)] for side in ("before", "after")}

    assert run.main(["--before", *files["before"]]) == 0
    shown = report.part_of(page.PAGE, "busy")
    assert "| validations/s, 256 in flight, × before | ≥ 3 | 1 |  | not measured |" in shown
    assert "| 256 | 1,500 | 1 |" in shown

    assert run.main(["--before", *files["before"], "--after", *files["after"]]) == 0
    shown = report.part_of(page.PAGE, "busy")
    assert "| validations/s, 256 in flight, × before | ≥ 3 | 1 | 3.5 | met |" in shown
    assert "| errors, 256 in flight | ≤ 0 | 1 | 1 | **missed** |" in shown
    assert "| 256 | 1,500 → **5,000** (3.50 ×) | 1 → **1** |" in shown
    assert "| 64 connections, our middleware | 1,500 → **5,000** (3.50 ×) | 0 → **0** | 0.15 → **0.5** |" in shown
    assert "192.0.2.1" not in page.STORED.read_text("utf-8")
    assert page.PAGE.read_text().endswith("<!-- busy: end -->\nend\n")
    with pytest.raises(SystemExit):
        run.main(["--before", *files["before"], "--after", *files["after"][:1]])


def test_the_tables_on_the_page_agree_with_the_results() -> None:
    assert report.part_of(page.PAGE, "busy") == page.derived(page.stored_runs()).strip()


def test_every_target_names_a_case_that_the_loads_have() -> None:
    shown = page.derived(page.stored_runs())
    rows = [line for line in shown.splitlines() if "not measured" in line or "met" in line or "missed" in line]
    assert len(rows) == len(page.TARGETS)
    assert [row for row in rows if row.split("|")[3].strip() == ""] == [], "each has a figure before"
