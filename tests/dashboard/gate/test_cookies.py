"""Every cookie of the dashboard, Streamlit's own included, is Secure on a public host: in each mode with a sign-in."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.dashboard.gate.conftest import TeamInMode, team_in_mode

PUBLIC = "online.example.com"


@pytest.fixture(scope="module", params=["password", "proxy", "oidc"])
def team(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TeamInMode]:
    hosts = f"{PUBLIC} 127.0.0.1 localhost"
    with team_in_mode(
        request.param, tmp_path_factory.mktemp(request.param), STREAMLIT_SERVER_ALLOWED_HOSTS=hosts
    ) as made:
        yield made


def cookies(team: TeamInMode, host: str) -> dict[str, list[str]]:
    """Name → attributes in lower case, of all cookies that these requests set."""
    headers = team.headers("dana@example.com", "support") | {"Host": host}
    found: dict[str, list[str]] = {}
    for path, more in (
        ("/", {"Accept": "text/html"}),
        ("/_stcore/health", {}),
        ("/sign-in", {}),
        ("/sign-out", {}),
        ("/auth/login", {}),
        ("/auth/logout", {}),
        ("/oauth2callback", {}),
        (f"/sign-in-again?next=/&member={'x' * 22}", {}),
    ):
        for given in (headers, {name: value for name, value in headers.items() if name != "Cookie"}):
            answer = httpx.get(f"{team.url}{path}", headers=given | more)
            for line in answer.headers.get_list("set-cookie"):
                name, _, attributes = line.partition("=")
                found[name] = [part.strip().lower() for part in attributes.split(";")[1:]]
    return found


def test_every_cookie_is_secure_on_a_public_host(team: TeamInMode) -> None:
    found = cookies(team, PUBLIC)
    assert "_streamlit_xsrf" in found
    assert found.keys() & {"presence_csrf", "presence_staff", "presence_again"}
    assert [name for name, attributes in found.items() if attributes.count("secure") != 1] == []


def test_on_this_machine_cookies_come_by_http(team: TeamInMode) -> None:
    found = cookies(team, team.url.partition("://")[2])
    assert "_streamlit_xsrf" in found
    assert [name for name, attributes in found.items() if "secure" in attributes] == []
