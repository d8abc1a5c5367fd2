"""The Health page without a browser, on a real server: its texts and its repair."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence, Settings
from presence_dashboard import access, texts
from presence_dashboard.actions.maintenance import MaintenanceRunner, maintenance_runner
from presence_dashboard.components.session_facts import time_of_day
from presence_dashboard.data.shared_reads import health_before
from presence_dashboard.data.store import Store, open_store
from presence_dashboard.roles import Actor, Role
from presence_dashboard.views.health import retention
from tests.dashboard.conftest import age_cache, log_in
from tests.dashboard.wire import ROOT
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, wait_for


def opened(app: AppTest) -> AppTest:
    app.run()
    return fresh(app.switch_page("views/health/health.py"))


def fresh(app: AppTest) -> AppTest:
    """As after some refreshes: no cached data are used."""
    open_store()._shared.clear()
    app.run()
    assert not app.exception
    return app


def words(app: AppTest) -> str:
    """The texts of findings and notices."""
    said = (*app.text, *app.caption, *app.success, *app.info, *app.warning, *app.error)
    return "\n".join(element.value for element in said)


def facts(app: AppTest) -> dict[str, str]:
    tables = [frame.value for frame in app.dataframe]
    return {row[0]: row[1] for table in tables for row in table.itertuples(index=False, name=None)}


def act_as(monkeypatch: pytest.MonkeyPatch, role: Role) -> None:
    monkeypatch.setattr(access, "_actor", lambda *, touch, fresh: Actor("sam", role))


def start_repair(app: AppTest, act: str) -> AppTest:
    """Press the button, confirm, and refresh when it is done."""
    app.button(key=f"health-{act}").click().run()
    assert texts.HEALTH_CONTINUES in words(app)
    app.button(key="health-confirm").click().run()
    wait_for("the work", lambda: (work := maintenance_runner().task) is not None and not work.is_running)
    return fresh(app)


def break_lists(presence: Presence, server: Server) -> None:
    """As another program does it: one of two sessions loses its entry in one list."""
    [shard] = presence.internal.context.keys.shards
    server.command("ZREMRANGEBYRANK", shard.deadlines, "0", "0")


def test_redis_the_worker_and_the_data_are_described(app: AppTest, presence: Presence, server: Server) -> None:
    log_in(presence, 2)
    opened(app)
    node = presence.health().nodes[0]
    shown_facts = facts(app)
    assert shown_facts[texts.HEALTH_KIND] == f"{node.kind} {node.version}"
    assert shown_facts[texts.HEALTH_EVICTION] == node.maxmemory_policy
    assert shown_facts[texts.HEALTH_LEADER] == texts.HEALTH_NO_WORKER
    assert shown_facts[texts.HEALTH_AGREEMENT] == texts.HEALTH_AGREE
    assert shown_facts[texts.HEALTH_ENDED] == texts.HEALTH_ENDED_ALL
    assert shown_facts[texts.SESSIONS] == "2"
    assert [warning.value for warning in app.warning] == [texts.HEALTH_HEADLINES["warning"]]
    assert "Nothing is kept on disk" in words(app)
    assert "No worker has ever run here" in words(app)
    shown = {metric.label: metric for metric in app.metric}
    assert shown[texts.HEALTH_EVICTED].value == "0"
    assert shown[texts.HEALTH_LATENCY].value.endswith(" ms")
    for _ in range(3):
        fresh(app)
    assert len(health_before()) >= 4, "its small history grows by each reading"


def test_ended_sessions_that_are_too_many_to_keep_are_complete_since_a_time(
    app: AppTest, presence: Presence, server: Server
) -> None:
    with Presence.from_url(server.url, Settings(timeout=PATIENT, max_ended=1)) as small:
        for number in range(2):
            small.logout("dana", small.login("dana", session_id=f"session-{number}").session.session_id)
        small.sweep()
        since = small.health().ended_complete_since
    assert since is not None
    assert facts(opened(app))[texts.HEALTH_ENDED] == texts.health_ended_since(time_of_day(since))


def test_what_is_kept_of_people_and_for_how_long_is_one_table(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESENCE_TRUNCATE_ADDRESSES_AFTER", "7")
    monkeypatch.setenv("PRESENCE_KEEP_LOGOUT", "0")
    monkeypatch.setenv("PRESENCE_KEEP_EXPIRED", "5400")
    monkeypatch.setenv("PRESENCE_MAX_EVENTS", "5000")
    act_as(monkeypatch, "viewer")
    opened(app)
    [table] = [element.value for element in app.dataframe if texts.RETENTION_SETTING in element.value.columns]
    rows = {setting: long for _, long, setting in table.itertuples(index=False, name=None)}
    assert rows["idle_timeout"] == "until it ends: 30 min idle, 1 day at most"
    assert rows["keep_kicked"] == "30 days"
    assert rows["keep_logout"] == texts.RETENTION_NONE
    assert rows["keep_expired"] == "90 min"
    assert rows["truncate_addresses_after"] == "7 days; then /24 (IPv4) or /48 (IPv6)"
    assert rows["keep_audit"] == "2 years, the latest 100,000 at most"
    assert rows["max_events"] == "the latest 5,000"
    privacy = (ROOT / "docs/run/privacy.md").read_text("utf-8")
    assert all(f"`{setting}`" in privacy for setting in rows if setting), "as the manual has it"
    named = {field.name for field in fields(Settings) if field.name.startswith("keep_")}
    assert named <= set(rows), "no time of the settings is left out"
    for days, sentence in (
        (None, texts.RETENTION_NOT_TRUNCATED),
        (0, "none; then /24 (IPv4) or /48 (IPv6)"),
        (1, "1 day; then /24"),
    ):
        [long] = [
            long
            for _, long, name in retention.retention_rows(Settings(truncate_addresses_after=days))
            if name.startswith("trunc")
        ]
        assert long.startswith(sentence)


def test_findings_stand_in_order_of_how_bad_they_are(app: AppTest, presence: Presence, server: Server) -> None:
    log_in(presence, 2)
    break_lists(presence, server)
    opened(app)
    levels = list(texts.HEALTH_LEVELS.values())
    said = [text.value for text in app.markdown if "-badge[" in text.value]
    places = [place for text in said for place, level in enumerate(levels) if level in text]
    assert len(set(places)) > 1
    assert places == sorted(places, reverse=True)
    assert "The lists of shard 0 name different sessions." in words(app)
    assert facts(app)[texts.HEALTH_AGREEMENT] == texts.health_disagree("0")


def test_repair_puts_right_what_a_foreign_hand_did_and_is_written_down(
    app: AppTest, presence: Presence, server: Server
) -> None:
    log_in(presence, 2)
    break_lists(presence, server)
    start_repair(opened(app), "repair")
    assert [done.value for done in app.success if "Data repaired" in done.value]
    assert facts(app)[texts.HEALTH_AGREEMENT] == texts.HEALTH_AGREE
    [entry] = [entry for entry in presence.audit().items if entry.by == "local operator"]
    assert "repair" in repr(entry)
    assert not app.button(key="health-repair").disabled


def test_a_reindex_tells_how_far_it_is(app: AppTest, presence: Presence) -> None:
    log_in(presence, 3)
    start_repair(opened(app), "reindex")
    work = maintenance_runner().task
    assert work is not None
    assert (work.done, work.total) == (3, 3)
    assert "Indexes rebuilt" in words(app)


def test_nothing_is_begun_before_it_is_confirmed(app: AppTest, presence: Presence) -> None:
    opened(app)
    app.button(key="health-repair").click().run()
    app.button(key="health-cancel").click().run()
    assert maintenance_runner().task is None
    assert not [button for button in app.button if button.key == "health-confirm"]


@pytest.mark.parametrize("role", ["stats", "viewer", "support"])
def test_other_roles_see_it_but_repair_nothing(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, role: Role
) -> None:
    act_as(monkeypatch, role)
    opened(app)
    assert texts.HEALTH_KIND in facts(app)
    assert texts.HEALTH_MAINTENANCE_READ_ONLY in words(app)
    assert not [button for button in app.button if button.key == "health-repair"]


def test_an_admin_who_is_demoted_before_the_click_is_refused(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(app)
    app.button(key="health-repair").click().run()
    act_as(monkeypatch, "support")
    app.button(key="health-confirm").click().run()
    assert maintenance_runner().task is None
    assert not app.error
    assert any(texts.may_not("support") in warning.value for warning in app.warning)
    [entry] = [entry for entry in presence.audit().items if entry.by == "sam"]
    assert "repair" in repr(entry)


def test_an_admin_who_is_demoted_before_the_first_click_is_refused_too(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(app)
    act_as(monkeypatch, "support")
    app.button(key="health-repair").click().run()
    assert maintenance_runner().task is None
    [entry] = [entry for entry in presence.audit().items if entry.by == "sam"]
    assert entry.outcome == "repair refused once"


def test_work_that_loses_redis_says_so_and_may_be_begun_again(app: AppTest, presence: Presence, server: Server) -> None:
    bench, store = MaintenanceRunner(), Store(lambda: Presence.from_url(server.url, Settings(timeout=PATIENT)))
    client = store.presence
    client.counts()
    server.pause()
    try:
        assert bench.start(client, "repair")
        assert not bench.start(client, "reindex"), "one at a time"
        wait_for("the work", lambda: bench.task is not None and not bench.task.is_running)
        assert bench.task is not None
        assert bench.task.failure
    finally:
        server.resume()
        store.close()
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as other:
        assert bench.start(other, "reindex")
        wait_for("the work", lambda: bench.task is not None and not bench.task.is_running)
        assert bench.task.report is not None


def test_an_outage_leaves_the_last_reading_and_turns_the_buttons_off(
    app: AppTest, presence: Presence, server: Server
) -> None:
    opened(app)
    server.pause()
    try:
        open_store().counts(fresh=True)
        app.run()
    finally:
        server.resume()
    assert not app.exception
    assert texts.HEALTH_KIND in facts(app)
    notice, cause = (warning.value for warning in app.warning)
    assert "cannot be reached (Timeout" in cause, "readers of this page can fix it"
    assert re.search(r"Updated .+ ago\.$", cause)
    assert notice.startswith("**Sessions cannot be read at the moment.**")
    assert not app.error
    assert app.button(key="health-repair").disabled
    assert texts.AWAY_HINT in words(app)


def test_the_page_opens_while_redis_is_away(app: AppTest, server: Server) -> None:
    server.pause()
    try:
        app.run()
        app.switch_page("views/health/health.py").run()
    finally:
        server.resume()
    assert not app.exception
    assert texts.LIVE_NOT_YET in words(app)
    assert not app.metric, "no zeros"


def test_while_redis_is_away_no_headline_says_how_all_is(app: AppTest, server: Server) -> None:
    def headlines() -> list[str]:
        shown = [element.value for kind in (app.success, app.info, app.warning, app.error) for element in kind]
        return [text for text in shown if text in texts.HEALTH_HEADLINES.values()]

    opened(app)
    assert len(headlines()) == 1
    server.pause()
    try:
        age_cache()
        app.run()
    finally:
        server.resume()
    assert any("cannot be read at the moment" in element.value for element in app.warning)
    assert headlines() == []
    assert app.metric, "the last figures stay, with their age"


def test_a_server_that_evicts_is_reported_first(app: AppTest, presence: Presence, server: Server) -> None:
    log_in(presence, 1)
    server.command("CONFIG", "SET", "maxmemory", "1gb")
    server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        opened(app)
    finally:
        server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        server.command("CONFIG", "SET", "maxmemory", "0")
    assert app.error[0].value == "**A check failed.** The service is affected now."
    assert "allkeys-lru may delete any key" in words(app)
    assert "Set maxmemory-policy noeviction." in words(app)
