"""A real dashboard in each mode of sign-in, and the staff of it without a browser. Starting one takes seconds, so files
share them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from presence_core import Presence, Settings, StaffRole
from presence_core.files.password_file import PasswordFile
from presence_dashboard.gate.staff_sessions import COOKIE, PASSWORD
from presence_dashboard.gate_settings import Mode
from tests.dashboard.gate.oidc_team import OidcTeam, Visitor, oidc_team
from tests.dashboard.wire import Wire, serve
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, missing, redis_binary, valkey_binary

MODES: Final[tuple[Mode, ...]] = ("open", "password", "proxy", "oidc")
SECRET: Final = "correct horse battery"


@dataclass(frozen=True)
class TeamInMode:
    mode: Mode
    url: str
    presence: Presence
    sessions: Presence  #: where sign-ins are sessions
    passwords: PasswordFile
    log: Path
    oidc: OidcTeam | None = None

    def headers(self, name: str, role: StaffRole) -> dict[str, str]:
        """What the browser of a member with this role sends. In mode open, everyone is the operator."""
        if self.mode == "open":
            return {}
        self.presence.set_staff(name, role, by="test")
        if self.oidc is not None:
            self.oidc.claim(email=name)
            with Visitor(self.url) as visitor:
                visitor.sign_in()
                return {"Cookie": "; ".join(f"{cookie}={value}" for cookie, value in visitor.cookies.items())}
        if self.mode == "proxy":
            said = {"X-Forwarded-Email": name}
            answer = httpx.get(self.url, headers=said | {"Accept": "text/html"})
            return said | {"Cookie": f"{COOKIE}={answer.cookies[COOKIE]}"}
        stored = self.passwords.set(name, SECRET)
        login = self.sessions.login(name, app="dashboard", attributes={PASSWORD: stored.version})
        return {"Cookie": f"{COOKIE}={login.token}"}

    @contextmanager
    def page(self, headers: dict[str, str]) -> Iterator[Wire]:
        """An open page of that browser."""
        others = {name: value for name, value in headers.items() if name != "Cookie"}
        cookies = headers.get("Cookie", "")
        xsrf = cookies.partition("_streamlit_xsrf=")[2].partition(";")[0]
        with Wire.open(self.url, cookies, xsrf=xsrf, **others) as wire:
            yield wire


@contextmanager
def team_in_mode(mode: Mode, directory: Path, **environ: str) -> Iterator[TeamInMode]:
    """A dashboard in this mode, on a server of its own."""
    passwords = PasswordFile(directory / "staff")
    passwords.path.touch(0o600)  # a password file that is not there is refused
    with ExitStack() as stack:
        if mode == "oidc":
            oidc = stack.enter_context(oidc_team(directory, **environ))
            yield TeamInMode(mode, oidc.url, oidc.presence, oidc.sessions, passwords, directory / "log", oidc)
            return
        binary = valkey_binary() or redis_binary() or missing("any Redis server")
        server = stack.enter_context(Server.start(binary, directory / "redis"))
        given: dict[str, Any] = {
            "PRESENCE_REDIS_URL": server.url,
            "PRESENCE_DASHBOARD_ACCESS": mode,
            "PRESENCE_STAFF_FILE": str(passwords.path),
            "PRESENCE_PROXY_HEADER": "X-Forwarded-Email",
            "PRESENCE_PROXY_ROLE_HEADER": "X-Forwarded-Groups",
            "PRESENCE_ROLE_MAP": "desk=support,ops=admin",
            "PRESENCE_TRUSTED_PROXIES": "127.0.0.0/8" if mode == "proxy" else "",
        }
        url = stack.enter_context(serve(given | environ, directory / "log"))
        presence = stack.enter_context(Presence.from_url(server.url, Settings(timeout=PATIENT)))
        staff = Settings(namespace=f"{presence.settings.namespace}-staff", timeout=PATIENT)
        sessions = stack.enter_context(Presence.from_url(server.url, staff))
        yield TeamInMode(mode, url, presence, sessions, passwords, directory / "log")


@pytest.fixture(scope="session", params=MODES)
def team(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TeamInMode]:
    """The dashboard in this mode. A file that takes it is marked ``xdist_group("gate")``."""
    with team_in_mode(request.param, tmp_path_factory.mktemp(request.param)) as made:
        yield made


@pytest.fixture(scope="session")
def everyone(team: TeamInMode) -> list[dict[str, str]]:
    """The headers of a member of each role, and in mode oidc of a stranger, who gets a page too."""
    roles: tuple[StaffRole, ...] = ("stats", "admin")
    strangers = [stranger(team)] if team.mode == "oidc" else []
    return strangers + [team.headers(f"{role}@example.com", role) for role in roles]


def stranger(team: TeamInMode) -> dict[str, str]:
    return {"Cookie": f"_streamlit_xsrf={httpx.get(f'{team.url}/_stcore/health').cookies['_streamlit_xsrf']}"}
