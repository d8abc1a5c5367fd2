"""The Health page without a browser, on a real server: what it says, and what it mends."""

from __future__ import annotations

from dataclasses import fields

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence, Settings
from presence_dashboard import access, texts
from presence_dashboard.access import Actor
from presence_dashboard.mending import Bench, open_bench
from presence_dashboard.readings import health_before
from presence_dashboard.roles import Role
from presence_dashboard.store import Store, open_store
from presence_dashboard.views import kept
from tests.dashboard.conftest import IMPATIENT, log_in
from tests.dashboard.wire import ROOT
from tests.fair_clock import PATIENT
from tests.servers import Server, wait_for


def opened(app: AppTest) -> AppTest:
    app.run()
    return anew(app.switch_page("views/health.py"))


def anew(app: AppTest) -> AppTest:
    """As some ticks later: nothing that was read is shared any more."""
    open_store()._shared.clear()
    app.run()
    assert not app.exception
    return app


def words(app: AppTest) -> str:
    """What findings and notices say."""
    said = (*app.text, *app.caption, *app.success, *app.info, *app.warning, *app.error)
    return "\n".join(one.value for one in said)


def facts(app: AppTest) -> dict[str, str]:
    tables = [frame.value for frame in app.dataframe]
    return {row[0]: row[1] for table in tables for row in table.itertuples(index=False, name=None)}


def act_as(monkeypatch: pytest.MonkeyPatch, role: Role) -> None:
    monkeypatch.setattr(access, "_actor", lambda *, touch, anew: Actor("sam", role))


def mend(app: AppTest, act: str) -> AppTest:
    """Ask, confirm, and look again when it is done."""
    app.button(key=f"health-{act}").click().run()
    assert texts.HEALTH_GOES_ON in words(app)
    app.button(key="health-confirm").click().run()
    wait_for("the work", lambda: (work := open_bench().work) is not None and not work.runs)
    return anew(app)


def break_lists(presence: Presence, server: Server) -> None:
    """As a foreign hand does it: one of two sessions loses its place in one list."""
    [shard] = presence._ctx.keys.shards
    server.command("ZREMRANGEBYRANK", shard.deadlines, "0", "0")


def test_redis_the_worker_and_the_data_are_described(app: AppTest, presence: Presence, server: Server) -> None:
    log_in(presence, 2)
    opened(app)
    node = presence.health().nodes[0]
    told = facts(app)
    assert told[texts.HEALTH_KIND] == f"{node.kind} {node.version}"
    assert told[texts.HEALTH_EVICTION] == node.maxmemory_policy
    assert told[texts.HEALTH_LEADER] == texts.HEALTH_NO_WORKER
    assert told[texts.HEALTH_AGREEMENT] == texts.HEALTH_AGREE
    assert told[texts.SESSIONS] == "2"
    assert [warning.value for warning in app.warning] == [texts.HEALTH_HEADLINES["warning"]]
    assert "Nothing is kept on disk" in words(app)
    assert "No worker has ever run here" in words(app)
    shown = {metric.label: metric for metric in app.metric}
    assert shown[texts.HEALTH_EVICTED].value == "0"
    assert shown[texts.HEALTH_LATENCY].value.endswith(" ms")
    for _ in range(3):
        anew(app)
    assert len(health_before()) >= 4, "its small history grows by each reading"


def test_what_is_kept_of_people_and_for_how_long_is_one_table(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESENCE_TRUNCATE_ADDRESSES_AFTER", "7")
    monkeypatch.setenv("PRESENCE_KEEP_LOGOUT", "0")
    monkeypatch.setenv("PRESENCE_KEEP_EXPIRED", "5400")
    monkeypatch.setenv("PRESENCE_MAX_EVENTS", "5000")
    act_as(monkeypatch, "viewer")
    opened(app)
    [table] = [one.value for one in app.dataframe if texts.KEPT_SETTING in one.value.columns]
    rows = {setting: long for _, long, setting in table.itertuples(index=False, name=None)}
    assert rows["idle_timeout"] == "until it ends: 30 min idle, 1 day at most"
    assert rows["keep_kicked"] == "30 days"
    assert rows["keep_logout"] == texts.KEPT_NOT
    assert rows["keep_expired"] == "90 min"
    assert rows["truncate_addresses_after"] == "7 days; then /24 (IPv4) or /48 (IPv6)"
    assert rows["keep_audit"] == "2 years, the latest 100,000 at most"
    assert rows["max_events"] == "the latest 5,000"
    privacy = (ROOT / "docs" / "privacy.md").read_text("utf-8")
    assert all(f"`{setting}`" in privacy for setting in rows if setting), "as the manual has it"
    named = {one.name for one in fields(Settings) if one.name.startswith("keep_")}
    assert named <= set(rows), "no time of the settings is left out"
    for days, told in ((None, texts.KEPT_WHOLE), (0, "none; then /24 (IPv4) or /48 (IPv6)"), (1, "1 day; then /24")):
        [long] = [
            long for _, long, name in kept.kept(Settings(truncate_addresses_after=days)) if name.startswith("trunc")
        ]
        assert long.startswith(told)


def test_findings_stand_in_order_of_how_bad_they_are(app: AppTest, presence: Presence, server: Server) -> None:
    log_in(presence, 2)
    break_lists(presence, server)
    opened(app)
    levels = list(texts.HEALTH_LEVELS.values())
    said = [text.value for text in app.markdown if "-badge[" in text.value]
    places = [place for text in said for place, level in enumerate(levels) if level in text]
    assert len(set(places)) > 1
    assert places == sorted(places, reverse=True)
    assert "The lists of shard 0 are not of the same sessions." in words(app)
    assert facts(app)[texts.HEALTH_AGREEMENT] == texts.health_disagree("0")


def test_repair_puts_right_what_a_foreign_hand_did_and_is_written_down(
    app: AppTest, presence: Presence, server: Server
) -> None:
    log_in(presence, 2)
    break_lists(presence, server)
    mend(opened(app), "repair")
    assert [done.value for done in app.success if "Repaired" in done.value]
    assert facts(app)[texts.HEALTH_AGREEMENT] == texts.HEALTH_AGREE
    [entry] = [one for one in presence.audit().items if one.by == "local operator"]
    assert "repair" in repr(entry)
    assert not app.button(key="health-repair").disabled


def test_a_reindex_tells_how_far_it_is(app: AppTest, presence: Presence) -> None:
    log_in(presence, 3)
    mend(opened(app), "reindex")
    work = open_bench().work
    assert work is not None
    assert (work.done, work.total) == (3, 3)
    assert "Indexes made anew" in words(app)


def test_nothing_is_begun_before_it_is_confirmed(app: AppTest, presence: Presence) -> None:
    opened(app)
    app.button(key="health-repair").click().run()
    app.button(key="health-cancel").click().run()
    assert open_bench().work is None
    assert not [button for button in app.button if button.key == "health-confirm"]


@pytest.mark.parametrize("role", ["stats", "viewer", "support"])
def test_other_roles_see_it_but_mend_nothing(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, role: Role
) -> None:
    act_as(monkeypatch, role)
    opened(app)
    assert texts.HEALTH_KIND in facts(app)
    assert texts.HEALTH_UPKEEP_READ_ONLY in words(app)
    assert not [button for button in app.button if button.key == "health-repair"]


def test_an_admin_who_is_demoted_before_the_click_is_refused(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(app)
    app.button(key="health-repair").click().run()
    act_as(monkeypatch, "support")
    app.button(key="health-confirm").click().run()
    assert open_bench().work is None
    assert len(app.error) == 1
    [entry] = [one for one in presence.audit().items if one.by == "sam"]
    assert "repair" in repr(entry)


def test_an_admin_who_is_demoted_before_the_first_click_is_refused_too(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(app)
    act_as(monkeypatch, "support")
    app.button(key="health-repair").click().run()
    assert open_bench().work is None
    [entry] = [one for one in presence.audit().items if one.by == "sam"]
    assert entry.outcome == "repair refused once"


def test_work_that_loses_redis_says_so_and_may_be_begun_again(app: AppTest, presence: Presence, server: Server) -> None:
    bench, store = Bench(), Store(lambda: Presence.from_url(server.url, IMPATIENT))
    client = store.presence
    client.counts()
    server.pause()
    try:
        assert bench.begin(client, "repair")
        assert not bench.begin(client, "reindex"), "one at a time"
        wait_for("the work", lambda: bench.work is not None and not bench.work.runs)
        assert bench.work is not None
        assert bench.work.failure
    finally:
        server.resume()
        store.close()
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as other:
        assert bench.begin(other, "reindex")
        wait_for("the work", lambda: bench.work is not None and not bench.work.runs)
        assert bench.work.report is not None


def test_an_outage_leaves_the_last_reading_and_turns_the_buttons_off(
    app: AppTest, presence: Presence, server: Server
) -> None:
    opened(app)
    server.pause()
    try:
        open_store().counts(anew=True)
        app.run()
    finally:
        server.resume()
    assert not app.exception
    assert texts.HEALTH_KIND in facts(app)
    assert len(app.error) == 1, "the banner alone"
    assert app.button(key="health-repair").disabled
    assert texts.AWAY_HINT in words(app)


def test_the_page_opens_while_redis_is_away(app: AppTest, server: Server) -> None:
    server.pause()
    try:
        app.run()
        app.switch_page("views/health.py").run()
    finally:
        server.resume()
    assert not app.exception
    assert texts.LIVE_NOT_YET in words(app)
    assert not app.metric, "no zeros"


def test_while_redis_is_away_no_headline_says_how_all_is(app: AppTest, server: Server) -> None:
    def headlines() -> list[str]:
        shown = [one.value for kind in (app.success, app.info, app.warning, app.error) for one in kind]
        return [text for text in shown if text in texts.HEALTH_HEADLINES.values()]

    opened(app)
    assert len(headlines()) == 1
    server.pause()
    try:
        wait_for("the banner", lambda: any("cannot be read just now" in one.value for one in app.run().error))
    finally:
        server.resume()
    assert headlines() == []
    assert app.metric, "the last figures stay, with their age"


def test_a_server_that_evicts_is_told_before_all_else(app: AppTest, presence: Presence, server: Server) -> None:
    log_in(presence, 1)
    server.command("CONFIG", "SET", "maxmemory", "1gb")
    server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        opened(app)
    finally:
        server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        server.command("CONFIG", "SET", "maxmemory", "0")
    assert app.error[0].value == "**Something is wrong:** it hurts now."
    assert "allkeys-lru drops keys at will" in words(app)
    assert "Set maxmemory-policy noeviction." in words(app)
