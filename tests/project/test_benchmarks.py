"""The benchmarks' own measurements: they count what they claim, and the soak's books notice a lost session."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from multiprocessing import Pipe
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import picture, report, rows
from benchmarks.__main__ import BENCHMARKS
from benchmarks.capacity import growth, model
from benchmarks.data import logins
from benchmarks.measure import Side, _cost, shares_of_scripts
from benchmarks.soak import crowd, run
from benchmarks.soak.crowd import Act, Scene, Story
from benchmarks.soak.run import Watched
from benchmarks.stage import SETTINGS, Stage
from presence_core import Presence
from tests.support.fair_clock import PATIENT
from tests.support.servers import missing, valkey_binary

LONG = "redis.call('LRANGE', KEYS[1], 0, -1) return 1"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    if not valkey_binary():
        missing("the Valkey server")
    with Stage("valkey", 300, tmp_path, quiet=True) as stage:
        yield stage


def _costs(stage: Stage, run: Any) -> tuple[float, Counter[str]]:
    """The benchmark's figures of five calls, and the server's figures of each command; µs."""
    stage.redis.rpush("long", *range(20_000))
    shares = shares_of_scripts(stage.redis, run)
    before = stage.meter()
    (server_us, _, _, _), _ = _cost(stage, Side(lambda _: run()), 5, 1, shares)
    return 5 * server_us, (stage.meter() - before).us


def test_a_plain_command_and_a_script_both_count_as_server_time(stage: Stage) -> None:
    sha = stage.redis.script_load("return 1")

    def both() -> None:
        stage.redis.evalsha(sha, 0)
        stage.redis.lrange("long", 0, -1)

    took, spent = _costs(stage, both)
    assert took == pytest.approx(spent["evalsha"] + spent["lrange"])
    assert spent["lrange"] > spent["evalsha"]


def test_commands_inside_a_script_count_once(stage: Stage) -> None:
    sha = stage.redis.script_load(LONG)
    took, spent = _costs(stage, lambda: stage.redis.evalsha(sha, 1, "long"))
    assert took == pytest.approx(spent["evalsha"])
    assert spent["lrange"] > 0


def _scene(stage: Stage, seconds: float) -> Scene:
    refs = [ticket.ref for ticket in stage.new_tickets(logins(300))]
    return Scene(stage.url, replace(SETTINGS, timeout=PATIENT), time.monotonic(), seconds, refs)


def test_a_load_reaches_its_rates_and_its_books_agree_with_the_library(stage: Stage) -> None:
    scene = _scene(stage, 1.0)
    began_reader, began = Pipe(duplex=False)
    rows = lambda number: logins(60, first_user=1_000 + 60 * number)  # noqa: E731
    visitors = crowd.visitors(scene, 100, 40, rows, began)
    beats = crowd.heartbeats(scene, 500, began_reader)  # a second late: it starts no action that is not planned
    acts = visitors.acts | beats.acts
    assert {name: act.done for name, act in acts.items()} == {
        "login": 100, "kick": 40, "validate after kick": 40, "heartbeats": 500,
    }  # fmt: skip
    assert beats.acts["heartbeats"].as_json(1.0)["p50_ms"] > 100, "they are timed from the moment when they were due"
    assert visitors.errors == beats.errors == []
    assert set(beats.offline) <= set(visitors.kicked)
    assert set(run._reckoning(stage, scene, [], [visitors, beats]).values()) == {0}


def test_a_soak_notices_a_missing_session_and_one_reported_offline(stage: Stage) -> None:
    scene = _scene(stage, 1.0)
    stage.redis.zrem(stage.keys.sessions, scene.refs[0])
    off = run._reckoning(stage, scene, [], [Story(offline=[scene.refs[1]])])
    assert off["counts().sessions"] + off["list: missing, strange or twice"] >= 1
    assert off["reported offline, though live"] == 1
    assert off["found by repair"] >= 1


def test_a_load_records_errors_and_continues(stage: Stage) -> None:
    scene = _scene(stage, 0.5)
    stage.redis.config_set("maxmemory", 1)
    began_reader, began = Pipe(duplex=False)
    story = crowd.visitors(scene, 40, 0, lambda number: logins(30, first_user=5_000 + number), began)
    assert story.failed == 20
    assert story.acts["login"].done == 0
    assert not began_reader.poll()
    assert "OOM" in story.errors[0] or "memory" in story.errors[0]


def test_dashboards_that_are_late_or_fail_are_noticed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "TICK", 0.1)
    monkeypatch.setattr(crowd, "GRACE", 0.0)
    monkeypatch.setattr(crowd, "AFTER", 0.0)
    scene = _scene(stage, 2.2)

    def slow(presence: Presence) -> None:
        time.sleep(0.4)

    def dashboards(status: Callable[[Presence], object]) -> tuple[Act, Act, Story]:
        monkeypatch.setattr(Presence, "worker_status", status)
        story = crowd.dashboards(replace(scene, begin=time.monotonic()), 2)
        return story.acts["counts"], story.acts["search"], story

    counts, search, story = dashboards(slow)
    assert (counts.asked, search.asked, story.failed) == (42, 126, 0)
    assert counts.done < 0.5 * counts.asked
    assert max(counts.waits) > 300, "a tick that is late has been waited for"
    monkeypatch.setattr(crowd, "GRACE", 60.0)
    scene = _scene(stage, 1.1)
    counts, search, story = dashboards(lambda presence: None)
    assert (counts.done, search.done, story.failed) == (20, 60, 0)
    _, _, story = dashboards(lambda presence: [][1])
    assert (story.failed, story.errors[0]) == (2, "gave up: IndexError('list index out of range')")


def test_a_soak_fails_if_memory_or_lag_grows_an_action_is_skipped_or_a_call_fails() -> None:
    def broken(seen: Watched, story: Story) -> list[str]:
        return [promise.what for promise in run._promises(seen, [story], [], {"list": 0}) if not promise.met]

    steady = Watched(server=[900.0] * 60, lag=[4.0] * 60, others={"worker": [50.0] * 20 + [60.0] * 40})
    done = Story(acts={"kick": Act(asked=100, done=100)})
    assert broken(steady, done) == []
    assert broken(replace(steady, server=[900.0] * 40 + [910.0] * 20), done) == ["server: memory, growth in MB"]
    assert broken(replace(steady, lag=[4.0] * 59 + [10.5]), done) == ["sweep lag, s"]
    assert broken(replace(steady, others={"worker": [50.0] * 40 + [61.0] * 20}), done) == [
        "worker: memory, growth in MB"
    ]
    assert broken(steady, Story(acts={"kick": Act(asked=100, done=98)})) == ["kick, share of the planned"]
    assert broken(steady, replace(done, failed=1)) == ["errors"]


def test_a_partial_growth_run_replaces_only_runs_of_its_own_kind(tmp_path: Path) -> None:
    def run(sessions: int, nodes: int, ms: float) -> dict[str, Any]:
        return {"sessions": sessions, "nodes": nodes, "cluster": nodes > 1, "ms": ms}

    path = tmp_path / "growth.json"
    path.write_text(json.dumps([run(10, 1, 1.0), run(100, 1, 1.0), run(30, 3, 1.0)]))
    merged = growth._merged(path, [run(100, 1, 2.0), run(90, 3, 2.0), run(1000, 1, 2.0)])
    assert merged == [run(10, 1, 1.0), run(100, 1, 2.0), run(1000, 1, 2.0), run(90, 3, 2.0)]


def test_the_capacity_page_agrees_with_the_measured_runs() -> None:
    said = report.part_of(report.TABLES, "capacity")
    assert said == model.measured().strip()
    assert "**" in said, "there are figures"


def test_the_capacity_model_agrees_with_the_soak() -> None:
    check = model.check()
    assert check.mb == pytest.approx(check.measured_mb, rel=0.15)
    assert 0.7 < check.measured_cores / check.cores < 2


def test_more_sessions_need_no_fewer_nodes_and_a_smaller_node_no_fewer() -> None:
    runs = model._runs("valkey")
    needs = [[model.needs(runs, size, way, gb)["masters"] for gb in (2, 16)] for way in model.WAYS.values()
             for size in model.SIZES]  # fmt: skip
    assert all(small >= large for small, large in needs)
    assert all(a[1] <= b[1] for a, b in pairwise(needs[:3]))
    assert needs[2][0] > needs[2][1], "memory decides with small nodes"


def test_the_table_and_the_soak_on_the_page_agree_with_the_results() -> None:
    assert report.part_of(rows.PAGE, "compare") == rows.derived(rows.stored_runs()).strip()
    assert report.part_of(rows.PAGE, "soak") == run.page_part(json.loads(model.SOAK.read_text("utf-8"))).strip()


def test_every_row_of_the_table_is_a_target_of_its_benchmark() -> None:
    """Except for targets that hold for a million sessions only."""
    source = "".join(path.read_text("utf-8") for path in Path(rows.__file__).parent.rglob("*.py"))
    assert {row.benchmark for row in rows.ROWS} <= set(BENCHMARKS)
    assert [row.what for row in rows.ROWS if f'Target("{row.what}"' not in source] == []


def _results(sessions: int, *targets: tuple[str, str, float]) -> list[dict[str, Any]]:
    results = []
    for name, what, actual in targets:
        target = {"what": what, "actual": actual, "limit": 10, "at_most": True}
        results.append({"benchmark": name, "ratio": 2 * actual, "waited": 0.02 * actual, "targets": [target]})
    return [{"server": "Valkey 9.1.2", "sessions": sessions, "results": results}]


def test_paired_runs_become_medians_ratios_and_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "STORED", tmp_path / "rows.json")
    monkeypatch.setattr(rows, "PAGE", tmp_path / "page.md")
    rows.PAGE.write_text("# Page\n\n<!-- by python -m benchmarks compare: begin -->\n<!-- compare: end -->\nend\n")
    for name, times in {"before": (20, 40, 30), "after": (10, 8, 15)}.items():
        for number, ms in enumerate(times):
            small, large = (_results(size, ("search_two", "ms", at)) for size, at in ((10, 1.0), (20, ms)))
            (tmp_path / f"{name}-{number}.json").write_text(json.dumps(large + small))
    words = {name: [str(tmp_path / f"{name}-{number}.json") for number in range(3)] for name in ("before", "after")}
    assert rows.main(["--before", *words["before"], "--after", *words["after"]]) == 0
    shown = report.part_of(rows.PAGE, "compare")
    assert "| 30 | **10**, 8–15 | 0.50 | 60.00, 20.00 | met? | `--only search_two --sizes 1m` |" in shown
    assert "| ≤ 44 | 49 | not measured |" in shown
    assert rows.PAGE.read_text().endswith("<!-- compare: end -->\nend\n")
    (tmp_path / "login.json").write_text(json.dumps(_results(10, ("login", "server µs", 44.0))))
    assert rows.main(["--before", str(tmp_path / "login.json"), "--after", str(tmp_path / "login.json")]) == 0
    assert "20.00 | met?" in report.part_of(rows.PAGE, "compare"), "other rows stay"
    with pytest.raises(SystemExit):
        rows.main(["--before", *words["before"], "--after", *words["after"][:2]])


def test_the_picture_is_that_of_the_stored_results() -> None:
    drawn = picture.FILE.read_text("utf-8")
    assert drawn == picture.draw(json.loads((report.RESULTS / picture.SOURCE).read_text("utf-8")))
    assert len(drawn.encode()) <= 30_000


def test_the_picture_shows_each_ratio_as_text_and_no_other_comparison() -> None:
    results = [
        {"name": "login & out", "benchmark": "login", "ratio": 2.25},
        {"name": "count", "benchmark": "counts", "ratio": 0.5},
        {"name": "deep", "benchmark": "page_deep", "ratio": 1.0},
        {"name": "memory", "benchmark": "memory"},
    ]
    drawn = picture.draw({"server": "Valkey 9", "sessions": 10, "results": results})
    texts = ["".join(text.itertext()) for text in ElementTree.fromstring(drawn).iter() if text.tag.endswith("}text")]
    assert [text for text in texts if text[0].islower()] == ["count", "login & out"]
    assert {"2.2", "0.5"} <= set(texts)
