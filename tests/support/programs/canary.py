"""A whole site with known secrets: library, middleware, commands, a worker, the HTTP service and two dashboards.

They share one Redis and are all used, rightly and wrongly. Everything that they print or store is in ``places``.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import threading
import traceback
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch
from urllib.parse import quote

import httpx
import pytest

from presence_core import AsyncPresence, Login, Presence, SessionFilter, Settings, Worker, cli
from presence_core.models import plain
from presence_core.web.rules import Rules
from presence_dashboard.gate.staff_sessions import COOKIE
from tests.dashboard.wire import Wire, serve
from tests.support.facade import EventLoop
from tests.support.fair_clock import PATIENT
from tests.support.files import dashboard_files
from tests.support.monitor import Monitor
from tests.support.servers import Server, wait_for
from tests.web.frameworks.sites import asgi_site, wsgi_site
from tests.web.service.process import served

MARK = "quillfeather"
"""Not a secret: it is in every place, so that a place that was not really searched is noticed."""

PASSWORD = "correct canary battery 7f3a91"
REDIS_PASSWORD = "canary-of-redis-5d20c4"
COOKIE_SECRET = "canary-cookie-secret-" + "c41e" * 12
CLIENT_SECRET = "canary-client-secret-88b1"
PLANTED = "nobody.nothing." + "Wm9" * 14 + "Q"
"""Written into the data as raw bits, to be found there."""

OIDC = f"""[auth]
redirect_uri = "http://127.0.0.1:1/oauth2callback"
cookie_secret = "{COOKIE_SECRET}"
client_id = "dashboard"
client_secret = "{CLIENT_SECRET}"
server_metadata_url = "http://127.0.0.1:1/.well-known/openid-configuration"
"""

WAITS = b"events cannot be read"

PAGES = ("", "live", "sessions", "person", "blocks", "history", "report", "health", "staff", "handbook")


def forms(secret: str) -> set[bytes]:
    """A secret, and its possible encodings."""
    raw = [secret.encode()]
    last = secret.rpartition(".")[2]
    if "." in secret and re.fullmatch(r"[A-Za-z0-9_-]{43,44}", last):  # a token's own 256 bits
        bits = urlsafe_b64decode(last + "=" * (-len(last) % 4))[:32]
        raw += [last.encode(), bits, bits[:16], bits[16:]]
    shapes = {shape for secret in raw for shape in (secret, secret.hex().encode(), b64encode(secret).rstrip(b"="))}
    return shapes | {quote(secret).encode()}


@dataclass
class CanarySite:
    server: Server
    url: str
    directory: Path
    presence: Presence
    secrets: dict[str, str] = field(default_factory=dict)
    places: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def environ(self) -> dict[str, str]:
        return {"PRESENCE_REDIS_URL": self.url, "PRESENCE_STAFF_FILE": str(self.directory / "staff"),
                "PRESENCE_TIMEOUT": str(PATIENT)}  # fmt: skip

    def hear(self, place: str, said: object) -> None:
        """Add something that was printed or stored there."""
        raw = said if isinstance(said, bytes) else str(said).encode("utf-8", "backslashreplace")
        with self._lock:
            self.places[place] = self.places.get(place, b"") + raw + b"\n"

    def found(self) -> set[tuple[str, str]]:
        """The secrets found in each place, in any encoding."""
        return {
            (name, place)
            for name, secret in self.secrets.items()
            for place, said in self.places.items()
            if any(shape in said for shape in forms(secret))
        }

    def records(self, *records: object) -> None:
        for record in records:
            self.hear("reprs", f"{record!r} {record} {json.dumps(plain(record), default=str)}")

    def must_fail(self, call: Callable[[], object]) -> None:
        """The error as a log would show it: with its causes and the traceback."""
        try:
            call()
        except Exception as error:
            lines = traceback.format_exception(error)
            self.hear("tracebacks", f"{''.join(lines)} {error!r} {error} {error.args!r} {vars(error)!r}")
        else:
            pytest.fail("that was taken")

    def run(self, *words: str, typed: str = "", secret: bool = False) -> str:
        """A command; ``secret``: its output is the one place where the new secret is shown."""
        out, err = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, self.environ),
            patch("sys.stdin", io.StringIO(typed)),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            cli.main(words)
        self.hear("command", err.getvalue() + ("" if secret else out.getvalue()))
        return out.getvalue()


# -- what is done in this process -------------------------------------------------------------------------------------


def use_the_library(canary_site: CanarySite) -> None:
    p, loop = canary_site.presence, EventLoop()
    first = p.login(MARK, name=MARK, device=MARK, ip="192.0.2.1")
    old = p.login(MARK, session_id="own-session-1", aliases=[MARK])
    rotated = p.rotate(old.token)
    with Presence.from_url(canary_site.url, Settings(timeout=PATIENT, rotate_grace=30)) as tabs:
        first_tab, second_tab = tabs.rotate(rotated.token), tabs.rotate(rotated.token)
    many = [login for login in p.login_many([{"uid": "bob", "name": MARK}, {"uid": "eve"}]) if isinstance(login, Login)]
    canary_site.secrets |= {"token": first.token, "old token": old.token, "rotated token": rotated.token,
                      "token of a tab": first_tab.token, "token of a second tab": second_tab.token,
                      "one of many": many[0].token}  # fmt: skip
    canary_site.records(first, old, rotated, *many, p, p.settings)

    async def twin() -> None:
        a = AsyncPresence.from_url(canary_site.url, Settings(timeout=PATIENT))
        login = await a.login(MARK)
        canary_site.secrets["token of an async login"] = login.token
        canary_site.records(login, await a.validate(login.token), await a.validate(login.token + "x"), a)
        await a.close()

    loop.run(twin())
    loop.close()
    tokens = [secret for secret in canary_site.secrets.values() if secret.count(".") == 2]
    for secret in tokens:
        canary_site.records(
            p.validate(secret), p.validate(secret + "A"), p.validate(secret[:-2]), p.validate(secret.upper())
        )
        uid, sid, _ = secret.split(".")
        for bad in (secret + "A", f"{uid}.{sid}.", secret.replace(".", ":"), old.token):
            canary_site.must_fail(partial(p.rotate, bad))
        # In the wrong argument, none of which stores it:
        for wrong in (
            partial(p.heartbeat, MARK, secret), partial(p.logout, MARK, secret), partial(p.heartbeats, [secret]),
            partial(p.kick, MARK, secret, by="x", reason="x"), partial(p.events, after=secret), partial(p.job, secret),
            partial(p.list_sessions, cursor=secret), partial(p.audit, cursor=secret),
            partial(p.login, MARK, session_id=secret), partial(p.facets, secret),
            partial(p.ended, reason=cast(Any, secret)),
            partial(p.history, cast(Any, secret)), partial(SessionFilter, ip=secret),
            partial(Presence.from_url, secret), partial(Presence.from_url, canary_site.url.replace("redis", "http", 1)),
            partial(Presence.from_url, canary_site.url.replace("127.0.0.1", "127.0.0.1:x")),
            partial(Settings, namespace=secret), partial(Settings, on_limit=cast(Any, secret)),
        ):  # fmt: skip
            canary_site.must_fail(wrong)
        p.validate(first.token, ip=secret)  # no address, and logged without it
        p.login("mallory", ip=secret)
    p.block("eve", by=MARK, reason=MARK, message=MARK)
    canary_site.must_fail(lambda: p.login("eve"))
    p.kick("bob", by=MARK, reason=MARK, message=MARK)
    canary_site.records(p.validate(many[0].token), *p.events(), *p.audit(), *p.ended(), *p.sessions(MARK), p.counts())
    canary_site.records(p.list_sessions(), p.people(MARK), p.health(), p.export_person(MARK), p.staff())
    canary_site.hear("audit", json.dumps(plain(p.audit(limit=1000).items), default=str))
    with Worker(p, interval=0.05):
        p.sweep()


def use_the_middleware(canary_site: CanarySite, *secrets: str) -> None:
    loop = EventLoop()
    sites = [
        wsgi_site(canary_site.url, Settings(timeout=PATIENT), Rules(), None),
        asgi_site(canary_site.url, Settings(timeout=PATIENT), Rules(), None, loop),
    ]
    for site in sites:
        for secret in secrets:
            for headers in ({"authorization": f"Bearer {secret}"}, {"authorization": f"Basic {secret}"},
                            {"cookie": f"presence={secret}x; a={secret}"}):  # fmt: skip
                answer = site.ask("/", **headers)
                canary_site.hear("middleware", answer.body)
                canary_site.hear("middleware", [pair for pair in answer.headers if pair[0].lower() != "set-cookie"])
        canary_site.records(*site.seen)
        site.close()
    loop.close()


def use_the_command(canary_site: CanarySite) -> None:
    key = canary_site.run(
        "keys", "add", "desk", "--scope", "record", "--scope", "read", "--scope", "kick", "--json", secret=True
    )
    canary_site.secrets["API key"] = json.loads(key)["key"]
    made = canary_site.run("login", MARK, "--json", secret=True)
    canary_site.secrets["token of the command"] = json.loads(made)["token"]
    canary_site.run("staff", "add", MARK, "--role", "admin", "--password-stdin", typed=PASSWORD + "\n")
    canary_site.secrets["staff password"] = PASSWORD
    canary_site.hear("password file", (canary_site.directory / "staff").read_bytes())
    for words in (
        "list", "list --json", f"show {MARK}", "counts", "people quill", "ended", "audit", "blocks", "staff list",
        "keys list", "keys list --json", "doctor", "status", "facets device", f"export-person {MARK} --by x",
        "export --format csv", "export --format jsonl", f"logout {MARK} {canary_site.secrets['token']}",
        "keys remove none", f"list --ip {canary_site.secrets['token']}", "login eve", "sweep", "repair", "reindex",
    ):  # fmt: skip
        said = canary_site.run(*words.split())
        if words.startswith("export "):
            canary_site.hear("exports", said)


def use_the_exports(canary_site: CanarySite) -> None:
    for file in dashboard_files(canary_site.presence).values():
        canary_site.hear("exports of the dashboard", file)


# -- what is done by processes ----------------------------------------------------------------------------------------


def use_the_service(canary_site: CanarySite, url: str) -> None:
    key = canary_site.secrets["API key"]
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
        made = client.post("/v1/sessions", json={"uid": MARK, "name": MARK}).json()
        token = canary_site.secrets["token of the service"] = made["token"]
        stranger = httpx.Client(base_url=url, timeout=30)
        answers = [
            client.post("/v1/validate", json={"token": token}),
            client.post("/v1/validate", json={"token": [token], "key": key}),
            client.post("/v1/validate", content=f"{token} {key}", headers={"Content-Type": "application/json"}),
            client.post(f"/v1/validate?{token}={key}", json={token: 1}),
            client.get(f"/v1/users/{MARK}/sessions/{token}"),
            client.get("/v1/sessions", params={"cursor": token}),
            client.get("/v1/sessions", params={token: key}),
            client.get(f"/v1/{key}"),
            client.get("/v1/sessions"),
            client.get("/v1/ended"),
            client.get("/v1/audit"),
            client.get("/v1/people", params={"text": MARK}),
            client.post("/v1/kicks", json={"uid": MARK, "session_id": token, "reason": "x"}),
            client.request("DELETE", f"/v1/users/{MARK}/sessions/{made['session']['session_id']}"),
            client.get("/openapi.json"),
            stranger.get("/v1/counts", headers={"Authorization": f"Bearer {key}x"}),
            stranger.get("/v1/counts", headers={"Authorization": f"Basic {key}"}),
            stranger.get("/v1/counts", params={"key": key, "token": token}),
        ]
        for answer in answers:
            canary_site.hear("answers of the service", f"{answer.status_code} {answer.headers} {answer.text}")
        canary_site.hear("metrics", client.get("/metrics").text)
        stranger.close()


def sign_in(canary_site: CanarySite, url: str) -> str:
    """The cookie's value."""
    with httpx.Client(base_url=url, headers={"Origin": url}, timeout=30) as client:

        def send(name: str, password: str) -> httpx.Response:
            csrf = re.search(r'name="csrf" value="([^"]+)"', client.get("/sign-in").text)
            assert csrf
            return client.post("/sign-in", data={"csrf": csrf[1], "name": name, "password": password})

        for name, password in ((MARK, PASSWORD + "x"), (PASSWORD, PASSWORD), (MARK, PASSWORD[:-1])):
            refused = send(name, password)
            assert refused.status_code == 403
            canary_site.hear(
                "frames", re.sub(r'name="name"[^>]*', "", refused.text)
            )  # the name that they typed is their own
        answer = send(MARK, PASSWORD)
        canary_site.hear("frames", answer.text)
        return answer.cookies[COOKIE]


def use_the_dashboard(canary_site: CanarySite, url: str) -> None:
    cookie = canary_site.secrets["sign-in of staff"] = sign_in(canary_site, url)
    for page in PAGES:
        with Wire.open(url, f"{COOKIE}={cookie}") as wire:
            wire.go(page, f"q={MARK}&person={MARK}")
            canary_site.hear("frames", b"".join(wire.heard))
    with Wire.open(url, f"{COOKIE}={cookie}") as wire:
        wire.go("sessions")
        wire.ask(wire.kick())
        canary_site.hear("frames", b"".join(wire.heard))
    for bent in (cookie + "x", cookie[:-3] + "AAA", canary_site.secrets["token"]):
        with httpx.Client(base_url=url, timeout=30) as client:
            answer = client.get("/", headers={"Cookie": f"{COOKIE}={bent}", "Accept": "text/html"})
            canary_site.hear("frames", f"{answer.status_code} {answer.text}")


def use_the_other_dashboard(canary_site: CanarySite, url: str) -> None:
    """A dashboard with an OpenID provider that is down."""
    canary_site.secrets |= {"cookie secret": COOKIE_SECRET, "client secret": CLIENT_SECRET}
    with httpx.Client(base_url=url, timeout=30, headers={"Accept": "text/html"}) as client:
        for path in ("/", "/auth/login", "/oauth2callback?code=x&state=y", "/sign-in"):
            answer = client.get(path)
            canary_site.hear("frames", f"{answer.status_code} {answer.headers} {answer.text}")


# -- all of it ---------------------------------------------------------------------------------------------------------


def everything(server: Server, directory: Path) -> CanarySite:
    """``server`` writes an append-only file, without compression."""
    with server.client() as client:
        client.config_set("requirepass", REDIS_PASSWORD)
    url = server.url.replace("redis://", f"redis://:{REDIS_PASSWORD}@")
    with (
        _logged() as log,
        Presence.from_url(url, Settings(timeout=PATIENT)) as presence,
        contextlib.ExitStack() as stack,
    ):
        canary_site = CanarySite(server, url, directory, presence, {"password of Redis": REDIS_PASSWORD})
        raw = stack.enter_context(server.client(password=REDIS_PASSWORD))
        logging.getLogger("presence_core").warning("%s", MARK)
        with Monitor(raw) as monitor:
            raw.set("planted", urlsafe_b64decode(PLANTED[-43:] + "="))
            use_the_library(canary_site)
            use_the_middleware(canary_site, *canary_site.secrets.values())
            use_the_command(canary_site)
            use_the_exports(canary_site)
            urls, logs = _use_processes(canary_site, stack)
        for line in monitor.lines:
            canary_site.hear("MONITOR", b" ".join(line.words))
        _read_the_data(canary_site, raw)
        _while_redis_is_away(canary_site, urls, logs)
        stack.close()
        for name, path in logs.items():
            canary_site.hear(name, path.read_bytes())
        canary_site.hear("log of this process", log.getvalue())
        canary_site.hear("log of Redis", server.log.read_bytes())
    return canary_site


@contextlib.contextmanager
def _logged() -> Iterator[io.StringIO]:
    """Everything that this process logs, at every level; except what the tests' HTTP clients log of their own
    requests."""
    log, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(log), root.level
    quiet = [logging.getLogger(name) for name in ("httpx", "httpcore", "websockets")]
    before = [logger.level for logger in quiet]
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    for logger in quiet:
        logger.setLevel(logging.WARNING)
    try:
        yield log
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        for logger, old in zip(quiet, before, strict=True):
            logger.setLevel(old)


def _use_processes(canary_site: CanarySite, stack: contextlib.ExitStack) -> tuple[list[str], dict[str, Path]]:
    """Processes that run until the stack is closed. Returns their addresses and log files."""
    logs = {f"log of the {name}": canary_site.directory / name for name in ("service", "dashboard", "other dashboard")}
    secrets = canary_site.directory / "secrets.toml"
    secrets.write_text(OIDC)
    service, dashboard, other = logs.values()
    by_password = canary_site.environ | {"PRESENCE_DASHBOARD_ACCESS": "password"}
    by_oidc = canary_site.environ | {"PRESENCE_DASHBOARD_ACCESS": "oidc", "STREAMLIT_SECRETS_FILES": str(secrets),
                               "PRESENCE_OIDC_ADMINS": MARK}  # fmt: skip
    output = stack.enter_context(service.open("wb"))
    running = (served(canary_site.url, "online", stderr=output), serve(by_password, dashboard), serve(by_oidc, other))
    with ThreadPoolExecutor(3) as pool:
        urls = list(pool.map(stack.enter_context, running))
    for use, url in zip((use_the_service, use_the_dashboard, use_the_other_dashboard), urls, strict=True):
        use(canary_site, url)
    return urls, logs


def _read_the_data(canary_site: CanarySite, raw: Any) -> None:
    raw.execute_command("SAVE")
    for path in canary_site.server.directory.rglob("*"):
        if path.is_file() and path.suffix in (".rdb", ".aof"):
            canary_site.hear("RDB file" if path.name == "dump.rdb" else "append-only file", path.read_bytes())
    for key in raw.scan_iter(count=1000):
        canary_site.hear("keys and values", key + b" " + (raw.dump(key) or b""))


def _while_redis_is_away(canary_site: CanarySite, urls: list[str], logs: dict[str, Path]) -> None:
    p, token = canary_site.presence, canary_site.secrets["token"]
    service, dashboard, other = urls
    key = {"Authorization": f"Bearer {canary_site.secrets['API key']}"}
    cookie = {"Cookie": f"{COOKIE}={canary_site.secrets['sign-in of staff']}y", "Accept": "text/html"}
    with httpx.stream("GET", f"{service}/v1/events", headers=key):
        canary_site.server.kill()
        calls = (partial(p.validate, token), partial(p.rotate, token), partial(p.login, MARK), p.counts,
                 partial(Presence.from_url, canary_site.url + "?nonsense=1"))  # fmt: skip

        def use_the_service_once() -> None:
            answer = httpx.post(f"{service}/v1/validate", headers=key, json={"token": token}, timeout=30)
            canary_site.hear("answers of the service", answer.text)

        def open_a_dashboard(url: str) -> None:
            canary_site.hear("frames", httpx.get(url, headers=cookie, timeout=30).text)

        with ThreadPoolExecutor() as pool:  # each call tries for some time until it fails
            running = [pool.submit(canary_site.must_fail, call) for call in calls]
            running += [pool.submit(open_a_dashboard, url) for url in (dashboard, other)]
            running += [pool.submit(use_the_service_once), pool.submit(use_the_middleware, canary_site, token)]
            for future in running:
                future.result()
        for words in ("list", "keys list"):
            canary_site.run(*words.split())
        wait_for("a line in the log", lambda: WAITS in logs["log of the service"].read_bytes())
