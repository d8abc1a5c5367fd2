"""The actor and the role are read from the store inside each action, every time."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from presence_core import Login, Presence, SessionFilter, Settings, Unavailable
from presence_core.files.password_file import PasswordFile, StoredPassword
from presence_dashboard import access, texts
from presence_dashboard.actions import (
    approvals,
    block_rules,
    bulk_kick,
    csv_export,
    kick_and_block,
    privacy,
    staff_members,
)
from presence_dashboard.actions.approvals import RulePart
from presence_dashboard.actions.block_rules import RuleConditions, RuleDetails
from presence_dashboard.actions.kick_and_block import ActionDetails
from presence_dashboard.actions.maintenance import MaintenanceRunner
from presence_dashboard.data.store import open_store
from presence_dashboard.gate.oidc import claims as provider_claims
from presence_dashboard.gate.staff_sessions import COOKIE, PASSWORD, open_staff_sessions
from presence_dashboard.gate_settings import Config
from presence_dashboard.roles import ROLES, Actor, AuthenticationTooOld, Denied, Right, SignedOut
from tests.conftest import Servers
from tests.support.behind_gate import stand_behind_gate
from tests.support.fair_clock import PATIENT

NUMBERS = itertools.count()
ALL: tuple[Right, ...] = ("counts", "people", "kick", "bulk", "export", "audit_export", "repair", "staff")


@pytest.fixture
def presence(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Presence]:
    """A client of the site, with the environment of a dashboard."""
    namespace = f"acc{os.getpid()}-{next(NUMBERS)}"
    for name, value in (("REDIS_URL", servers.url("valkey")), ("NAMESPACE", namespace), ("TIMEOUT", "0.5")):
        monkeypatch.setenv(f"PRESENCE_{name}", value)
    stand_behind_gate(monkeypatch)
    st.cache_resource.clear()
    with Presence.from_url(servers.url("valkey"), Settings(namespace=namespace, timeout=PATIENT)) as made:
        yield made
    st.cache_resource.clear()


@pytest.fixture
def password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredPassword:
    """Staff sign in with passwords, and this is the one of dana."""
    file = PasswordFile(tmp_path / "staff")
    monkeypatch.setenv("PRESENCE_DASHBOARD_ACCESS", "password")
    monkeypatch.setenv("PRESENCE_STAFF_FILE", str(file.path))
    return file.set("dana", "correct horse battery")


def denials(presence: Presence) -> list[tuple[str | None, str, str | None, str | None]]:
    return [
        (entry.by, entry.outcome, entry.uid, entry.reason) for entry in presence.audit() if entry.action == "denied"
    ]


def test_each_role_has_all_rights_of_the_one_before_it_and_more() -> None:
    privacy_menu = [{right for right in ALL if Actor("x", role).may(right)} for role in ROLES]
    assert privacy_menu[0] == {"counts"}
    assert privacy_menu[1] == {"counts", "people"}
    assert privacy_menu[2] == {"counts", "people", "kick", "bulk", "export"}
    assert privacy_menu[3] == set(ALL)


def test_values_are_masked_for_viewers_and_limits_apply_to_support() -> None:
    config = Config.from_env({"PRESENCE_DASHBOARD_MASK": "name, ip", "PRESENCE_DASHBOARD_BULK": "25"})
    made = {role: config.actor("x", role) for role in ROLES}
    assert {role: set(actor.masked) for role, actor in made.items()} == {
        "stats": set(), "viewer": {"name", "ip"}, "support": set(), "admin": set(),
    }  # fmt: skip
    assert [made[role].bulk_limit for role in ROLES] == [made[role].alone_limit for role in ROLES] == [0, 0, 25, None]
    environ = {"PRESENCE_DASHBOARD_FOUR_EYES": "10", "PRESENCE_DASHBOARD_ACCESS": "proxy", "PRESENCE_PROXY_HEADER": "X",
               "PRESENCE_TRUSTED_PROXIES": "10.0.0.5"}  # fmt: skip
    made = {role: Config.from_env(environ).actor("x", role) for role in ROLES}
    assert [made[role].alone_limit for role in ROLES] == [0, 0, 10, 10]
    assert (made["support"].bulk_limit, made["admin"].bulk_limit, made["admin"].can_ask) == (100, None, True)
    made = {role: Config.from_env(environ | {"PRESENCE_DASHBOARD_FOUR_EYES": "0"}).actor("x", role) for role in ROLES}
    assert [made[role].alone_limit for role in ROLES] == [0, 0, 0, 0], "each bulk kick needs a second person"


@pytest.mark.parametrize(
    ("act", "right"),
    [
        (lambda p: kick_and_block.kick_refs(p, ["ada:session-1"], ActionDetails("why")), "kick"),
        (lambda p: kick_and_block.kick_person(p, "ada", [], ActionDetails("why")), "kick"),
        (lambda p: kick_and_block.block(p, "ada", ActionDetails("why")), "kick"),
        (lambda p: kick_and_block.unblock(p, "ada", "why"), "kick"),
        (lambda p: privacy.erase_person(p, "ada", "why"), "staff"),
        (lambda p: privacy.export_person(p, "ada"), "staff"),
        (lambda p: bulk_kick.preview(p, None, ()), "bulk"),  # type: ignore[arg-type]  # the filter is not read
        (lambda p: approvals.ask(p, None, None, ActionDetails("why")), "bulk"),
        (lambda p: approvals.ask(p, None, RulePart({"country": "FR"}, 0, None), ActionDetails("why")), "block_rules"),
        (lambda p: approvals.approve(p, p, None, None, ActionDetails("why")), "approve"),
        (lambda p: approvals.refuse(p, p, "why"), "approve"),
        (lambda p: approvals.withdraw(p, p), "bulk"),
        (lambda p: approvals.start(p, p, p, ActionDetails("why")), "bulk"),
        (lambda p: next(csv_export.pages(csv_export.session_export(p, None, ""))), "export"),
        (lambda p: staff_members.set_role(p, "ada", "admin"), "staff"),
        (lambda p: staff_members.remove(p, "ada"), "staff"),
        (lambda p: staff_members.add(p, "ada", "admin"), "staff"),
        (lambda p: staff_members.reset_password(p, "ada"), "staff"),
        (lambda p: staff_members.sign_out(p, "ada"), "staff"),
        (lambda p: MaintenanceRunner().start(p, "repair"), "repair"),
    ],
)
def test_each_action_checks_its_right(
    act: Callable[[Any], object], right: Right, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Right] = []

    def refuse(needed: Right, *, action: str, uid: str | None = None) -> Actor:
        asked.append(needed)
        raise Denied(action)

    monkeypatch.setattr(access, "require", refuse)
    with pytest.raises(Denied):
        act(None)
    assert asked == [right]


def test_without_a_gate_the_operator_has_the_configured_role(
    presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert access.current() == access.require("staff", action="staff") == Actor("local operator", "admin")
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    assert access.current().role == "viewer"
    with pytest.raises(Denied, match=r"^Your role viewer does not allow this action\."):
        access.require("kick", action="kick", uid="ada")
    assert denials(presence) == [("local operator", "kick refused once", "ada", "role viewer")]


def test_an_action_reads_the_role_from_the_store_even_if_the_page_shows_the_old_one(
    presence: Presence, password: StoredPassword, monkeypatch: pytest.MonkeyPatch
) -> None:
    cookies: dict[str, str] = {}
    stand_behind_gate(monkeypatch, cookies)
    with pytest.raises(SignedOut, match=texts.NOT_SIGNED_IN):
        access.current()
    presence.set_staff("root", "admin", by="test")
    presence.set_staff("dana", "support", by="test")
    cookies[COOKIE] = open_staff_sessions().sign_in_as("dana", "192.0.2.1", "curl/8", password=password)
    assert access.current() == access.require("kick", action="kick") == Actor("dana", "support", frozenset(), 100)

    presence.set_staff("dana", "viewer", by="root")
    assert access.current().role in ("support", "viewer"), "a page may be a moment behind"
    with pytest.raises(Denied):
        access.require("kick", action="kick", uid="ada")
    assert access.current().role == "viewer"
    presence.remove_staff("dana", by="root")
    with pytest.raises(SignedOut, match="dana has no role"):
        access.require("people", action="search", uid="bob")
    assert sorted(denials(presence), key=str) == [
        ("dana", "kick refused once", "ada", "role viewer"),
        ("dana", "search refused once", "bob", "has no role"),
    ]
    presence.set_staff("dana", "support", by="root")
    [session] = open_staff_sessions().sessions.sessions("dana")
    open_staff_sessions().sessions.kick(
        "dana", session.session_id, by="root", reason="stolen", message="Call the desk."
    )
    with pytest.raises(SignedOut, match=r"^You were signed out by staff\. Call the desk\.$"):
        access.require("kick", action="kick")


def test_an_action_keeps_a_staff_member_signed_in_and_a_refresh_does_not(
    presence: Presence, password: StoredPassword, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence.set_staff("dana", "support", by="test")
    desk = open_staff_sessions()
    token = desk.sign_in_as("dana", None, None, password=password)
    stand_behind_gate(monkeypatch, {COOKIE: token})
    [begun] = desk.sessions.sessions("dana")
    access.current(touch=False)
    [after_tick] = desk.sessions.sessions("dana")
    assert after_tick.last_seen == begun.last_seen
    access.current(touch=True)
    [after_act] = desk.sessions.sessions("dana")
    assert after_act.last_seen > begun.last_seen


def test_without_redis_actions_fail_and_unknown_pages_are_signed_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ACCESS", "password")
    monkeypatch.setenv("PRESENCE_STAFF_FILE", "/nowhere")
    monkeypatch.setenv("PRESENCE_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("PRESENCE_TIMEOUT", "0.1")
    stand_behind_gate(monkeypatch, {COOKIE: "ZGFuYQ.aaaaaaaaaaaaaaaaaaaaaa." + "x" * 43})
    st.cache_resource.clear()
    try:
        with pytest.raises(Unavailable):
            access.require("kick", action="kick")
        with pytest.raises(SignedOut, match=r"^Your sign-in cannot be checked"):
            access.current()
    finally:
        st.cache_resource.clear()


# -- A fresh authentication -------------------------------------------------------------------------------------------


@pytest.fixture
def ada(presence: Presence) -> Login:
    """A visitor who is online."""
    return presence.login("ada", name="Ada Lovelace")


@pytest.fixture
def cookies(
    presence: Presence, password: StoredPassword, ada: Login, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The cookies of dana, an admin who entered the password 16 minutes ago and has been active since."""
    for name, role in (("dana", "admin"), ("root", "admin"), ("alex", "viewer")):
        presence.set_staff(name, role, by="test")  # type: ignore[arg-type]
    row = {"uid": "dana", "attributes": {PASSWORD: password.version}, "login_at": time.time() - 960}
    [login] = open_staff_sessions().sessions.login_many([row | {"last_seen": time.time() - 1}], imported=True)
    assert isinstance(login, Login)
    cookies = {COOKIE: login.token}
    stand_behind_gate(monkeypatch, cookies)
    return cookies


def start_bulk_kick(presence: Presence) -> None:
    found = bulk_kick.preview(presence, SessionFilter(text="ada"), ())
    job = bulk_kick.start(open_store(), found, (), ActionDetails("why"))
    bulk_kick.wait_for(job.id, PATIENT)


def add_rule(presence: Presence) -> None:
    block_rules.add(presence, RuleConditions(network="198.51.100.0/24"), 0, RuleDetails("why"))


PROTECTED: dict[str, tuple[str, Callable[[Presence], object]]] = {
    "bulk kick": ("kick_where", start_bulk_kick),
    "kick sessions of two people": (
        "kick",
        lambda p: kick_and_block.kick_refs(p, [p.sessions("ada")[0].ref, "bob:session-1"], ActionDetails("why")),
    ),
    "block": ("block", lambda p: kick_and_block.block(p, "ada", ActionDetails("why", block=3600))),
    "unblock": ("unblock", lambda p: kick_and_block.unblock(p, "ada", "why")),
    "kick a session and block": (
        "block",
        lambda p: kick_and_block.kick_refs(p, [p.sessions("ada")[0].ref], ActionDetails("why", block=3600)),
    ),
    "kick a person and block for good": (
        "block",
        lambda p: kick_and_block.kick_person(p, "ada", [p.sessions("ada")[0].ref], ActionDetails("why", block=0)),
    ),
    "add a rule": ("add_block_rule", add_rule),
    "remove a rule": ("remove_block_rule", lambda p: block_rules.remove(p, "none", "why")),
    "erase": ("forget", lambda p: privacy.erase_person(p, "ada", "why")),
    "export": ("export_person", lambda p: privacy.export_person(p, "ada")),
    "add staff": ("add staff", lambda p: staff_members.add(p, "kim", "viewer")),
    "set a role": ("set staff role", lambda p: staff_members.set_role(p, "alex", "support")),
    "reset a password": ("reset staff password", lambda p: staff_members.reset_password(p, "alex")),
    "remove staff": ("remove staff", lambda p: staff_members.remove(p, "alex")),
}


@pytest.mark.parametrize(("action", "act"), PROTECTED.values(), ids=list(PROTECTED))
def test_a_protected_action_is_refused_until_the_member_authenticates_again(
    presence: Presence, ada: Login, cookies: dict[str, str], action: str, act: Callable[[Presence], object]
) -> None:
    before = presence.audit().items
    with pytest.raises(AuthenticationTooOld, match=r"enter your password again: .* more than 15 min ago\.$"):
        act(presence)
    denied, *others = presence.audit().items
    assert (denied.action, denied.outcome) == ("denied", f"{action} refused once")
    assert denied.reason == "authentication is too old"
    assert others == before, "nothing else was done"
    assert presence.validate(ada.token, touch=False)
    assert access.authentication_too_old() is not None

    staff = open_staff_sessions()
    began = staff.sessions.sessions("dana")[0].last_seen
    cookies[COOKIE] = staff.authenticated_again(cookies[COOKIE], began)
    assert access.authentication_too_old() is None
    act(presence)


def test_a_kick_and_a_required_sign_in_need_no_fresh_authentication(
    presence: Presence, ada: Login, cookies: dict[str, str]
) -> None:
    other = presence.login("bob")
    kick_and_block.require_sign_in(presence, "bob", None, ActionDetails("why"))
    kick_and_block.kick_refs(presence, [ada.session.ref], ActionDetails("why"))
    kick_and_block.kick_person(presence, "bob", [other.session.ref], ActionDetails("why"))
    staff_members.sign_out(presence, "alex")
    assert presence.counts().sessions == 0
    assert denials(presence) == []


def test_support_kick_no_more_sessions_of_several_people_at_once_than_in_bulk(
    presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "support")
    monkeypatch.setenv("PRESENCE_DASHBOARD_BULK", "2")
    refs = [presence.login(uid).session.ref for uid in ("ada", "bob", "cyd")]
    with pytest.raises(Denied, match="up to 2 sessions at once, not 3"):
        kick_and_block.kick_refs(presence, refs, ActionDetails("why"))
    assert presence.counts().sessions == 3
    assert denials(presence) == [("local operator", "kick refused once", None, "3 sessions, of 2 allowed")]
    assert len(kick_and_block.kick_refs(presence, refs[:2], ActionDetails("why")).kicked) == 2
    many = [presence.login("dan").session.ref for _ in range(3)]
    assert len(kick_and_block.kick_refs(presence, many, ActionDetails("why")).kicked) == 3, "one person must be quick"


def test_a_bulk_kick_that_has_begun_goes_on_when_the_authentication_is_too_old(
    presence: Presence, cookies: dict[str, str]
) -> None:
    job = presence.start_kick(SessionFilter(text="ada"), by="dana", reason="why", expected=1)
    for command in ("pause", "resume"):
        bulk_kick.control_job(open_store(), job, command)
    bulk_kick.wait_for(job.id, PATIENT)
    assert presence.sessions("ada") == []


def test_with_zero_seconds_staff_are_never_asked_again(
    presence: Presence, cookies: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_STAFF_FRESH", "0")
    assert access.authentication_too_old() is None
    privacy.erase_person(presence, "ada", "why")


@pytest.mark.parametrize(
    ("auth_time", "problem"),
    [
        (1_000_000, None),
        (999_100, None),
        (999_099, texts.provider_too_old("15 min")),
        (1_000_300, None),
        (1_000_301, texts.PROVIDER_CLOCK),
        (float("nan"), texts.provider_too_old("15 min")),
        (None, texts.PROVIDER_SILENT),
        ("1000000", texts.PROVIDER_SILENT),
        (True, texts.PROVIDER_SILENT),
    ],
)
def test_the_time_of_an_authentication_at_a_provider_is_checked(auth_time: object, problem: str | None) -> None:
    assert access.auth_time_problem({"auth_time": auth_time}, 900, 1_000_000) == problem


# -- OIDC: what a provider says ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "claim", "name"),
    [
        ({"email": " Dana@Example.com ", "email_verified": True, "sub": "1"}, "", "dana@example.com"),
        ({"sub": "4711"}, "", "4711"),
        ({"email": "x@y", "preferred_username": "Dana"}, "preferred_username", "dana"),
        ({"email": "dana@example.com", "sub": "1"}, "", None),
        ({"email": "dana@example.com", "email_verified": "true"}, "", None),
        ({"email": "dana@example.com", "email_verified": False}, "email", None),
        ({"sub": ""}, "", None),
        ({"sub": 4711}, "", None),
        ({}, "preferred_username", None),
        ({"sub": "dana\nroot signed in"}, "", None),
        ({"sub": "dana\u2028root"}, "", None),
        ({"sub": "dana\u202e"}, "", None),
        ({"sub": "x" * 129}, "", None),
        ({"email": "\u212aelvin@example.com", "email_verified": True}, "", None),
        ({"email": "\u0130van@example.com", "email_verified": True}, "", None),
        ({"email": "\xc9mile@example.com", "email_verified": True}, "", None),
        ({"email": "\xe9mile@Example.com", "email_verified": True}, "", "\xe9mile@example.com"),
        ({"email": "root@example.com\xa0", "email_verified": True}, "", None),
        ({"email": "\u2003root@example.com", "email_verified": True}, "", None),
        ({"email": "root@example.com\t", "email_verified": True}, "", None),
        ({"email": "root", "email_verified": True}, "", None),
        ({"preferred_username": "\u212aelvin"}, "preferred_username", None),
        ({"preferred_username": "root\xa0"}, "preferred_username", None),
        ({"sub": "root@example.com"}, "", None),
        ({"sub": "root@example.com"}, "sub", None),
        ({"sub": "root@example.com", "email": None}, "", None),
        ({"sub": " 4711"}, "", None),
        ({"sub": "\u212aelvin"}, "", None),
    ],
)
def test_the_name_is_the_one_that_the_provider_confirmed(
    claims: dict[str, object], claim: str, name: str | None
) -> None:
    config = Config(mode="oidc", name_claim=claim)
    if name is None:
        with pytest.raises(Denied):
            provider_claims.provider_name(claims, config)
    else:
        assert provider_claims.provider_name(claims, config) == name


def test_each_sub_is_a_name_of_its_own_because_providers_compare_it_exactly() -> None:
    config = Config(mode="oidc")
    subs = ["abc", "Abc", "aBc", "ABC", "abc~", "abc~1"]
    names = [provider_claims.provider_name({"sub": sub}, config) for sub in subs]
    names += [provider_claims.provider_name({"sub": name}, config) for name in names if "~" in name]
    assert len({*names}) == len(names)
    assert names[0] == "abc"
    assert all(name == name.lower() for name in names), "as records have it"
    admins = Config.from_env({"PRESENCE_OIDC_ADMINS": "Abc, Root@example.com"}).admins
    assert admins == {names[1], "root@example.com"}
    assert Config.from_env({"PRESENCE_OIDC_ADMINS": "Dana", "PRESENCE_OIDC_NAME_CLAIM": "login"}).admins == {"dana"}


def test_claims_lists_and_defaults_give_the_highest_role_first() -> None:
    environ = {
        "PRESENCE_OIDC_ROLE_CLAIM": "groups",
        "PRESENCE_ROLE_MAP": "all=viewer, ops=admin,desk=support,cn=a=support",
        "PRESENCE_OIDC_ADMINS": "Root@example.com",
    }
    config = Config.from_env(environ)

    def seed(name: str, groups: object) -> str | None:
        return config.seed(name, provider_claims.provider_groups({"groups": groups}, config))

    assert seed("dana", ["all", "desk"]) == "support"
    assert seed("dana", "ops") == "admin"
    assert seed("dana", ["cn=a"]) == "support"
    assert seed("root@example.com", None) == "admin"
    assert [seed("dana", odd) for odd in (None, [], {"ops": 1}, [["ops"], 5], "Ops", "ops,all")] == [None] * 6
    assert Config.from_env(environ | {"PRESENCE_DEFAULT_ROLE": "stats"}).seed("dana", []) == "stats"


def test_a_sign_in_has_one_session_with_a_maximum_age() -> None:
    claims = {"sub": "1", "iat": 1_000_000, "nonce": "n"}
    assert provider_claims.provider_session(claims) == provider_claims.provider_session(dict(reversed(claims.items())))
    assert provider_claims.provider_session(claims) != provider_claims.provider_session(claims | {"nonce": "m"})
    config = Config(mode="oidc", absolute=3600)
    provider_claims.check_age(claims, config, 1_003_599)
    for odd, now in (
        (claims, 1_003_601.0),
        (claims, 999_000.0),
        ({}, 0.0),
        ({"iat": "now"}, 0.0),
        ({"iat": None}, 0.0),
    ):
        with pytest.raises(SignedOut):
            provider_claims.check_age(odd, config, now)
