"""How people get in, as the environment says it; and how long who guesses passwords has to wait."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from presence_core import InvalidArgument, Settings
from presence_dashboard.gate.config import Config, staff_environ
from presence_dashboard.gate.limits import Limits
from tests.servers import free_port

ROOT = Path(__file__).parent.parent

WRONG: list[tuple[dict[str, str], str]] = [
    ({"PRESENCE_DASHBOARD_ACCESS": "public"}, "PRESENCE_DASHBOARD_ACCESS must be one of open, password, proxy, oidc."),
    (
        {"PRESENCE_DASHBOARD_ACCESS": "password"},
        "PRESENCE_STAFF_FILE must name the password file: presence staff add writes it.",
    ),
    ({"PRESENCE_DASHBOARD_ACCESS": "proxy"}, "PRESENCE_PROXY_HEADER must name the header that says who somebody is."),
    (
        {"PRESENCE_DASHBOARD_ACCESS": "proxy", "PRESENCE_PROXY_HEADER": "X-User"},
        "PRESENCE_TRUSTED_PROXIES must name the proxies' addresses, such as 10.0.0.5.",
    ),
    ({"PRESENCE_TRUSTED_PROXIES": "everybody"}, "PRESENCE_TRUSTED_PROXIES must be addresses or networks"),
    ({"PRESENCE_ROLE_MAP": "ops:admin"}, "PRESENCE_ROLE_MAP must be like ops=admin,desk=support"),
    ({"PRESENCE_ROLE_MAP": "ops=emperor"}, "PRESENCE_ROLE_MAP must be like ops=admin,desk=support"),
    ({"PRESENCE_DEFAULT_ROLE": "none"}, "PRESENCE_DEFAULT_ROLE must be one of stats, viewer, support, admin."),
    ({"PRESENCE_DASHBOARD_ROLE": "root"}, "PRESENCE_DASHBOARD_ROLE must be one of"),
    ({"PRESENCE_DASHBOARD_MASK": "email"}, "PRESENCE_DASHBOARD_MASK must be name, ip or both"),
    ({"PRESENCE_DASHBOARD_BULK": "-1"}, "PRESENCE_DASHBOARD_BULK must be a whole number from 1 to 1000000."),
    ({"PRESENCE_STAFF_IDLE": "9000", "PRESENCE_STAFF_ABSOLUTE": "60"}, "PRESENCE_STAFF_IDLE must be at most"),
    (
        {"PRESENCE_DASHBOARD_ACCESS": "oidc", "PRESENCE_NAMESPACE": "n" * 27},
        "PRESENCE_NAMESPACE must be at most 26 characters",
    ),
]


@pytest.mark.parametrize(("environ", "sentence"), WRONG)
def test_settings_that_make_no_sense_are_one_sentence(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Config.from_env(environ)
    assert str(refused.value).startswith(sentence)


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


def test_the_sites_own_limits_do_not_reach_the_sign_ins_of_staff() -> None:
    given = {"PRESENCE_REDIS_URL": "redis://r", "PRESENCE_MAX_SESSIONS": "1", "PRESENCE_KEEP_LOGOUT": "0", "PATH": "/"}
    settings = Settings.from_env(staff_environ(given, Config(absolute=86_400 * 3)))
    assert settings.namespace == "online-staff"
    assert settings.max_sessions == 1000
    assert settings.keep_logout > settings.absolute_timeout


def test_waits_double_end_and_are_short_by_name() -> None:
    now = 0.0
    limits = Limits(lambda: now)
    assert [limits.begin("192.0.2.1", f"n{guess}") for guess in range(5)] == [0] * 5
    assert limits.begin("192.0.2.1", "n") == 2
    now = 2.0
    assert limits.begin("192.0.2.1", "n") == 0
    assert limits.begin("192.0.2.1", "n") == 4
    for _ in range(30):
        now += 900
        limits.begin("192.0.2.1", "n")
    assert limits.begin("192.0.2.1", "n") == 0, "what is long ago is forgotten"
    for guess in range(40):
        now += 30
        assert limits.begin(f"2001:db8:{guess:x}::1", "root") == 0, "nobody is locked out by others for long"
    assert [limits.begin(f"2001:db8:ff::{guess:x}", f"m{guess}") > 0 for guess in range(6)] == [False] * 5 + [True]
    limits.succeeded("2001:db8:ff::1", "m")
    assert limits.begin("2001:db8:ff::1", "m") == 0
