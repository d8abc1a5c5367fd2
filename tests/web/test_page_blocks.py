"""The blocks of frameworks.md, move.md, logging.md and others run as they are printed, on a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import redis
from prometheus_client import REGISTRY
from starlette.testclient import TestClient

from presence_core import Presence, Settings
from presence_core.web.rules import State, hashed_id
from tests.support.fair_clock import PATIENT
from tests.support.place_file import write_place_file
from tests.support.programs.webhook_receiver import until
from tests.support.servers import Server, missing, redis_binary, valkey_binary
from tests.web.notices.mail_server import mail_server
from tests.web.your_devices.device_sites import KEY

DOCS = Path(__file__).parents[2] / "docs/use"


def blocks(page: str) -> dict[str, str]:
    """Name → block."""
    return dict(re.findall(r"^```python (\w+)\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.M | re.S))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path_factory.mktemp("blocks")) as running:
        yield running


@pytest.fixture
def presence(server: Server) -> Iterator[Presence]:
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as client:
        yield client
        client.kick("ada", by="test", reason="test")


def run(code: str, page: str, **names: Any) -> dict[str, Any]:
    known: dict[str, Any] = {"__name__": "mysite", **names}
    exec(compile(code, page, "exec"), known)
    return known


def test_every_block_of_these_pages_is_tested() -> None:
    pages = ("frameworks.md", "../run/logging.md", "odd_logins.md", "failed_sign_ins.md", "on_behalf.md",
             "moves.md", "sign_ins.md", "timeouts.md", "identity_provider.md")  # fmt: skip
    assert [set(blocks(page)) for page in pages] == [
        {"client", "asyncio"},
        {"traces"},
        {"device", "distant", "notices"},
        {"failed"},
        {"behalf"},
        {"moved"},
        {"previous"},
        {"kinds", "change", "bulk"},
        {"expiry", "link", "receive"},
    ]


# -- your own client --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", ["client", "asyncio"])
def test_a_client_of_the_site_is_used_and_not_closed(block: str, server: Server) -> None:
    run(blocks("frameworks.md")[block], "docs/use/frameworks.md", URL=server.url)
    with Presence.from_url(server.url, Settings("shop" if block == "client" else "online")) as presence:
        assert [session.uid for session in presence.sessions("ada")] == ["ada"]
        presence.kick("ada", by="test", reason="test")


@pytest.mark.parametrize("kind", ["plain", "blocking"])
def test_a_client_that_decodes_does_no_harm(kind: str, server: Server, presence: Presence) -> None:
    login = presence.login("ada", name="Ada Łovelace")
    client = redis.Redis.from_url(server.url, decode_responses=True)
    if kind == "blocking":
        options = {"decode_responses": True, "socket_timeout": 5, "socket_connect_timeout": 5, "max_connections": 3}
        client = redis.Redis(connection_pool=redis.BlockingConnectionPool.from_url(server.url, **options))
    with client, Presence(client) as theirs:
        assert theirs.validate(login.token)
        assert theirs.list_sessions().items[0].name == "Ada Łovelace"
        assert client.get("nothing") is None


# -- other origins ----------------------------------------------------------------------------------------------------


def test_a_page_of_another_origin_gets_its_preflight_and_reads_why_it_is_refused(
    server: Server, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
    site = run(blocks("frameworks/fastapi.md")["cors"], "docs/use/frameworks/fastapi.md")
    shop = {"Origin": "https://shop.example"}
    token = presence.login("ada").token
    with TestClient(site["app"]) as client:
        asks = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "authorization"}
        answer = client.options("/me", headers=shop | asks)
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, shop["Origin"])
        assert client.get("/me", headers=shop | {"Authorization": f"Bearer {token}"}).json() == {"uid": "ada"}
        presence.kick("ada", by="sam", reason="test", message="Please call us.")
        refused = client.get("/me", headers=shop | {"Authorization": f"Bearer {token}"})
        assert (refused.status_code, refused.json()["message"]) == (401, "Please call us.")
        assert refused.headers["Access-Control-Allow-Origin"] == shop["Origin"]
        assert (
            "Access-Control-Allow-Origin" not in client.get("/me", headers={"Origin": "https://evil.example"}).headers
        )
        assert client.portal is not None
        client.portal.call(site["presence"].close)


# -- traces -----------------------------------------------------------------------------------------------------------


def test_a_program_records_the_spans_of_its_client(server: Server) -> None:
    """In a process of its own: the provider is global, and can be set once."""
    environ = os.environ | {"PRESENCE_REDIS_URL": server.url, "PRESENCE_NAMESPACE": "traces"}
    command = [sys.executable, "-W", "error", "-c", blocks("../run/logging.md")["traces"]]
    done = subprocess.run(command, env=environ, cwd=DOCS.parents[1], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['login']\n", "")


# -- logins on a new device -------------------------------------------------------------------------------------------


def test_a_login_names_the_device_of_its_cookie_and_another_browser_is_new(
    presence: Presence, capsys: pytest.CaptureFixture[str]
) -> None:
    code, page = blocks("odd_logins.md")["device"], "docs/use/odd_logins.md"
    first = run(code, page, presence=presence, cookie_header="")
    kept = first["set_cookie"].partition(";")[0]
    assert first["set_cookie"].endswith("; Path=/; Max-Age=34560000; HttpOnly; Secure; SameSite=Lax")
    again = run(code, page, presence=presence, cookie_header=f"theme=dark; {kept}")
    assert again["set_cookie"] == first["set_cookie"]
    assert capsys.readouterr().out == ""
    run(code, page, presence=presence, cookie_header="__Host-presence-device=x; theme=dark")
    assert capsys.readouterr().out == "Write a mail to the user.\n"


def test_a_sender_mails_users_whose_address_the_site_names(presence: Presence) -> None:
    with mail_server() as mails:
        names: dict[str, Any] = {"KEY": KEY, "SMTP_URL": f"smtp://127.0.0.1:{mails.port}", "presence": presence}
        code = blocks("odd_logins.md")["notices"].replace("    ...", "    meanwhile()")

        def meanwhile() -> None:
            until(lambda: presence.notices().turn_at)
            for number in (1, 2):
                presence.login("u1019", device_id=f"device-of-the-block-{number}")
            until(lambda: mails.mails)

        names |= {"address_of": lambda uid: ("ada@mail.example", "de"), "meanwhile": meanwhile}
        run(code, "docs/use/odd_logins.md", **names)
    assert mails.mails[0]["Subject"] == "Waren Sie das? Anmeldung in Ihrem Konto bei Shop"


def test_a_site_reports_the_sign_ins_that_it_refuses(presence: Presence) -> None:
    presence.login("u1019")
    run(blocks("failed_sign_ins.md")["failed"], "docs/use/failed_sign_ins.md", presence=presence)
    assert [failure.why for failure in presence.failed_logins("u1019").items] == ["wrong_password"]
    assert [failure.name_kind for failure in presence.failed_logins("Kim@example.org").items] == ["email"]


def test_staff_log_in_on_behalf_of_a_user(presence: Presence) -> None:
    presence.kick("u1019", by="test", reason="test")
    login = run(blocks("on_behalf.md")["behalf"], "docs/use/on_behalf.md", presence=presence)["login"]
    assert login.session.on_behalf_by == "sam@support"
    assert not presence.is_online("u1019")


def test_a_session_that_has_moved_names_both_networks(presence: Presence, capsys: pytest.CaptureFixture[str]) -> None:
    token = presence.login("u1019", ip="192.0.2.7", user_agent="curl/8.7.1").token
    for address, user_agent in (("192.0.2.7", "curl/8.7.1"), ("203.0.113.7", "Wget/1.21")):
        run(blocks("moves.md")["moved"], "docs/use/moves.md", presence=presence, token=token, address=address,
            user_agent=user_agent)  # fmt: skip
    assert capsys.readouterr().out == "192.0.0.0/16, curl, then 203.0.0.0/16, Wget\n"


def test_a_login_far_from_the_last_one_names_both_places(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = str(write_place_file(tmp_path / "places.mmdb"))
    with Presence.from_url(server.url, Settings(timeout=PATIENT, namespace="places", place_file=places)) as presence:
        for address in ("192.0.2.7", "203.0.113.7"):
            run(blocks("odd_logins.md")["distant"], "docs/use/odd_logins.md", presence=presence, address=address)
    assert capsys.readouterr().out == "Lyon, FR, then Tokyo, JP\n"


def test_a_site_shows_the_last_login(presence: Presence, capsys: pytest.CaptureFixture[str]) -> None:
    presence.kick("u1019", by="test", reason="test")
    presence.login("u1019", device="phone")
    run(blocks("sign_ins.md")["previous"], "docs/use/sign_ins.md", presence=presence)
    assert re.fullmatch(r"Your last sign-in: \d\d \w+ \d\d:\d\d UTC on phone\n", capsys.readouterr().out)


def test_a_kind_of_account_has_timeouts_and_a_limit_and_staff_change_its_timeouts(presence: Presence) -> None:
    presence.kick("u1019", by="test", reason="test")
    for replaced in (0, 1):
        login = run(blocks("timeouts.md")["kinds"], "docs/use/timeouts.md", presence=presence)["login"]
        assert (login.session.idle_timeout, len(login.replaced)) == (900, replaced)
    [session] = run(blocks("timeouts.md")["change"], "docs/use/timeouts.md", presence=presence)["sessions"]
    assert (session.idle_timeout, session.absolute_timeout) == (300, 14_400)


def test_a_session_ends_with_that_of_the_identity_provider(presence: Presence) -> None:
    named = run(blocks("identity_provider.md")["expiry"], "docs/use/identity_provider.md", presence=presence)
    session = named["login"].session
    assert session.idp_expires_at.timestamp() == pytest.approx(named["claims"]["session_expiry"], abs=0.001)
    assert session.absolute_timeout in (599, 600)
    code = blocks("identity_provider.md")["link"]
    linked = run(code, "docs/use/identity_provider.md", presence=presence, claims=named["claims"])["login"]
    assert linked.session.idp == {name: named["claims"][name] for name in ("iss", "sub", "sid")}


def test_a_site_mounts_the_receiver_of_logouts(presence: Presence) -> None:
    site = run(blocks("identity_provider.md")["receive"], "docs/use/identity_provider.md", presence=presence)
    with TestClient(site["app"]) as client:
        assert client.post("/backchannel-logout", data={"logout_token": "x"}).status_code == 400


def test_staff_change_the_timeouts_of_all_that_match(presence: Presence, capsys: pytest.CaptureFixture[str]) -> None:
    presence.login("ada", device="kiosk")
    assert run(blocks("timeouts.md")["bulk"], "docs/use/timeouts.md", presence=presence)["change"].changed == 1
    assert capsys.readouterr().out == "1 1 0 0\n"


# -- roll out ---------------------------------------------------------------------------------------------------------


def test_the_tally_of_a_roll_out_is_counted_and_exported(
    server: Server, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
    block = blocks("move.md")["rollout"]
    before = set(REGISTRY._collector_to_names)
    try:
        site = run(block, "docs/use/move.md")
        visitor = {"X-User": "ada", "Cookie": "site=old-key"}
        with TestClient(site["app"]) as client:
            assert client.get("/", headers=visitor).status_code == 404, "no route, but not refused"
            presence.login("ada", session_id=hashed_id("old-key"))
            client.get("/", headers=visitor)
            presence.kick("ada", by="sam", reason="test")
            client.get("/", headers=visitor)
            exported = client.get("/metrics").text
            assert client.portal is not None
            client.portal.call(site["presence"].close)
        for state, number in {"unknown": 1, "live": 1, "ended": 1}.items():
            assert f'presence_requests_total{{state="{state}"}} {number}.0' in exported
        assert dict(site["tally"]) == {"unknown": 1, "live": 1, "ended": 1, "anonymous": 1}
    finally:
        for collector in set(REGISTRY._collector_to_names) - before:
            REGISTRY.unregister(collector)


def test_the_states_of_the_page_are_those_of_the_tally() -> None:
    section = (DOCS / "move.md").read_text("utf-8").partition("### The tally")[2].partition("\n## ")[0]
    rows = re.findall(r"^- .*(?:\n  .*)*", section, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`(?=[:,])", row)} == set(get_args(State))
