"""The Sessions page: staff ask for kicks beyond the limit, an admin approves or refuses; block and kick in one act."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from streamlit.testing.v1 import AppTest

from presence_core import InvalidArgument, OutcomeUnknown, Presence, SessionFilter, Unavailable
from presence_dashboard import access, texts
from presence_dashboard.actions import approvals, block_rules, bulk_kick, kick_and_block
from presence_dashboard.actions.block_rules import RuleDetails
from presence_dashboard.actions.kick_and_block import ActionDetails
from presence_dashboard.data.store import open_store
from presence_dashboard.format import number
from presence_dashboard.roles import Actor, Denied
from tests.dashboard.conftest import log_in, refs, table, tick, toasts, uids
from tests.support.servers import Server

ROOT = Path(__file__).parents[3]

SAM = Actor("sam", "support", bulk_limit=2, can_ask=True)
GRACE = Actor("grace", "admin", can_ask=True)
EVE = Actor("eve", "admin", four_eyes=2, can_ask=True)


@pytest.fixture(autouse=True)
def _staff(presence: Presence) -> None:
    presence.set_staff("grace", "admin", by="setup")
    presence.set_staff("eve", "admin", by="setup")
    presence.set_staff("sam", "support", by="setup")


def act_as(monkeypatch: pytest.MonkeyPatch, actor: Actor) -> None:
    """Another staff member is signed in."""
    monkeypatch.setattr(access, "current", lambda *, touch=True: actor)
    monkeypatch.setattr(access, "require", lambda right, *, action, uid=None: actor)


def words(app: AppTest) -> str:
    assert not app.exception
    kinds = (app.markdown, app.error, app.warning, app.info, app.caption)
    html = [part.proto.body for part in app.get("html")]
    return " | ".join([*html, *(element.value for kind in kinds for element in kind)])


def buttons(app: AppTest) -> list[str]:
    return [str(button.key) for button in app.button]


def ask(app: AppTest, reason: str = "Stolen cards") -> AppTest:
    """Ask for a kick of all users "user…"."""
    app.query_params["q"] = "user"
    app.run()
    app.button(key="ask-all").click().run()
    dialog = app.session_state["bulk-number"]
    app.text_area(key=f"bulk-reason-{dialog}").set_value(reason)
    return app.button(key=f"bulk-ask-{dialog}").click().run()


def asked(presence: Presence, **changed: Any) -> str:
    found = presence.preview_kick(SessionFilter(text="user"))
    given: dict[str, Any] = {"filter": found.filter, "sessions": found.total, "by": "sam", "reason": "Stolen cards"}
    request = presence.ask_approval(**given | changed)
    approvals.requests(open_store(), fresh=True)
    return request.id


def review(app: AppTest, request_id: str) -> str:
    """Open the dialog. Returns the beginning of its keys."""
    app.run()
    app.button(key=f"review-{request_id}").click().run()
    assert not app.exception
    return f"review-{app.session_state['approval-number']}"


def approve(app: AppTest, key: str, typed: str) -> AppTest:
    app.text_input(key=f"{key}-typed").set_value(typed)
    return app.button(key=f"danger-{key}").click().run()


def kick(app: AppTest, dialog: int) -> AppTest:
    """Confirm a bulk kick of one session. A form sends its fields with its button."""
    app.text_input(key=f"bulk-typed-{dialog}").set_value("1")
    return app.button(key=f"bulk-confirm-{dialog}").click().run()


def states(presence: Presence) -> list[str]:
    return [request.state for request in presence.approval_requests()]


def actions(presence: Presence) -> list[tuple[str, str | None]]:
    return [(entry.action, entry.by) for entry in presence.audit() if entry.action != "staff"]


# -- ask ---------------------------------------------------------------------------------------------------------------


def test_beyond_the_limit_the_button_says_so_and_an_admin_is_asked(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    log_in(presence, 1, "other")
    act_as(monkeypatch, SAM)
    ask(app)
    assert not app.exception
    [request] = presence.approval_requests()
    assert (request.by, request.reason, request.sessions, request.state) == ("sam", "Stolen cards", 3, "open")
    assert request.filter is not None
    assert request.filter.text == "user"
    assert request.blocks is None
    assert presence.counts().sessions == 4
    assert presence.jobs().items == []
    assert "An admin has been asked." in toasts(app)
    assert texts.request_open("")[:15] in words(app), "the person who asked sees the state"
    assert "kick-all" not in buttons(app)
    assert app.button(key="ask-all").label == texts.ask_all("3", matching=True, exact=True)
    app.button(key=f"withdraw-{request.id}").click().run()
    assert states(presence) == ["withdrawn"]
    assert texts.REQUEST_WITHDRAWN in words(app)
    app.button(key=f"hide-request-{request.id}").click().run()
    assert texts.REQUEST_WITHDRAWN not in words(app)


def test_up_to_the_limit_and_where_no_one_can_approve_no_one_is_asked(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 2)
    act_as(monkeypatch, SAM)
    app.query_params["q"] = "user"
    assert "kick-all" in buttons(app.run())
    log_in(presence, 2)
    act_as(monkeypatch, Actor("sam", "support", bulk_limit=2))
    app.button(key="refresh").click().run()
    app.button(key="kick-all").click().run()
    assert texts.bulk_over("2") in words(app)


def test_a_request_without_a_reason_or_beyond_the_limit_of_requests_is_not_written(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    act_as(monkeypatch, SAM)
    ask(app, reason=" ")
    assert texts.REASON_MISSING in words(app)
    for _ in range(10):
        asked(presence)
    dialog = app.session_state["bulk-number"]
    app.text_area(key=f"bulk-reason-{dialog}").set_value("Why")
    app.button(key=f"bulk-ask-{dialog}").click().run()
    assert "There are already many open requests." in words(app)
    assert len(presence.approval_requests()) == 10


# -- four eyes ---------------------------------------------------------------------------------------------------------


def test_with_four_eyes_an_admin_asks_too_and_does_not_answer_their_own_request(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    act_as(monkeypatch, EVE)
    ask(app)
    [request] = presence.approval_requests()
    assert request.by == "eve"
    assert f"withdraw-{request.id}" in buttons(app)
    assert f"review-{request.id}" not in buttons(app)
    act_as(monkeypatch, GRACE)
    assert f"review-{request.id}" in buttons(app.run())


def test_with_four_eyes_a_wide_block_with_a_small_kick_is_asked_for_in_one_request(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 1)
    act_as(monkeypatch, EVE)
    app.query_params["q"] = "user"
    app.run()
    app.button(key="kick-all").click().run()
    dialog = app.session_state["bulk-number"]
    app.text_area(key=f"bulk-reason-{dialog}").set_value("Stolen cards")
    app.segmented_control(key=f"rule-kind-bulk-{dialog}").set_value(texts.RULE_COUNTRY).run()
    app.text_input(key=f"rule-country-bulk-{dialog}").set_value("fr").run()
    assert texts.ASK_WIDE in words(app)
    app.button(key=f"bulk-ask-{dialog}").click().run()
    [request] = presence.approval_requests()
    assert (request.country, request.duration, request.sessions) == ("FR", 3600, 1)
    assert presence.block_rules() == []
    assert presence.counts().sessions == 1


def test_with_four_eyes_staff_tick_no_more_sessions_of_several_people_than_they_may_kick_alone(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = log_in(presence, 3)
    for _ in range(2):
        presence.login("user00")
    act_as(monkeypatch, EVE)
    found = uids(app.run())
    tick(app, *range(5))
    assert len(table(app).ticked) == 2
    assert texts.too_many_at_once(2, 5) in toasts(app)
    tick(app)
    mine = [row for row, uid in enumerate(found) if uid == "user00"]
    tick(app, *mine)
    assert len(mine) == 3
    assert table(app).ticked == mine, "of one person as many as there are"
    with pytest.raises(Denied, match="Alone you can kick up to 2"):
        kick_and_block.kick_refs(presence, refs(*logins), ActionDetails("why"))
    assert presence.counts().sessions == 5


def test_with_four_eyes_no_wide_rule_is_added_alone_and_no_started_kick_needs_a_third_person(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    act_as(monkeypatch, EVE)
    rule = RuleDetails("why", typed="FR")
    with pytest.raises(Denied, match="needs a second person"):
        block_rules.add(presence, {"country": "FR"}, 0, rule)
    assert presence.block_rules() == []
    block_rules.add(presence, {"network": "203.0.113.0/24"}, 0, RuleDetails("why"))
    assert len(presence.block_rules()) == 1
    log_in(presence, 3)
    kick = presence.preview_kick(SessionFilter(text="user"))
    with pytest.raises(Denied):
        bulk_kick.start(open_store(), kick, (), ActionDetails("why"))
    part = approvals.RulePart({"network": "203.0.113.0/24"}, 0, None)
    with pytest.raises(Denied):
        approvals.start(open_store(), approvals.KickPart(kick), part, ActionDetails("why"))
    job = presence.start_kick(kick.filter, by="grace", reason="Approved", expected=3)
    job = presence.pause_job(job.id, by="eve")
    assert bulk_kick.control_job(open_store(), job, "resume").state == "running"
    assert [entry.outcome for entry in presence.audit() if entry.action == "denied"] == [
        "kick_where refused 2 times, last at " + outcome_time(presence, "kick_where"),
        "add_block_rule refused once",
    ]


def outcome_time(presence: Presence, act: str) -> str:
    [outcome] = [entry.outcome for entry in presence.audit() if entry.outcome.startswith(f"{act} refused")]
    return outcome.rpartition("last at ")[2]


# -- approve and refuse ------------------------------------------------------------------------------------------------


def test_an_admin_changes_the_texts_and_approves_and_both_names_are_in_the_audit(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = log_in(presence, 3)
    request_id = asked(presence, exclude=[logins[0].session.ref], sessions=2)
    log_in(presence, 1, "user-late")
    act_as(monkeypatch, GRACE)
    key = review(app, request_id)
    assert app.text_area(key=f"{key}-reason").value == "Stolen cards"
    approve(app, key, "3")
    assert texts.bulk_mistyped("2") in words(app)
    app.text_area(key=f"{key}-message").set_value("Please sign in again.")
    approve(app, key, "2")
    assert not app.exception
    [request] = presence.approval_requests()
    assert (request.state, request.answered_by, request.outcome) == ("done", "grace", "bulk kick started")
    [job] = presence.jobs().items
    assert (job.by, job.kicked, job.message) == ("grace", 2, "Please sign in again.")
    assert presence.counts().sessions == 2
    assert actions(presence)[-3:] == [
        ("kick_where_start", "grace"), ("approve_request", "grace"), ("ask_approval", "sam"),
    ]  # fmt: skip
    assert "of sam, 2 sessions to kick" in next(
        entry.outcome for entry in presence.audit() if entry.action == "approve_request"
    )
    act_as(monkeypatch, SAM)
    assert "and it has started." in words(app.run())


def test_an_admin_leaves_sessions_out_and_the_asker_reads_what_was_approved(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    [spared, *_] = log_in(presence, 3)
    presence.login("user-phone", device="iPhone", name="Someone")
    request_id = asked(presence)
    act_as(monkeypatch, GRACE)
    key = review(app, request_id)
    shown = app.multiselect(key=f"{key}-only").options
    assert f"{texts.FACET_LABELS['device']}: iPhone · 1" in shown
    app.multiselect(key=f"{key}-only").set_value([("device", "Mac"), ("device", "iPhone")]).run()
    assert app.multiselect(key=f"{key}-only").value == [("device", "iPhone")], "a filter has one value of a field"
    app.multiselect(key=f"{key}-without").set_value([spared.session.ref]).run()
    assert texts.review_kick(1, "1") in [button.label for button in app.button]
    app.multiselect(key=f"{key}-only").set_value([]).run()
    assert texts.review_kick(3, "3") in [button.label for button in app.button], "the choices stay"
    app.text_area(key=f"{key}-reason").set_value("Only these")
    approve(app, key, "3")
    assert not app.exception
    [request] = presence.approval_requests()
    assert (request.state, request.sessions, request.reason) == ("done", 4, "Stolen cards")
    assert request.approved is not None
    assert (request.approved.sessions, request.approved.exclude) == (3, (spared.session.ref,))
    [job] = presence.jobs().items
    bulk_kick.wait_for(job.id, 30)
    assert presence.validate(spared.token)
    assert presence.counts().sessions == 1
    act_as(monkeypatch, SAM)
    assert texts.request_changed("Kick 3 sessions") in words(app.run())
    assert "Only these" in words(app)


def test_with_four_eyes_no_one_approves_a_wide_rule_that_was_not_asked_for(
    presence: Presence, monkeypatch: pytest.MonkeyPatch, app: AppTest
) -> None:
    log_in(presence, 3)
    request_id = asked(presence)
    act_as(monkeypatch, EVE)
    monkeypatch.setattr(access, "require_fresh", access.require)
    [request] = presence.approval_requests()
    assert request.filter is not None
    kick = approvals.KickPart(presence.preview_kick(request.filter))
    rule = approvals.RulePart({"country": "FR"}, 0, 60, "FR")
    with pytest.raises(Denied, match="needs a second person"):
        approvals.approve(open_store(), request, kick, rule, ActionDetails("why"))
    assert states(presence) == ["open"]
    assert presence.block_rules() == []
    assert request.id == request_id


def test_an_admin_refuses_with_a_word_that_the_asker_reads(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    request_id = asked(presence)
    act_as(monkeypatch, GRACE)
    key = review(app, request_id)
    app.button(key=f"{key}-refuse").click().run()
    assert texts.REVIEW_WORD_MISSING in words(app)
    app.text_input(key=f"{key}-word").set_value("Only the *new* ones.")
    app.button(key=f"{key}-refuse").click().run()
    assert states(presence) == ["refused"]
    assert presence.counts().sessions == 3
    assert f"review-{request_id}" not in buttons(app)
    act_as(monkeypatch, SAM)
    assert "Only the *new* ones." in words(app.run())


def test_of_two_admins_with_the_dialog_open_one_approves(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    request_id = asked(presence)
    act_as(monkeypatch, GRACE)
    key = review(app, request_id)
    presence.answer_request(request_id, "refuse", by="eve", word="No.")
    approve(app, key, "3")
    assert "This request was answered meanwhile" in words(app)
    assert presence.jobs().items == []
    assert presence.counts().sessions == 3


def test_when_more_match_than_the_admin_saw_nothing_starts_and_the_request_stays_open(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = log_in(presence, 3)
    request_id = asked(presence, filter=SessionFilter(name_prefix="name"))
    presence.update_session("user00", logins[0].session.session_id, name="Name")
    act_as(monkeypatch, GRACE)
    key = review(app, request_id)
    presence.update_session("user01", logins[1].session.session_id, name="Name")
    approve(app, key, "1")
    assert states(presence) == ["open"]
    assert texts.BULK_GROWN in words(app)
    assert texts.review_kick(2, "2") in [button.label for button in app.button], "it is counted again"
    assert presence.counts().sessions == 3
    approve(app, key, "2")
    assert states(presence) == ["done"]
    assert presence.counts().sessions == 1


def test_a_request_of_a_person_who_lost_the_right_can_only_be_refused(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    request_id = asked(presence)
    act_as(monkeypatch, GRACE)
    key = review(app, request_id)
    presence.set_staff("sam", "viewer", by="root")
    approve(app, key, "3")
    assert "may no longer ask for this" in words(app)
    assert states(presence) == ["open"]
    key = review(app, request_id)
    assert texts.review_no_right("**sam**") in words(app)
    assert f"danger-{key}" not in buttons(app)
    app.text_input(key=f"{key}-word").set_value("Ask again.")
    app.button(key=f"{key}-refuse").click().run()
    assert states(presence) == ["refused"]


def test_a_request_that_lapsed_while_the_dialog_was_open_starts_nothing(
    app: AppTest, server: Server, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    request_id = asked(presence)
    act_as(monkeypatch, GRACE)
    key = review(app, request_id)
    change(server, presence, request_id, until="1")
    approve(app, key, "3")
    assert states(presence) == ["lapsed"]
    assert presence.counts().sessions == 3
    assert [action for action, _ in actions(presence)] == ["lapse_request", "ask_approval"]


def change(server: Server, presence: Presence, request_id: str, **changed: str) -> None:
    """Change the stored request, as if time had passed."""
    key = presence.internal.context.keys.shards[0].approvals
    with Redis.from_url(server.url) as raw:
        stored = json.loads(raw.hget(key, request_id))
        raw.hset(key, request_id, json.dumps(stored | changed))
    approvals.requests(open_store(), fresh=True)


def test_a_process_that_dies_after_the_approval_leaves_a_request_that_says_so(
    app: AppTest, server: Server, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    request_id = asked(presence)
    presence.answer_request(request_id, "approve", by="grace")  # and dies
    act_as(monkeypatch, SAM)
    approvals.requests(open_store(), fresh=True)
    assert "It is starting." in words(app.run())
    change(server, presence, request_id, answered_at=str(int(time.time() * 1000) - 61_000))
    assert "did not record a result" in words(app.run())


APPROVER = """
import os, signal, sys
from presence_core import Presence
from presence_dashboard import access
from presence_dashboard.actions import approvals, bulk_kick
from presence_dashboard.actions.kick_and_block import ActionDetails
from presence_dashboard.data.store import Store
from presence_dashboard.roles import Actor

url, step = sys.argv[1:]
access.require_fresh = lambda right, *, action: Actor("grace", "admin")
module, name = {"before the start": (bulk_kick, "start_as"), "after the start": (approvals, "_record")}[step]
setattr(module, name, lambda *args, **named: os.kill(os.getpid(), signal.SIGKILL))
bulk_kick.run_in_background = lambda *args: None  # the worker is to run it
store = Store(lambda: Presence.from_url(url))
[request] = store.presence.approval_requests()
kick = approvals.KickPart(store.presence.preview_kick(request.filter))
approvals.approve(store, request, kick, None, ActionDetails(request.reason))
"""


@pytest.mark.parametrize("step", ["before the start", "after the start"])
def test_a_process_killed_between_approval_and_start_loses_nothing_and_starts_nothing_twice(
    app: AppTest, server: Server, presence: Presence, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    log_in(presence, 3)
    request_id = asked(presence)
    process = subprocess.run([sys.executable, "-c", APPROVER, server.url, step], cwd=ROOT, capture_output=True)
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    [request] = presence.approval_requests()
    assert (request.state, request.answered_by, request.reason) == ("approved", "grace", "Stolen cards")
    with pytest.raises(InvalidArgument, match="this one is approved"):
        presence.answer_request(request_id, "approve", by="eve")
    started = step == "after the start"
    jobs = presence.jobs().items
    assert len(jobs) == started
    for job in jobs:
        assert [presence.run_job(job.id).job.kicked for _ in range(2)] == [3, 3]  # type: ignore[union-attr]
    assert presence.counts().sessions == (0 if started else 3)
    assert len(presence.ended().items) == (3 if started else 0)
    change(server, presence, request_id, answered_at=str(int(time.time() * 1000) - 61_000))
    for actor in (SAM, GRACE):
        act_as(monkeypatch, actor)
        assert "Check the bulk kicks and the block rules before you ask again." in words(app.run())
    app.button(key=f"hide-request-{request_id}").click().run()
    assert "did not record a result" not in words(app)


def test_a_failed_start_is_recorded_and_an_unknown_one_stays_approved(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    act_as(monkeypatch, GRACE)
    for error, state in ((Unavailable("It is away."), "failed"), (OutcomeUnknown("No reply."), "approved")):
        request_id = asked(presence)

        def fail(*args: object, error: Exception = error) -> None:
            raise error

        with monkeypatch.context() as broken:
            broken.setattr("presence_dashboard.actions.bulk_kick.start_as", fail)
            approve(app, review(app, request_id), "3")
        [request] = [request for request in presence.approval_requests() if request.id == request_id]
        assert request.state == state
        app.button(key=f"review-{app.session_state['approval-number']}-cancel").click().run()
    assert ("failed_request", "grace") in actions(presence)
    assert presence.counts().sessions == 3


# -- a block in one act ------------------------------------------------------------------------------------------------


def test_an_admin_blocks_and_kicks_in_one_act_and_the_result_says_both(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence.login("user1", ip="203.0.113.7")
    presence.login("user2", ip="198.51.100.7")
    act_as(monkeypatch, GRACE)
    app.query_params["q"] = "203.0.113.0/24"
    app.run()
    app.button(key="kick-all").click().run()
    dialog = app.session_state["bulk-number"]
    app.segmented_control(key=f"rule-kind-bulk-{dialog}").set_value(texts.RULE_NETWORK).run()
    assert app.text_input(key=f"rule-network-bulk-{dialog}").value == "203.0.113.0/24", "as the search has it"
    assert texts.block_also_found("`203.0.113.0/24`", texts.number_of_sessions(1, number(1))) in words(app)
    app.text_area(key=f"bulk-reason-{dialog}").set_value("Attack")
    kick(app, dialog)
    assert not app.exception
    [rule] = presence.block_rules()
    assert (rule.network, rule.by, rule.reason, rule.until is not None) == ("203.0.113.0/24", "grace", "Attack", True)
    assert [session.uid for session in presence.list_sessions()] == ["user2"]
    assert "Logins of `203.0.113.0/24` are blocked" in toasts(app)
    assert texts.bulk_job_result("done", "1", "1") in words(app)
    times = {entry.action: entry.at for entry in presence.audit()}
    assert times["add_block_rule"] <= times["kick_where_start"]


def test_a_block_without_the_kick_says_both_and_support_sees_no_block(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 1)
    act_as(monkeypatch, GRACE)
    app.query_params["q"] = "user"
    app.run()
    app.button(key="kick-all").click().run()
    dialog = app.session_state["bulk-number"]
    app.text_area(key=f"bulk-reason-{dialog}").set_value("Attack")
    app.segmented_control(key=f"rule-kind-bulk-{dialog}").set_value(texts.RULE_COUNTRY).run()
    kick(app, dialog)
    assert texts.BLOCK_ALSO_INCOMPLETE in words(app)
    app.text_input(key=f"rule-country-bulk-{dialog}").set_value("FR").run()
    kick(app, dialog)
    assert texts.RULE_WIDE_MISSING in words(app), "a country is typed again"
    assert presence.block_rules() == []
    app.text_input(key=f"rule-typed-bulk-{dialog}").set_value("FR").run()

    def fail(*args: object) -> None:
        raise Unavailable("It is away.")

    with monkeypatch.context() as broken:
        broken.setattr("presence_dashboard.actions.bulk_kick.start_as", fail)
        kick(app, dialog)
    assert "Logins of **FR** are blocked" in words(app)
    assert "The kick did not start" in words(app)
    assert len(presence.block_rules()) == presence.counts().sessions == 1
    kick(app, dialog)
    assert presence.counts().sessions == 0
    assert len(presence.block_rules()) == 1
    log_in(presence, 1)
    act_as(monkeypatch, SAM)
    app.button(key="refresh").click().run()
    app.button(key="kick-all").click().run()
    assert not [box for box in app.segmented_control if str(box.key).startswith("rule-kind-bulk-")]


# -- who sees it -------------------------------------------------------------------------------------------------------


def test_only_roles_that_kick_see_requests_and_support_only_their_own(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    for by in ("sam", "dana"):
        asked(presence, by=by, reason=f"Reason of {by}")
    for actor, expected in (
        (SAM, {"sam"}), (GRACE, {"sam", "dana"}), (Actor("vic", "viewer"), set()), (Actor("st", "stats"), set()),
    ):  # fmt: skip
        act_as(monkeypatch, actor)
        shown = words(app.run())
        assert {by for by in ("sam", "dana") if f"Reason of {by}" in shown} == expected, actor


def test_the_header_counts_what_waits_for_this_admin_and_not_their_own(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    for by in ("sam", "dana", "Grace"):
        asked(presence, filter=SessionFilter(device="x"), sessions=0, by=by)
    for actor, count in ((GRACE, 2), (EVE, 3), (SAM, 0), (Actor("vic", "viewer"), 0)):
        act_as(monkeypatch, actor)
        app.run()
        badges = [link.proto.label for link in app.get("page_link") if link.proto.icon == ":material/approval:"]
        assert badges == ([texts.request_badge(count)] if count else []), actor
