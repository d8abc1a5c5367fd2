"""The actor and the role are read from the store inside each action, every time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from presence_core import Presence, Settings, Unavailable
from presence_core.password_file import PasswordFile, StoredPassword
from presence_dashboard import access, texts
from presence_dashboard.access import ROLES, Actor, Denied, Right, SignedOut
from presence_dashboard.actions import bulk_kick, csv_export, kick_and_block, privacy, staff_members
from presence_dashboard.actions.kick_and_block import ActionDetails
from presence_dashboard.actions.maintenance import MaintenanceRunner
from presence_dashboard.gate.staff_sessions import COOKIE, open_staff_sessions
from presence_dashboard.gate_settings import Config
from tests.conftest import Servers
from tests.support.behind_gate import stand_behind_gate
from tests.support.fair_clock import PATIENT

ALL: tuple[Right, ...] = ("counts", "people", "kick", "bulk", "export", "audit_export", "repair", "staff")


@pytest.fixture
def presence(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Presence]:
    """A client of the site, with the environment of a dashboard."""
    namespace = f"acc{os.getpid()}-{id(monkeypatch) % 10**9}"
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
    assert [made[role].bulk_limit for role in ROLES] == [0, 0, 25, None]


@pytest.mark.parametrize(
    ("act", "right"),
    [
        (lambda p: kick_and_block.kick_sessions(p, ["ada:session-1"], ActionDetails("why")), "kick"),
        (lambda p: kick_and_block.kick_person(p, "ada", [], ActionDetails("why")), "kick"),
        (lambda p: kick_and_block.block(p, "ada", ActionDetails("why")), "kick"),
        (lambda p: kick_and_block.unblock(p, "ada", "why"), "kick"),
        (lambda p: privacy.erase_person(p, "ada", "why"), "staff"),
        (lambda p: privacy.export_person(p, "ada"), "staff"),
        (lambda p: bulk_kick.preview(p, None, ()), "bulk"),  # type: ignore[arg-type]  # the filter is not read
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
    ],
)
def test_the_name_is_the_one_that_the_provider_confirmed(
    claims: dict[str, object], claim: str, name: str | None
) -> None:
    config = Config(mode="oidc", name_claim=claim)
    if name is None:
        with pytest.raises(Denied):
            access.provider_name(claims, config)
    else:
        assert access.provider_name(claims, config) == name


def test_claims_lists_and_defaults_give_the_highest_role_first() -> None:
    environ = {
        "PRESENCE_OIDC_ROLE_CLAIM": "groups",
        "PRESENCE_ROLE_MAP": "all=viewer, ops=admin,desk=support,cn=a=support",
        "PRESENCE_OIDC_ADMINS": "Root@example.com",
    }
    config = Config.from_env(environ)

    def seed(name: str, groups: object) -> str | None:
        return config.seed(name, access.provider_groups({"groups": groups}, config))

    assert seed("dana", ["all", "desk"]) == "support"
    assert seed("dana", "ops") == "admin"
    assert seed("dana", ["cn=a"]) == "support"
    assert seed("root@example.com", None) == "admin"
    assert [seed("dana", odd) for odd in (None, [], {"ops": 1}, [["ops"], 5], "Ops", "ops,all")] == [None] * 6
    assert Config.from_env(environ | {"PRESENCE_DEFAULT_ROLE": "stats"}).seed("dana", []) == "stats"


def test_a_sign_in_has_one_session_with_a_maximum_age() -> None:
    claims = {"sub": "1", "iat": 1_000_000, "nonce": "n"}
    assert access.provider_session(claims) == access.provider_session(dict(reversed(claims.items())))
    assert access.provider_session(claims) != access.provider_session(claims | {"nonce": "m"})
    config = Config(mode="oidc", absolute=3600)
    access.check_age(claims, config, 1_003_599)
    for odd, now in (
        (claims, 1_003_601.0),
        (claims, 999_000.0),
        ({}, 0.0),
        ({"iat": "now"}, 0.0),
        ({"iat": None}, 0.0),
    ):
        with pytest.raises(SignedOut):
            access.check_age(odd, config, now)
