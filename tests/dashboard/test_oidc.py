"""Staff sign in at an OpenID provider: the claim seeds the record, and from then on the record counts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from presence_dashboard import texts
from presence_dashboard.format import code
from presence_dashboard.format import name as in_bold
from tests.dashboard.oidc_team import OidcTeam, Visitor, oidc_team
from tests.support.servers import wait_for


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcTeam]:
    with oidc_team(tmp_path_factory.mktemp("oidc")) as team:
        yield team


@pytest.fixture
def team(running: OidcTeam) -> Iterator[OidcTeam]:
    running.begin()
    yield running
    running.server.command("FLUSHALL")


@pytest.fixture
def dana(team: OidcTeam) -> Iterator[Visitor]:
    """They have signed in, and have the role of their claim."""
    with Visitor(team.url) as visitor:
        assert texts.NOT_SIGNED_IN in visitor.read()
        assert signed_in_as(team, "support") in visitor.sign_in()
        yield visitor


def signed_in_as(team: OidcTeam, role: str) -> str:
    return texts.signed_in_as(in_bold(team.name), role)


def test_a_claim_seeds_the_record_and_then_only_the_record_counts(team: OidcTeam, dana: Visitor) -> None:
    member = team.presence.staff_member(team.name)
    assert member is not None
    assert (member.role, member.by) == ("support", "sign-in by OIDC")
    team.presence.set_staff(team.name, "viewer", by="test")
    assert code(texts.NOT_SIGNED_IN) in dana.press(texts.SIGN_OUT_BUTTON)
    assert signed_in_as(team, "viewer") in dana.sign_in()


def test_a_sign_in_that_was_ended_stays_ended_also_for_its_cookies(team: OidcTeam, dana: Visitor) -> None:
    kept = dana.cookies
    [session] = team.sessions.sessions(team.name)
    team.sessions.kick(team.name, session.session_id, by="root", reason="laptop stolen")
    refused = code(texts.signed_out_by_staff(None))
    wait_for("the refusal: an answer is cached for a second", lambda: refused in dana.read())
    assert code(texts.NOT_SIGNED_IN) in dana.press(texts.SIGN_IN_AGAIN)

    assert signed_in_as(team, "support") in dana.sign_in()
    assert code(texts.NOT_SIGNED_IN) in dana.press(texts.SIGN_OUT_BUTTON)
    assert team.sessions.sessions(team.name) == []
    with Visitor(team.url, kept) as thief:
        assert refused in thief.read()


@pytest.mark.parametrize(
    ("claims", "refusal"),
    [
        ({"email_verified": False}, texts.PROVIDER_NO_EMAIL),
        ({"iat": int(time.time()) - 50_000}, texts.PROVIDER_TOO_OLD),
        ({"email": "eve@example.com", "groups": "all"}, texts.no_role("eve@example.com")),
    ],
    ids=["email not verified", "too old", "no role"],
)
def test_an_email_that_is_not_verified_an_old_sign_in_and_no_role_are_refused(
    team: OidcTeam, claims: dict[str, Any], refusal: str
) -> None:
    team.claim(**claims)
    with Visitor(team.url) as visitor:
        assert code(refusal) in visitor.sign_in()
        assert code(texts.NOT_SIGNED_IN) in visitor.press(texts.SIGN_IN_AGAIN)
    denied = [entry for entry in team.presence.audit() if entry.action == "denied"]
    assert [entry.by for entry in denied] == (["eve@example.com"] if "email" in claims else [])
    assert team.presence.staff_member("eve@example.com") is None


def test_forged_frames_kick_no_one_and_a_kick_after_a_demotion_is_refused_and_logged(
    team: OidcTeam, dana: Visitor
) -> None:
    session = team.presence.login("visitor-7", name="Ada Lovelace").session
    with dana.open_page() as wire:
        kick = wire.kick()
        wire.ask(kick)
        confirm = (wire.fill(), {"id": wire.buttons()[texts.confirm(1)], "trigger_value": True})
        team.presence.set_staff(team.name, "viewer", by="root")
        wire.send_later(wire.wish(*confirm))
    with dana.open_page() as wire:
        wait_for("their lower role", lambda: not (wire.go().table() or {})["canKick"])
        for forged in ((kick,), confirm):
            wire.ask(*forged)
    assert team.presence.validate_session(session.uid, session.session_id, touch=False)
    denied = [entry.outcome for entry in team.presence.audit(by=team.name) if entry.action == "denied"]
    assert denied == ["kick refused once"], "the one that the page had offered"
