"""The settings of the gate from the environment; and the waiting time after wrong passwords."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from presence_core import InvalidArgument, Settings
from presence_dashboard import ticket_links
from presence_dashboard.gate.limits import sign_in_limits
from presence_dashboard.gate.limits.sign_in_limits import SignInLimits
from presence_dashboard.gate_settings import Config, staff_environ
from tests.support.servers import free_port

ROOT = Path(__file__).parents[2]

WRONG: list[tuple[dict[str, str], str]] = [
    ({"PRESENCE_DASHBOARD_ACCESS": "public"}, "PRESENCE_DASHBOARD_ACCESS must be one of open, password, proxy, oidc."),
    (
        {"PRESENCE_DASHBOARD_ACCESS": "password"},
        "PRESENCE_STAFF_FILE must name the password file: presence staff add writes it.",
    ),
    ({"PRESENCE_DASHBOARD_ACCESS": "proxy"}, "PRESENCE_PROXY_HEADER must name the header that has the staff name."),
    (
        {"PRESENCE_DASHBOARD_ACCESS": "proxy", "PRESENCE_PROXY_HEADER": "X-User"},
        "PRESENCE_TRUSTED_PROXIES must list the addresses of the proxies, such as 10.0.0.5.",
    ),
    ({"PRESENCE_TRUSTED_PROXIES": "everybody"}, "PRESENCE_TRUSTED_PROXIES must be addresses or networks"),
    ({"PRESENCE_ROLE_MAP": "ops:admin"}, "PRESENCE_ROLE_MAP must look like ops=admin,helpdesk=support"),
    ({"PRESENCE_ROLE_MAP": "ops=emperor"}, "PRESENCE_ROLE_MAP must look like ops=admin,helpdesk=support"),
    ({"PRESENCE_DEFAULT_ROLE": "none"}, "PRESENCE_DEFAULT_ROLE must be one of stats, viewer, support, admin."),
    ({"PRESENCE_DASHBOARD_ROLE": "root"}, "PRESENCE_DASHBOARD_ROLE must be one of"),
    ({"PRESENCE_DASHBOARD_LANGUAGE": "nl"}, "PRESENCE_DASHBOARD_LANGUAGE must be one of en, de, es, fr, ja, zh_Hans"),
    ({"PRESENCE_DASHBOARD_MASK": "email"}, "PRESENCE_DASHBOARD_MASK must be name, ip or both"),
    ({"PRESENCE_DASHBOARD_BULK": "-1"}, "PRESENCE_DASHBOARD_BULK must be a whole number from 1 to 1000000."),
    (
        {"PRESENCE_DASHBOARD_FOUR_EYES": "50"},
        "PRESENCE_DASHBOARD_FOUR_EYES must be unset, or set PRESENCE_DASHBOARD_ACCESS: without a sign-in there is no",
    ),
    (
        {"PRESENCE_DASHBOARD_FOUR_EYES": "-1"},
        "PRESENCE_DASHBOARD_FOUR_EYES must be a whole number from 0 to 1000000.",
    ),
    ({"PRESENCE_DASHBOARD_LAPSE": "59"}, "PRESENCE_DASHBOARD_LAPSE must be a whole number from 60 to 604800."),
    ({"PRESENCE_STAFF_FRESH": "-1"}, "PRESENCE_STAFF_FRESH must be a whole number from 0 to 2592000."),
    ({"PRESENCE_STAFF_FRESH": "15 min"}, "PRESENCE_STAFF_FRESH must be a whole number from 0 to 2592000."),
    (
        {"PRESENCE_DASHBOARD_ACCESS": "proxy", "PRESENCE_STAFF_FRESH": "900"},
        "PRESENCE_STAFF_FRESH must be 0 or unset in mode proxy: let the proxy ask for a new sign-in.",
    ),
    ({"PRESENCE_STAFF_IDLE": "9000", "PRESENCE_STAFF_ABSOLUTE": "60"}, "PRESENCE_STAFF_IDLE must be at most"),
    *(
        ({"PRESENCE_TICKET_URL": wrong}, "PRESENCE_TICKET_URL must be an http or https address with {ticket} after its")
        for wrong in (
            "javascript:alert({ticket})",
            "https://t.example",
            "https://{ticket}.example/",
            "https:///{ticket}",
            "//t.example/{ticket}",
            "https://t.example/{ticket} x",
            "https://t.example/<{ticket}>",
            "https://[/{ticket}",
            "https://sam@t.example/{ticket}",
            f"https://t.example/{'x' * 1_000}{{ticket}}",
        )
    ),
    (
        {"PRESENCE_DASHBOARD_ACCESS": "oidc", "PRESENCE_NAMESPACE": "n" * 27},
        "PRESENCE_NAMESPACE must be at most 26 characters",
    ),
]


@pytest.mark.parametrize(
    ("ticket", "address"),
    [
        ("FR-1", "https://t.example/browse/%28FR-1%29?x=FR-1"),
        ("a/b?c#d", "https://t.example/browse/%28a%2Fb%3Fc%23d%29?x=a%2Fb%3Fc%23d"),
        ("é)](x", "https://t.example/browse/%28%C3%A9%29%5D%28x%29?x=%C3%A9%29%5D%28x"),
        ("..", None),
        (" ", None),
        (None, None),
    ],
)
def test_a_ticket_is_quoted_in_its_address(
    ticket: str | None, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ticket_links.address(ticket) is None
    monkeypatch.setenv("PRESENCE_TICKET_URL", "https://t.example/browse/({ticket})?x={ticket}")
    assert ticket_links.address(ticket) == address
    assert ticket is None or address is None or ticket_links.markdown(ticket).endswith(f"]({address})")


@pytest.mark.parametrize(
    ("text", "ticket", "address"),
    [
        ("https://t.example/browse/FR-1", "FR-1", "https://t.example/browse/FR-1"),
        (" HTTPS://T.example/browse/FR%2F1/?focus=2#c ", "FR/1", "https://t.example/browse/FR%2F1"),
        ("https://t.example/projects/FR", "https://t.example/projects/FR", None),
        ("javascript://t.example/%0Aalert(1)", "javascript://t.example/%0Aalert(1)", None),
    ],
)
def test_a_pasted_address_is_the_ticket_in_it_and_another_is_no_link(
    text: str, ticket: str, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ticket_links.ticket_of(text) == text.strip()
    monkeypatch.setenv("PRESENCE_TICKET_URL", "https://t.example/browse/{ticket}")
    assert (ticket_links.ticket_of(text), ticket_links.address(text)) == (ticket, address)


@pytest.mark.parametrize(("environ", "sentence"), WRONG)
def test_invalid_settings_are_reported_in_one_sentence(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Config.from_env(environ)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("mode", "given", "max_age"),
    [
        ("password", None, 900),
        ("password", "60", 60),
        ("password", "0", None),
        ("oidc", None, 900),
        ("open", "60", None),
        ("proxy", None, None),
        ("proxy", "0", None),
    ],
)
def test_staff_are_asked_again_where_the_dashboard_can_check_it(
    mode: str, given: str | None, max_age: int | None
) -> None:
    environ = {
        "PRESENCE_DASHBOARD_ACCESS": mode,
        "PRESENCE_STAFF_FILE": "/etc/presence/staff",
        "PRESENCE_PROXY_HEADER": "X-User",
        "PRESENCE_TRUSTED_PROXIES": "10.0.0.5",
    }
    assert Config.from_env(environ | ({"PRESENCE_STAFF_FRESH": given} if given else {})).max_age == max_age


def test_a_dashboard_with_such_settings_does_not_start() -> None:
    command = [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.port", str(free_port())]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PRESENCE_REDIS_URL": "redis://127.0.0.1:1", "PRESENCE_DASHBOARD_ACCESS": "password"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode != 0
    assert "PRESENCE_STAFF_FILE must name the password file" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_sites_own_limits_do_not_affect_the_sign_ins_of_staff() -> None:
    given = {"PRESENCE_REDIS_URL": "redis://r", "PRESENCE_MAX_SESSIONS": "1", "PRESENCE_KEEP_LOGOUT": "0", "PATH": "/"}
    settings = Settings.from_env(staff_environ(given, Config(absolute=86_400 * 3)))
    assert settings.namespace == "online-staff"
    assert settings.max_sessions == 1000
    assert settings.keep_logout > settings.absolute_timeout


def test_staff_sign_in_on_the_redis_of_the_site() -> None:
    """Also where only REDIS_URL names it: their namespace is new there at first."""
    site = {"REDIS_URL": "redis://site"}
    assert staff_environ(site, Config())["PRESENCE_REDIS_URL"] == "redis://site"
    assert staff_environ(site | {"PRESENCE_REDIS_URL": "redis://own"}, Config())["PRESENCE_REDIS_URL"] == "redis://own"


def test_staff_sign_in_on_the_redis_that_a_file_names(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("redis://:secret@filed\n")
    found = staff_environ({"PRESENCE_REDIS_URL_FILE": str(file), "REDIS_URL": "redis://cache"}, Config())
    assert found["PRESENCE_REDIS_URL"] == "redis://:secret@filed"
    assert "PRESENCE_REDIS_URL_FILE" not in found


def test_guesses_are_limited_by_address_and_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    limits = SignInLimits()
    assert [limits.begin("192.0.2.1", f"name{guess}") for guess in range(5)] == [0] * 5
    assert limits.begin("192.0.2.1", "dana") == 60
    assert limits.begin("192.0.2.2", "dana") == 0, "another address is not limited"
    now += 30
    assert limits.begin("192.0.2.1", "dana") == 30, "a refused attempt does not extend the wait"
    admitted = 0
    for guess in range(23 * 60):
        now += 60
        admitted += limits.begin("192.0.2.1", f"n{guess}") == 0
    assert admitted == 95, "100 a day"
    for guess in range(40):
        now += 31
        assert limits.begin(f"2001:db8:{guess:x}::1", "root") == 0, "strangers lock no colleague out for long"


def test_an_ipv6_customer_is_one_address_and_a_success_resets_the_count() -> None:
    limits = SignInLimits()
    waits = [limits.begin(f"2001:db8:ff::{guess:x}", f"name{guess}") for guess in range(6)]
    assert [wait > 0 for wait in waits] == [False] * 5 + [True]
    limits.succeeded("2001:db8:ff::1", "name1")
    assert limits.begin("2001:db8:ff::1", "name1") == 0
    assert limits.begin("2001:db8:ff::1", "name1") > 0, "the four others still count"


def test_a_success_clears_no_guess_at_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    limits, admitted = SignInLimits(), 0
    for _ in range(200):
        now += 15
        admitted += sum(limits.begin("192.0.2.1", f"other{guess}") == 0 for guess in range(4))
        if limits.begin("192.0.2.1", "own") == 0:
            limits.succeeded("192.0.2.1", "own")
    assert admitted <= 20, "20 an hour"


def test_the_count_of_guesses_takes_no_more_memory_with_each_address_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in_limits, "_MOST", 50)
    limits = SignInLimits()
    for guess in range(500):
        assert limits.begin(f"2001:db8:{guess:x}::1", f"{guess}-" + "x" * 60_000) == 0
    assert (len(limits._of_addresses), len(limits._of_names)) == (50, 50)
    assert max(map(len, limits._of_names)) <= 128
