"""Who acts, and what they may: asked inside each action, of the store, every time."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import streamlit as st

from presence_core import Presence, Settings, Unavailable
from presence_dashboard import access, texts
from presence_dashboard.access import ROLES, Actor, Denied, Right, SignedOut
from presence_dashboard.gate.config import Config
from presence_dashboard.gate.desk import COOKIE, open_desk
from tests.behind_gate import stand_behind_gate
from tests.conftest import Servers
from tests.fair_clock import PATIENT

ALL: tuple[Right, ...] = ("counts", "people", "kick", "bulk", "export", "audit_export", "repair", "staff")


@pytest.fixture
def presence(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Presence]:
    """The site's, with the environment of a dashboard beside it."""
    namespace = f"acc{os.getpid()}-{id(monkeypatch) % 10**9}"
    for name, value in (("REDIS_URL", servers.url("valkey")), ("NAMESPACE", namespace), ("TIMEOUT", "0.5")):
        monkeypatch.setenv(f"PRESENCE_{name}", value)
    stand_behind_gate(monkeypatch)
    st.cache_resource.clear()
    with Presence.from_url(servers.url("valkey"), Settings(namespace=namespace, timeout=PATIENT)) as made:
        yield made
    st.cache_resource.clear()


def denials(presence: Presence) -> list[tuple[str | None, str, str | None, str | None]]:
    return [(one.by, one.outcome, one.uid, one.reason) for one in presence.audit() if one.action == "denied"]


def test_each_role_may_what_the_one_before_it_may_and_more() -> None:
    rights = [{right for right in ALL if Actor("x", role).may(right)} for role in ROLES]
    assert rights[0] == {"counts"}
    assert rights[1] == {"counts", "people"}
    assert rights[2] == {"counts", "people", "kick", "bulk", "export"}
    assert rights[3] == set(ALL)


def test_masks_are_for_viewers_and_a_limit_for_support() -> None:
    config = Config.from_env({"PRESENCE_DASHBOARD_MASK": "name, ip", "PRESENCE_DASHBOARD_BULK": "25"})
    made = {role: config.actor("x", role) for role in ROLES}
    assert {role: set(actor.masked) for role, actor in made.items()} == {
        "stats": set(), "viewer": {"name", "ip"}, "support": set(), "admin": set(),
    }  # fmt: skip
    assert [made[role].bulk_limit for role in ROLES] == [0, 0, 25, None]


def test_open_on_this_machine_the_operator_may_everything_or_less(
    presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert access.current() == access.require("staff", what="staff") == Actor("local operator", "admin")
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    assert access.current().role == "viewer"
    with pytest.raises(Denied, match=r"^The role viewer may not do that\."):
        access.require("kick", what="kick", uid="ada")
    assert denials(presence) == [("local operator", "kick refused once", "ada", "role viewer")]


def test_an_action_asks_the_store_though_the_page_still_shows_the_old_role(
    presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ACCESS", "password")
    monkeypatch.setenv("PRESENCE_STAFF_FILE", "/nowhere")
    cookies: dict[str, str] = {}
    stand_behind_gate(monkeypatch, cookies)
    with pytest.raises(SignedOut, match=texts.NOT_SIGNED_IN):
        access.current()
    presence.set_staff("root", "admin", by="test")
    presence.set_staff("dana", "support", by="test")
    cookies[COOKIE] = open_desk().admit("dana", "192.0.2.1", "curl/8")
    assert access.current() == access.require("kick", what="kick") == Actor("dana", "support", frozenset(), 100)

    presence.set_staff("dana", "viewer", by="root")
    assert access.current().role in ("support", "viewer"), "a page may be a moment behind"
    with pytest.raises(Denied):
        access.require("kick", what="kick", uid="ada")
    assert access.current().role == "viewer"
    presence.remove_staff("dana", by="root")
    with pytest.raises(SignedOut, match="dana has no role"):
        access.require("people", what="search", uid="bob")
    assert sorted(denials(presence), key=str) == [
        ("dana", "kick refused once", "ada", "role viewer"),
        ("dana", "search refused once", "bob", "has no role"),
    ]
    presence.set_staff("dana", "support", by="root")
    [session] = open_desk().sessions.sessions("dana")
    open_desk().sessions.kick("dana", session.session_id, by="root", reason="stolen", message="Call the desk.")
    with pytest.raises(SignedOut, match=r"^You were signed out by staff\. Call the desk\.$"):
        access.require("kick", what="kick")


def test_an_act_keeps_somebody_signed_in_and_a_tick_does_not(
    presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ACCESS", "password")
    monkeypatch.setenv("PRESENCE_STAFF_FILE", "/nowhere")
    presence.set_staff("dana", "support", by="test")
    desk = open_desk()
    token = desk.admit("dana", None, None)
    stand_behind_gate(monkeypatch, {COOKIE: token})
    [begun] = desk.sessions.sessions("dana")
    access.current(touch=False)
    [after_tick] = desk.sessions.sessions("dana")
    assert after_tick.last_seen == begun.last_seen
    access.current(touch=True)
    [after_act] = desk.sessions.sessions("dana")
    assert after_act.last_seen > begun.last_seen


def test_without_redis_an_action_fails_and_a_page_that_nobody_knows_is_signed_out(
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
            access.require("kick", what="kick")
        with pytest.raises(SignedOut, match=r"^Redis is away"):
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
def test_a_name_is_what_the_provider_vouches_for(claims: dict[str, object], claim: str, name: str | None) -> None:
    config = Config(mode="oidc", name_claim=claim)
    if name is None:
        with pytest.raises(Denied):
            access.provider_name(claims, config)
    else:
        assert access.provider_name(claims, config) == name


def test_claims_lists_and_defaults_give_the_highest_first_role() -> None:
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


def test_a_sign_in_has_one_session_and_gets_too_old() -> None:
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
