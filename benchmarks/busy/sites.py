"""Sites under wrk: FastAPI and Flask with several kinds of sessions in turn, and ``presence serve``."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

from benchmarks.busy.load import Redis, Say
from benchmarks.busy.service import address_of, program, service
from benchmarks.measure import Json
from benchmarks.peers.install import Missing, install, python_of
from benchmarks.web import processor_seconds
from tests.support.servers import free_port, wait_for

CONNECTIONS: Final = (64, 300, 1000)
SERVICE_CONNECTIONS: Final = (4, 64, 300)
VISITORS: Final = 500
WARM_UP: Final = 1.0
GUNICORN_THREADS: Final = 100

FASTAPI: Final = {
    "no session": "none",
    "our middleware": "ours",
    "one HGETALL": "hgetall",
    "starsessions": "starsessions",
}
FLASK: Final = {"no session": "none", "our middleware": "ours", "Flask-Session": "flask_session"}


@dataclass(frozen=True, slots=True)
class Site:
    """A running site, and the requests that its visitors send."""

    title: str
    url: str
    pid: int
    requests: Path


def fastapi(redis: Redis, rounds: int, seconds: float, say: Say) -> None:
    """requests/s of a FastAPI site on uvicorn with 64, 300 and 1,000 connections of wrk"""
    python = _python()

    @contextmanager
    def start(kind: str) -> Iterator[tuple[str, int]]:
        with program([python, "-m", "benchmarks.busy.apps.fastapi_site", kind, redis.url]) as running:
            yield address_of(running), running.pid

    with _sites(FASTAPI, start) as sites:
        _rounds("fastapi", redis, sites, CONNECTIONS, rounds, seconds, say)


def flask(redis: Redis, rounds: int, seconds: float, say: Say) -> None:
    """requests/s of a Flask site under gunicorn gthread with as many connections"""
    python = _python()

    @contextmanager
    def start(kind: str) -> Iterator[tuple[str, int]]:
        port = free_port()
        words = ["-m", "gunicorn", "--worker-class", "gthread", "--threads", str(GUNICORN_THREADS), "--log-level",
                 "critical", "--bind", f"127.0.0.1:{port}", "benchmarks.busy.apps.flask_site:app"]  # fmt: skip
        with program([python, *words], {"BUSY_SESSIONS": kind, "BUSY_REDIS_URL": redis.url}) as running:
            wait_for("a site that answers", lambda: _answers(port))
            yield f"http://127.0.0.1:{port}", _worker_of(running.pid)

    with _sites(FLASK, start) as sites:
        _rounds("flask", redis, sites, CONNECTIONS, rounds, seconds, say)


def serve(redis: Redis, rounds: int, seconds: float, say: Say) -> None:
    """validations/s of one presence serve process with 4, 64 and 300 connections of wrk"""
    _wrk()
    with ExitStack() as stack, TemporaryDirectory(prefix="busy-") as directory:
        address, key, pid = stack.enter_context(service(redis.url))
        bodies = [json.dumps({"token": login.token, "ip": "192.0.2.7"}) for login in redis.log_in(VISITORS)]
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        file = Path(directory) / "requests"
        _write(file, [_request("POST", "/v1/validate", address, headers, body) for body in bodies])
        _rounds("serve", redis, [Site("", address, pid, file)], SERVICE_CONNECTIONS, rounds, seconds, say)


def _wrk() -> str:
    found = shutil.which("wrk")
    if found is None:
        raise Missing("'wrk' was not found: install the package of this name (apt install wrk, brew install wrk).")
    return found


def _python() -> str:
    _wrk()
    install("web")
    return python_of("web")


@contextmanager
def _sites(kinds: Mapping[str, str], start: object) -> Iterator[list[Site]]:
    assert callable(start)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="busy-")))
        sites = []
        for title, kind in kinds.items():
            url, pid = stack.enter_context(start(kind))
            cookies = _sign_in(url, VISITORS)
            _write(directory / kind, [_request("GET", "/me", url, {"Cookie": cookie}) for cookie in cookies])
            sites.append(Site(title, url, pid, directory / kind))
        yield sites


def _sign_in(url: str, visitors: int) -> list[str]:
    """The cookies of new visitors; each was recognized once."""
    cookies = []
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    for number in range(visitors):
        uid = f"user-{number}"
        connection.request("POST", f"/sign-in?uid={uid}")
        answer = connection.getresponse()
        answer.read()
        cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        connection.request("GET", "/me", headers={"Cookie": cookie})
        body = connection.getresponse().read()
        if json.loads(body) != {"uid": uid}:
            raise RuntimeError(f"the site does not know its visitor: {body!r}")
        cookies.append(cookie)
    connection.close()
    return cookies


def _request(verb: str, path: str, url: str, headers: Mapping[str, str], body: str = "") -> bytes:
    lines = [f"{verb} {path} HTTP/1.1", f"Host: {urlsplit(url).netloc}", *(f"{k}: {v}" for k, v in headers.items())]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", body]).encode()


def _write(file: Path, requests: Sequence[bytes]) -> None:
    file.write_bytes(b"\0".join(requests))


def _rounds(
    work: str, redis: Redis, sites: Sequence[Site], connections: Sequence[int], rounds: int, seconds: float, say: Say
) -> None:
    for _ in range(rounds):
        for count in connections:
            for site in sites:
                case = f"{count:,} connections, {site.title}" if site.title else f"{count:,} connections"
                say(work, redis.case(case), _load(site, count, seconds))


def _load(site: Site, connections: int, seconds: float) -> Json:
    _run_wrk(site, connections, WARM_UP)
    spent = processor_seconds(site.pid)
    seen = _run_wrk(site, connections, seconds)
    spent = processor_seconds(site.pid) - spent
    good = seen["answers"] - seen["refused"]
    return {
        "rate": round(good / seen["seconds"], 1),
        "site_us": round(spent / max(1, seen["answers"]) * 1e6, 1) or None,  # None without /proc
        "p50_ms": seen["p50_ms"],
        "p99_ms": seen["p99_ms"],
        "errors": seen["refused"] + seen["broken"],
        "messages": {name: seen[name] for name in ("refused", "broken") if seen[name]},
    }


def _run_wrk(site: Site, connections: int, seconds: float) -> Json:
    options = ["--threads", "1", "--connections", str(connections), "--duration", f"{max(1, round(seconds))}s"]
    script = str(Path(__file__).parent / "visitors.lua")
    words = [_wrk(), *options, "--timeout", "10s", "--script", script, site.url, "--", str(site.requests)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=seconds + 60)
    figures: Json = json.loads(done.stdout.splitlines()[-1])
    time.sleep(0.2)  # until the site has seen that the connections are closed
    return figures


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except OSError:
        return False
    finally:
        connection.close()
    return True


def _worker_of(pid: int) -> int:
    """The only worker of a gunicorn that has answered; the process itself without /proc."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    except (OSError, IndexError):
        return pid
