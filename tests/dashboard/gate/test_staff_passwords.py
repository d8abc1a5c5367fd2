"""The Staff page adds members, resets passwords and removes members, with a password file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import InvalidArgument, InvalidCode, OutcomeUnknown, Presence
from presence_core.files.password_file import PasswordFile
from presence_dashboard import drafts, texts
from presence_dashboard.actions import staff_members
from presence_dashboard.drafts import Draft
from presence_dashboard.error_sentences import plain
from presence_dashboard.gate.staff_sessions import COOKIE, PASSWORD
from presence_dashboard.roles import Denied
from presence_dashboard.views.staff import staff_dialogs
from tests.dashboard.conftest import table, tick_member, toasts
from tests.support.behind_gate import stand_behind_gate

SECRET = "correct horse battery"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PasswordFile:
    """The password file of the dashboard, with a password of dana."""
    monkeypatch.setenv("PRESENCE_STAFF_FILE", str(tmp_path / "passwords"))
    made = PasswordFile(tmp_path / "passwords")
    made.set("dana", SECRET)
    return made


@pytest.fixture
def team(app: AppTest, presence: Presence, file: PasswordFile) -> AppTest:
    presence.set_staff("dana", "admin", by="setup")
    presence.set_staff("alex", "support", by="dana")
    app.switch_page("views/staff/staff.py").run()
    assert not app.exception
    return app


def column(app: AppTest, name: str) -> list[str]:
    return [str(value) for value in table(app).column(name)]


def add(app: AppTest, name: str, role: str | None) -> AppTest:
    app.button(key="add-staff").click().run()
    app.text_input(key=f"staff-name-{app.session_state['staff-dialog-number']}").set_value(name)
    if role is not None:
        app.radio(key=f"staff-role-{app.session_state['staff-dialog-number']}").set_value(role)
    next(button for button in app.button if button.label == texts.STAFF_ADD_CONFIRM).click().run()
    assert not app.exception
    return app


def shown(app: AppTest) -> str:
    """All text of the page."""
    kinds = (app.markdown, app.caption, app.warning, app.info, app.code, app.text, app.toast)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def one_time(app: AppTest) -> str:
    [code] = app.code
    return str(code.value)


def test_a_member_is_added_with_a_one_time_password_that_is_shown_once(
    team: AppTest, presence: Presence, file: PasswordFile, caplog: pytest.LogCaptureFixture
) -> None:
    add(team, "Sam@Example.com", "support")
    password = one_time(team)
    assert texts.staff_added("`sam@example.com`", "support") in shown(team)
    stored = file.verify("sam@example.com", password)
    assert stored
    assert stored.is_one_time
    member = presence.staff_member("sam@example.com")
    assert member is not None
    assert (member.role, member.by) == ("support", "local operator")
    assert one_time(team.run()) == password, "a refresh of the page does not lose it"

    team.button(key="password-done").click().run()
    assert len(team.code) == 0
    assert password not in shown(team.run())
    assert "staff-dialog" not in team.session_state
    assert column(team, "password") == [
        texts.STAFF_PASSWORDS["none"], texts.STAFF_PASSWORDS["own"], texts.STAFF_PASSWORDS["one-time"],
    ]  # fmt: skip
    assert password not in caplog.text
    assert all(password not in repr(entry) for entry in presence.audit())


def test_a_password_that_is_shown_is_gone_when_the_page_changes_or_some_minutes_have_passed(
    team: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = one_time(add(team, "sam", "viewer"))
    team.switch_page("views/blocks/blocks.py").run()
    team.switch_page("views/staff/staff.py").run()
    assert password not in shown(team)
    assert "staff-dialog" not in team.session_state

    assert one_time(add(team, "kim", "viewer"))
    monkeypatch.setattr(staff_dialogs, "KEEP", 0.0)
    assert len(team.run().code) == 0


@pytest.mark.parametrize(
    ("name", "role", "sentence"),
    [
        ("  ", "viewer", texts.STAFF_NAME_MISSING),
        ("sam", None, texts.STAFF_ROLE_MISSING),
        ("DANA", "viewer", texts.ERROR_FIELD["name"]["exists"]),
        ("sam\ndana", "viewer", texts.ERROR_FIELD["name"]["not_a_staff_name"]),
        ("da\u202ena", "viewer", texts.ERROR_FIELD["name"]["not_a_staff_name"]),
        ("é" * 65, "viewer", texts.ERROR_FIELD["name"]["not_a_staff_name"]),
    ],
)
def test_a_name_or_role_that_cannot_be_added_gets_one_sentence_and_changes_nothing(
    team: AppTest, presence: Presence, file: PasswordFile, name: str, role: str | None, sentence: str
) -> None:
    before = file.path.read_bytes(), presence.staff()
    add(team, name, role)
    assert [error.value.removeprefix("The action failed: ") for error in team.warning] == [sentence]
    assert (file.path.read_bytes(), presence.staff()) == before
    assert len(team.code) == 0


def test_two_admins_who_add_the_same_member_at_once_get_one_password_that_works(
    team: AppTest, presence: Presence, file: PasswordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_staff = Presence.add_staff
    before = file.path.read_bytes()

    def second(self: Presence, name: str, role: object, *, by: str) -> object:
        if by == "local operator":  # the other admin, on another machine, was faster
            presence.add_staff("sam", "viewer", by="dana")
        return add_staff(self, name, role, by=by)  # type: ignore[arg-type]

    monkeypatch.setattr(Presence, "add_staff", second)
    add(team, "sam", "admin")
    assert [error.value for error in team.warning] == [texts.action_failed(texts.ERROR_FIELD["name"]["exists"])]
    assert file.path.read_bytes() == before
    member = presence.staff_member("sam")
    assert member is not None
    assert member.role == "viewer"


def test_an_unknown_outcome_shows_no_password(team: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object, **__: object) -> NoReturn:
        raise OutcomeUnknown("no reply", "10.0.0.7:6379")

    monkeypatch.setattr(Presence, "add_staff", lost)
    add(team, "sam", "admin")
    assert [error.value for error in team.warning] == [texts.action_failed(texts.ERROR_UNKNOWN)]
    assert len(team.code) == 0


def test_on_a_full_disk_no_member_is_added(
    team: AppTest, presence: Presence, file: PasswordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = file.path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("presence_core.files.password_file.os.fsync", full)
        add(team, "sam", "viewer")
    assert [error.value for error in team.warning] == [
        texts.action_failed(texts.ERROR_FIELD["PRESENCE_STAFF_FILE"]["disk_full"])
    ]
    assert presence.staff_member("sam") is None
    assert file.path.read_bytes() == before


def test_a_reset_ends_the_old_password_and_the_sign_ins(
    team: AppTest, presence: Presence, file: PasswordFile, sign_ins: Presence
) -> None:
    login = sign_ins.login("dana")
    tick_member(team, 1)
    team.button(key="reset").click().run()
    password = one_time(team)
    assert texts.staff_reset("**dana**") in shown(team)
    assert not file.verify("dana", SECRET)
    assert file.verify("dana", password)
    assert not sign_ins.validate(login.token)
    assert "dana was given a one-time password" in [entry.outcome for entry in presence.audit()]
    assert all(password not in repr(entry) for entry in presence.audit())


def test_if_a_reset_cannot_be_audited_the_old_password_stays(
    team: AppTest, file: PasswordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise InvalidArgument("reason", "is a test")

    monkeypatch.setattr(Presence, "audit_note", fail)
    tick_member(team, 1)
    team.button(key="reset").click().run()
    assert file.verify("dana", SECRET)
    assert len(team.code) == 0


def test_staff_cannot_reset_their_own_password_and_no_one_without_a_role(
    team: AppTest, presence: Presence, file: PasswordFile, sign_ins: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = file.find("dana")
    assert stored
    login = sign_ins.login("dana", attributes={PASSWORD: stored.version})
    stand_behind_gate(monkeypatch, {COOKIE: login.token})
    monkeypatch.setenv("PRESENCE_DASHBOARD_ACCESS", "password")
    codes: dict[str, InvalidCode] = {"dana": "own_password", "stranger": "no_role"}
    for name, code in codes.items():
        with pytest.raises(InvalidArgument) as refused:
            staff_members.reset_password(presence, name)
        assert plain(refused.value) == texts.ERROR_FIELD["name"][code]
    assert file.verify("dana", SECRET)
    assert staff_members.reset_password(presence, "alex").member == "alex"


def test_a_removed_member_loses_password_sign_ins_saved_items_and_draft(
    team: AppTest, presence: Presence, file: PasswordFile, sign_ins: Presence
) -> None:
    file.set("alex", SECRET)
    login = sign_ins.login("alex")
    presence.save_item("view", "mine", "q=a", by="alex")
    drafts._drafts["alex"] = Draft("kick", str, None, {"reason": "x"}, "", None, 0.0)
    tick_member(team, 0)
    team.button(key="remove").click().run()
    assert texts.staff_removed("**alex**") in toasts(team)
    assert "alex" not in file
    assert file.verify("dana", SECRET)
    assert not sign_ins.validate(login.token)
    assert presence.saved_items("view", owner="alex") == []
    assert "alex" not in drafts._drafts


def test_the_last_admin_keeps_the_password_when_a_removal_is_refused(team: AppTest, file: PasswordFile) -> None:
    tick_member(team, 1)
    team.button(key="remove").click().run()
    assert texts.ERROR_FIELD["name"]["last_admin"] in toasts(team)
    assert file.verify("dana", SECRET)


def test_where_the_password_file_is_read_only_the_page_says_so(
    team: AppTest, presence: Presence, file: PasswordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> NoReturn:
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS))

    file.set("alex", SECRET)
    allowed = os.access
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != file.path and allowed(path, mode))
    monkeypatch.setattr("presence_core.files.password_file.mkstemp", denied)
    tick_member(team.run(), 0)
    assert texts.STAFF_READ_ONLY in [info.value for info in team.info]
    assert team.button(key="add-staff").disabled
    team.button(key="remove").click().run()
    assert texts.staff_removed_in_part("**alex**") in toasts(team)
    assert "alex" in file
    member = presence.staff_member("alex")
    assert member is not None
    assert member.role is None


def test_without_a_password_file_a_member_is_added_without_a_password(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRESENCE_STAFF_FILE", raising=False)
    app.switch_page("views/staff/staff.py").run()
    add(app, "sam", "admin")
    assert texts.staff_added("**sam**", "admin") in toasts(app)
    assert len(app.code) == 0
    assert "password" not in table(app).columns
    assert "password" not in " ".join(button.label.lower() for button in tick_member(app, 0).button)
    member = presence.staff_member("sam")
    assert member is not None
    assert member.role == "admin"


def test_a_demoted_admin_adds_no_member_and_resets_no_password(
    team: AppTest, presence: Presence, file: PasswordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file.path.read_bytes()
    team.button(key="add-staff").click().run()
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "support")
    with pytest.raises(Denied):
        staff_members.add(presence, "sam", "admin")
    with pytest.raises(Denied):
        staff_members.reset_password(presence, "alex")
    team.run()
    assert [header.value for header in team.subheader] == [texts.NO_PERMISSION_TITLE]
    assert file.path.read_bytes() == before
    denials = [entry.outcome for entry in presence.audit() if entry.action == "denied"]
    assert sorted(denials) == ["add staff refused once", "reset staff password refused once"]
