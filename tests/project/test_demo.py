"""The demo, on a real server: its pages, its simulated visitors, and how all of it starts and ends."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from presence_core import AsyncPresence, Login, Presence, Session, Settings
from presence_dashboard.demo import people, visitors
from presence_dashboard.demo.history import write_history
from presence_dashboard.demo.launch import DEMO_SETTINGS
from presence_dashboard.demo.site import running
from tests.support.fair_clock import PATIENT
from tests.support.servers import HOST, KEEPS_ALL, Server, free_port, missing, redis_binary, valkey_binary, wait_for
from tests.web.your_devices.device_sites import forms_of

ROOT = Path(__file__).parents[2]
HOSTILE = "<script>alert(1)</script>\"'&"


# -- Helpers -----------------------------------------------------------------------------------------------------------


@dataclass
class Page:
    status: int
    headers: http.client.HTTPMessage
    text: str


class Browser:
    """One browser, with the site's cookie."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.origin = f"http://{HOST}:{port}"
        self.cookie = ""

    def get(self, path: str = "/", **headers: str) -> Page:
        return self._send("GET", path, headers)

    def post(self, path: str, form: Mapping[str, str], **headers: str) -> Page:
        headers = {"Origin": self.origin, "Content-Type": "application/x-www-form-urlencoded", **headers}
        return self._send("POST", path, {name: value for name, value in headers.items() if value}, urlencode(form))

    def sign_in(self, uid: str, device: str = "", **headers: str) -> Page:
        return self.post("/sign-in", {"uid": uid, "device": device}, **headers)

    def _send(self, method: str, path: str, headers: Mapping[str, str], body: str | None = None) -> Page:
        cookie = {"Cookie": f"paperboat={self.cookie}"} if self.cookie else {}
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        try:
            connection.request(method, path, body, {**cookie, **{n.replace("_", "-"): v for n, v in headers.items()}})
            answer = connection.getresponse()
            page = Page(answer.status, answer.headers, answer.read().decode())
        finally:
            connection.close()
        if set_cookie := page.headers.get("Set-Cookie"):
            self.cookie = set_cookie.partition(";")[0].partition("=")[2].strip('"')
        return page


@dataclass
class Site:
    server: Server
    presence: Presence
    port: int
    data: Path = Path()
    _next: int = 0

    def browser(self) -> Browser:
        return Browser(self.port)

    def new_member(self) -> people.Member:
        """A member that no other test uses."""
        self._next += 1
        return people.MEMBERS[-self._next]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("site")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    port = free_port()
    with (
        Server.start(binary, directory / "redis", *KEEPS_ALL) as server,
        Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence,
        running(
            {"PRESENCE_REDIS_URL": server.url, "PRESENCE_TIMEOUT": str(PATIENT), "PRESENCE_DATA_DIR": str(directory)},
            port,
            0,
        ),
    ):
        wait_for("the site", lambda: Browser(port).get("/sign-in").status == 200)
        yield Site(server, presence, port, directory)


# -- The site ----------------------------------------------------------------------------------------------------------


def test_signing_in_shows_the_user_and_marks_this_device(site: Site) -> None:
    member, browser = site.new_member(), site.browser()
    site.presence.login(member.uid, device="Toaster", app="kitchen", ip="2001:db8::7")
    assert browser.get().headers["Location"] == "/sign-in"
    assert browser.sign_in(member.uid, device="iPad").status == 303
    page = browser.get()
    assert page.status == 200
    assert escape(member.name) in page.text
    assert "signed in on 2 devices" in page.text
    devices = browser.get("/devices/")
    assert devices.status == 200
    assert re.findall(r"<bdi>(.*?)</bdi>", devices.text) == ["iPad", "Toaster"]


def test_the_form_refuses_unknown_users(site: Site) -> None:
    browser = site.browser()
    assert "needs no password" in browser.get("/sign-in").text
    page = browser.sign_in(HOSTILE)
    assert page.status == 400
    assert "<script" not in page.text
    assert not browser.cookie


def test_no_script_can_read_the_cookie_and_no_other_site_send_it(site: Site) -> None:
    browser = site.browser()
    cookie = browser.sign_in(site.new_member().uid).headers["Set-Cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "default-src 'none'" in browser.get().headers["Content-Security-Policy"]


def test_a_kicked_visitors_next_click_shows_the_public_message(site: Site) -> None:
    member, browser = site.new_member(), site.browser()
    browser.sign_in(member.uid)
    assert browser.get().status == 200
    site.presence.kick(member.uid, by="op-7", reason="looks <odd>", message="Please call & ask for Kim.", ticket="T-1")
    for page in (browser.get(), browser.get(), browser.post("/sign-out", {})):
        assert page.status == 403
        assert "You have been signed out" in page.text
        assert "Please call &amp; ask for Kim." in page.text
        assert 'href="/sign-in"' in page.text
        assert not any(secret in page.text for secret in ("op-7", "odd", "T-1"))
    assert browser.sign_in(member.uid).status == 303
    assert browser.get().status == 200


def test_a_blocked_visitor_sees_the_end_of_the_block_on_both_pages(site: Site) -> None:
    member, browser = site.new_member(), site.browser()
    browser.sign_in(member.uid)
    block = site.presence.kick(member.uid, by="op-7", reason="odd", message="Please call.", block_for=3600).block
    assert block is not None
    page = browser.get()
    assert block.public.sentence in page.text
    refused = browser.sign_in(member.uid)
    assert refused.status == 403
    assert f"Please call. {block.public.sentence}" in refused.text
    assert "op-7" not in page.text + refused.text


def test_a_device_can_sign_out_another_device_of_the_same_user_only(site: Site) -> None:
    member, other = site.new_member(), site.new_member()
    laptop, phone, stranger = site.browser(), site.browser(), site.browser()
    laptop.sign_in(member.uid, device="Mac")
    phone.sign_in(member.uid, device="iPhone")
    stranger.sign_in(other.uid)
    on_phone = forms_of(laptop.get("/devices/").text)[1]
    own = forms_of(stranger.get("/devices/").text)[0]
    assert stranger.post("/devices/", own | {"device": on_phone["device"]}).status == 404
    assert stranger.post("/devices/", on_phone).status == 403
    assert phone.get().status == 200
    assert laptop.post("/devices/", on_phone).status == 303
    page = phone.get("/devices/")
    assert page.status == 401
    assert "This device is signed out" in page.text
    assert laptop.post("/sign-out", {}).headers["Location"] == "/sign-in"
    assert site.presence.sessions(member.uid) == []


def test_a_login_on_another_device_is_mailed_and_not_me_signs_that_device_out(site: Site) -> None:
    member, mac, phone = site.new_member(), site.browser(), site.browser()
    assert "None yet" in mac.sign_in(member.uid, device="Mac").text + mac.get("/mails").text
    phone.sign_in(member.uid, device="iPhone")
    wait_for("the mail", lambda: "Check this sign-in" in mac.get("/mails").text)
    page = mac.get("/mails").text
    address = next(alias for alias in member.aliases if "@" in alias)
    assert escape(address) in page
    link = re.findall(r'href="http://[^/]*(/devices/notice[^"]*)"', page)[0]
    assert "<bdi>iPhone</bdi>" in site.browser().get(link).text, "it needs no sign-in"
    assert site.browser().post(link, {"answer": "not-me"}).status == 200
    assert phone.get().status == 403
    assert mac.get().headers["Location"] == "/sign-in"
    [end] = site.presence.ended(member.uid)
    assert (end.device, end.cause) == ("iPhone", "denied")
    files = [path.read_text("utf-8") for path in (site.data / "mails").glob("*.eml")]
    assert len([mail for mail in files if f"\nTo: {address}\n" in mail]) == 1


def test_a_visitor_whose_login_is_old_signs_in_again_to_sign_out_others(site: Site) -> None:
    member, laptop = site.new_member(), site.browser()
    site.presence.login(member.uid, device="iPhone")
    now = time.time()
    row = {"uid": member.uid, "device": "Mac", "login_at": now - 1000, "last_seen": now}
    [old] = site.presence.login_many([row], imported=True)
    assert isinstance(old, Login)
    laptop.cookie = old.token
    refused = laptop.post("/devices/", forms_of(laptop.get("/devices/").text)[1])
    assert refused.status == 401
    assert 'href="/sign-in"' in refused.text
    laptop.sign_in(member.uid, device="Mac")
    assert len(site.presence.sessions(member.uid)) == 2, "it replaces the old session of this browser"
    assert laptop.post("/devices/", forms_of(laptop.get("/devices/").text)[1]).status == 303
    assert [session.device for session in site.presence.sessions(member.uid)] == ["Mac"]


def test_signing_in_again_in_one_browser_does_not_look_like_another_device(site: Site) -> None:
    member, browser = site.new_member(), site.browser()
    for _ in range(2):
        browser.sign_in(member.uid)
    assert len(site.presence.sessions(member.uid)) == 1


def test_an_expired_session_is_reported_as_expired(site: Site) -> None:
    browser = site.browser()
    browser.cookie = site.presence.login(site.new_member().uid, idle_timeout=1).token
    wait_for("the end of the session", lambda: not site.presence.validate(browser.cookie, touch=False))
    page = browser.get()
    assert page.status == 401
    assert "has expired" in page.text


def test_hostile_names_and_devices_are_shown_as_text(site: Site) -> None:
    browser = site.browser()
    login = site.presence.login(
        "<u>:x", name=HOSTILE, aliases=[HOSTILE], device=HOSTILE, app=HOSTILE, app_version="<b>", user_agent=HOSTILE
    )
    browser.cookie = login.token
    page = browser.get()
    assert page.status == 200
    assert page.text.count("<script") == 1, "our own, which the policy names by its hash"
    devices = browser.get("/devices/")
    for text in (page.text, devices.text):
        assert "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;" in text
        assert "<u>" not in text
        assert "<b>" not in text
    site.presence.kick("<u>:x", by="me", reason="test", message=HOSTILE)
    assert "<script" not in browser.get().text


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", f"https://{HOST}", f"http://{HOST}:1"])
def test_a_post_from_another_page_is_refused(site: Site, origin: str) -> None:
    browser = site.browser()
    browser.sign_in(site.new_member().uid)
    assert browser.post("/sign-out", {}, Origin=origin).status == 403
    assert browser.get().status == 200
    assert browser.post("/sign-in", {"uid": "u1001"}, Origin=origin).status == 403


def test_a_foreign_host_name_that_resolves_to_this_machine_is_refused(site: Site) -> None:
    browser = site.browser()
    assert browser.get("/sign-in", Host="evil.example").status == 400
    host = "evil.example:80"
    assert browser.post("/sign-in", {"uid": "u1001"}, Host=host, Origin=f"http://{host}").status == 400


@pytest.mark.parametrize("cookie", ["x", "a.b.c", "=;,", "A" * 5000, "%00.%ff"])
def test_an_invalid_cookie_leads_to_the_form(site: Site, cookie: str) -> None:
    browser = site.browser()
    browser.cookie = cookie
    assert browser.get().status == 303
    assert browser.get("/sign-in").status == 200


def test_a_request_that_is_not_a_form_gets_a_polite_error(site: Site) -> None:
    browser = site.browser()
    assert browser.post("/sign-in", {"uid": "x" * 9000}).status == 413
    assert browser.post("/sign-in", {str(number): "" for number in range(99)}).status == 400
    browser.sign_in(site.new_member().uid)
    assert browser.get("/sign-out").status == 405
    assert browser.get("/nothing").status == 404


def test_an_outage_is_a_page_that_says_so_and_signs_no_visitor_out(site: Site) -> None:
    browser = site.browser()
    browser.sign_in(site.new_member().uid)
    site.server.kill()
    for page in (browser.get(), browser.sign_in("u1001")):
        assert page.status == 503
    assert browser.cookie
    site.server.restart()
    wait_for("the site to be back", lambda: browser.get().status == 200)


# -- Its people --------------------------------------------------------------------------------------------------------


def test_the_directory_has_five_hundred_distinct_people() -> None:
    assert len(people.MEMBERS) == 540
    for member in people.MEMBERS:
        assert re.fullmatch(r"[a-z-]+\.[a-z-]+@example\.(com|org)", member.email)
        assert 1 <= len(member.devices) <= 3
    assert len({member.email for member in people.MEMBERS}) == len({member.name for member in people.MEMBERS}) == 540


def test_visitors_come_click_stay_away_after_a_kick_and_are_continued(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitors, "CLICKS", (0.05, 0.1))
    monkeypatch.setattr(visitors, "TICK", 0.05)
    everyone = {member.uid for member in people.VISITORS}

    def live() -> set[str]:
        return {session.ref for session in site.presence.iter_sessions() if session.uid in everyone}

    before = live()

    async def visit() -> None:
        async with AsyncPresence.from_url(site.server.url, Settings(timeout=PATIENT)) as presence:
            crowd = asyncio.create_task(visitors.Crowd(presence, 20 + len(before)).run())
            while not stop.is_set():
                await asyncio.sleep(0.05)
            crowd.cancel()

    for _ in ("a new demo", "the next run"):
        stop = threading.Event()
        thread = threading.Thread(target=asyncio.run, args=(visit(),))
        thread.start()
        try:
            wait_for("visits", lambda: len(live() - before) >= 15)
            ours = [session for session in site.presence.iter_sessions() if session.ref in live() - before]
            assert all(session.name and session.os and session.app for session in ours)
            wait_for("clicks", partial(_was_seen_again, site.presence, ours[0]))
            site.presence.kick(ours[0].uid, by="me", reason="test")
            time.sleep(0.3)
            assert site.presence.sessions(ours[0].uid) == []
        finally:
            stop.set()
            thread.join()
        assert len(live() & {session.ref for session in ours}) >= 5


def _was_seen_again(presence: Presence, before: Session) -> bool:
    return any(session.last_seen > before.last_seen for session in presence.sessions(before.uid))


# -- Its history -------------------------------------------------------------------------------------------------------


def test_a_new_demo_has_two_weeks_of_history_that_agree(tmp_path: Path) -> None:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    settings = Settings.from_env(DEMO_SETTINGS | {"PRESENCE_TIMEOUT": str(PATIENT)})
    now = time.time()
    with (
        Server.start(binary, tmp_path / "redis", *KEEPS_ALL) as server,
        Presence.from_url(server.url, settings) as presence,
    ):
        assert write_history(server.url, settings, now, 20)
        days = presence.history(now - 14 * 86_400, step=86_400)
        assert len(days) in (14, 15)
        whole = days[1:-1]  # today may be a minute old
        assert all(day.logins and day.logouts and day.expired and day.replaced and day.uniques for day in whole)
        assert 0.03 < sum(day.new_devices for day in days) / sum(day.logins for day in days) < 0.07
        entries = presence.audit(limit=1000).items
        assert {"dana", "sam", "ines"} <= {entry.by for entry in entries}
        assert len({entry.at.date() for entry in entries}) >= 14
        middle = entries[len(entries) // 2].at
        assert presence.audit(until=middle, limit=1000).items == [entry for entry in entries if entry.at < middle]
        [*_, oldest] = presence.ended(reason="kicked", limit=1000)
        assert 6 < (now - oldest.at.timestamp()) / 86_400 <= 7
        assert sum(day.kicked for day in days) == presence.counts().totals["kicked"]
        assert presence.repair().repaired == 0
        tenths, counts = presence.history(now - 900, now - now % 10, step=10), presence.counts()
        assert len(tenths) in (89, 90), "nothing is missing up to now"
        assert abs(tenths[-1].sessions - counts.sessions) <= 3
        assert abs(tenths[-1].users - counts.users) <= 2
        size = presence.internal.redis_client.dbsize()
        assert not write_history(server.url, settings, now, 20), "only an empty server is filled"
        assert presence.internal.redis_client.dbsize() == size


# -- All of it ---------------------------------------------------------------------------------------------------------


class Demo:
    """``python -m presence_dashboard.demo``, in a process group of its own as under a terminal."""

    def __init__(self, directory: Path, *words: str, **environ: str) -> None:
        self.data = directory / "data"
        self.port, self.site_port = free_port(), free_port()
        self._out = directory / "out"
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PRESENCE_", "STREAMLIT_"))}
        own = {
            "PRESENCE_DATA_DIR": str(self.data),
            "PRESENCE_DASHBOARD_PORT": str(self.port),
            "PRESENCE_DEMO_SITE_PORT": str(self.site_port),
            "PRESENCE_DEMO_VISITORS": "40",  # some sign in again in place of another: 20 sessions come soon
        }
        with open(self._out, "wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "presence_dashboard.demo", *words],
                cwd=ROOT,
                env=clean | own | environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.family: set[int] = set()

    @property
    def out(self) -> str:
        return self._out.read_text()

    def wait_until_up(self) -> None:
        wait_for("the first URL", lambda: "http://" in self.out or self.process.poll() is not None, 60)
        assert self.process.poll() is None, self.out
        self.family = _family(self.process.pid)

    def end(self, number: int, *, group: bool = False) -> int:
        """Send a signal, and check that all processes end."""
        (os.killpg if group else os.kill)(self.process.pid, number)
        return self.wait_until_gone()

    def wait_until_gone(self) -> int:
        status = self.process.wait(60)
        wait_for("the end of everybody", lambda: not self.family & _living())
        return status

    def logs(self) -> str:
        return "".join(log.read_text() for log in self.data.glob("*.log"))

    def __enter__(self) -> Demo:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.family = _family(self.process.pid)
        for pid in self.family & _living():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def _processes() -> dict[int, tuple[int, str]]:
    """pid → parent, command; without zombies."""
    out = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,command="], capture_output=True, text=True, check=True
    )
    rows = (line.split(None, 3) for line in out.stdout.splitlines())
    return {int(pid): (int(parent), " ".join(rest)) for pid, parent, stat, *rest in rows if not stat.startswith("Z")}


def _living() -> set[int]:
    return set(_processes())


def _family(pid: int) -> set[int]:
    processes = _processes()
    found = {pid}
    while more := {pid for pid, (parent, _) in processes.items() if parent in found} - found:
        found |= more
    return found


def test_one_ctrl_c_ends_all_and_the_next_run_continues(tmp_path: Path) -> None:
    with Demo(tmp_path) as demo:
        demo.wait_until_up()
        urls = re.findall(r"http://\S+", demo.out)
        assert urls[:2] == [f"http://{HOST}:{demo.port}", f"http://{HOST}:{demo.site_port}"]
        assert Browser(demo.port).get().status == 200
        with Presence.from_url(f"unix://{demo.data / 'server.sock'}", Settings(timeout=PATIENT)) as presence:
            wait_for("visitors", lambda: presence.counts().sessions >= 20, timeout=120)
            before = {session.ref for session in presence.iter_sessions()}
        assert len(demo.family) >= 4, "the demo, its server and the two keepers"
        assert demo.end(signal.SIGINT, group=True) == 0
        assert "Traceback" not in demo.out + demo.logs()
    with Demo(tmp_path) as demo:
        demo.wait_until_up()
        with Presence.from_url(f"unix://{demo.data / 'server.sock'}", Settings(timeout=PATIENT)) as presence:
            assert len(before & {session.ref for session in presence.iter_sessions()}) >= 10
        assert demo.end(signal.SIGTERM) == 0
        assert "Traceback" not in demo.out


def test_the_demo_of_the_mirror_ends_the_session_of_a_site_that_knows_nothing_of_us(tmp_path: Path) -> None:
    with Demo(tmp_path, "--mirror") as demo:
        demo.wait_until_up()
        settings = Settings(namespace="mirrored", timeout=PATIENT)
        browser = Browser(demo.site_port)
        browser.sign_in(people.GUESTS[0].uid)
        assert "Signed in as" in browser.get().text
        with Presence.from_url(f"unix://{demo.data / 'server.sock'}", settings) as presence:
            wait_for("the session is mirrored", lambda: presence.sessions(people.GUESTS[0].uid))
            wait_for("visitors", lambda: presence.counts().sessions >= 20)
            presence.kick(people.GUESTS[0].uid, by="sam", reason="test")
            wait_for("the site knows", lambda: browser.get().status == 303)
        assert demo.end(signal.SIGINT) == 0
        assert "Traceback" not in demo.out + demo.logs()
    with Demo(tmp_path, "--mirror", PRESENCE_REDIS_URL="redis://127.0.0.1:1") as demo:
        assert demo.wait_until_gone() == 2
        assert "Unset it" in demo.out


@pytest.mark.parametrize("same_ports", [True, False])
def test_of_two_demos_that_start_at_once_in_one_directory_one_ends_with_a_sentence(
    tmp_path: Path, same_ports: bool
) -> None:
    with Demo(tmp_path) as first:
        ports = {"PRESENCE_DASHBOARD_PORT": str(first.port), "PRESENCE_DEMO_SITE_PORT": str(first.site_port)}
        (tmp_path / "second").mkdir()
        with Demo(tmp_path / "second", PRESENCE_DATA_DIR=str(first.data), **(ports if same_ports else {})) as second:
            wait_for("the end of one of them", lambda: None not in {first.process.poll(), second.process.poll()} or
                     "http://" in first.out + second.out, 90)  # fmt: skip
            demos = {"http://" in demo.out or demo.process.poll() is None: demo for demo in (first, second)}
            assert set(demos) == {True, False}, first.out + second.out
            refused, running = demos[False], demos[True]
            assert refused.process.poll() == 2
            assert "Traceback" not in first.out + second.out
            assert (
                f"Another demo is running with its data in {first.data}: end it, or set PRESENCE_DATA_DIR to "
                in refused.out
            )
            running.wait_until_up()
            assert running.end(signal.SIGINT) == 0


def test_no_process_is_left_when_the_parent_is_killed(tmp_path: Path) -> None:
    with Demo(tmp_path) as demo:
        demo.wait_until_up()
        assert demo.end(signal.SIGKILL) == -signal.SIGKILL


def test_a_users_own_redis_gets_only_dashboard_and_worker_even_while_it_is_down(tmp_path: Path) -> None:
    with Demo(tmp_path, PRESENCE_REDIS_URL=f"redis://:geheim@{HOST}:{free_port()}/0") as demo:
        demo.wait_until_up()
        assert "Redis does not answer" in demo.out
        assert "geheim" not in demo.out
        assert "Demo site" not in demo.out
        assert not (demo.data / "server.pid").exists()
        assert demo.end(signal.SIGHUP) == 0
        assert "Traceback" not in demo.out


@pytest.mark.parametrize("variable", ["PRESENCE_DASHBOARD_PORT", "PRESENCE_DEMO_SITE_PORT"])
def test_a_port_in_use_is_named_with_the_variable_that_changes_it(tmp_path: Path, variable: str) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = str(taken.getsockname()[1])
        with Demo(tmp_path, **{variable: port}) as demo:
            assert demo.process.wait(60) == 2
    [sentence] = [line for line in demo.out.splitlines() if port in line]
    assert "in use" in sentence
    assert variable in sentence
    assert "Traceback" not in demo.out


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"PRESENCE_DEMO_VISITORS": "many"}, "PRESENCE_DEMO_VISITORS is 'many': it must be a number from 0 to 1000."),
        ({"PRESENCE_DASHBOARD_PORT": "0"}, "PRESENCE_DASHBOARD_PORT is '0': it must be a number from 1 to 65535."),
        ({"PRESENCE_DATA_DIR": "/dev/null/x"}, "Cannot write to /dev/null/x: "),
        ({"PRESENCE_REDIS_URL": "http://sam:hunter2@redis.example"}, "url must begin with redis://"),
        (
            {"PRESENCE_DASHBOARD_ACCESS": "password", "PRESENCE_STAFF_FILE": "/no/file"},
            "PRESENCE_STAFF_FILE must name a file that exists",
        ),
        # tests/cli/test_dashboard.py and tests/unit/test_gate_settings.py have these for the other programs.
        *(
            pytest.param({name: value}, sentence, marks=pytest.mark.soak)
            for name, value, sentence in (
                ("PRESENCE_NAMESPACE", "A B", "namespace must be 1 to 32 characters"),
                ("PRESENCE_TIMEOUT", "soon", "PRESENCE_TIMEOUT must be a number."),
                ("PRESENCE_LOG", "yaml", "PRESENCE_LOG must be text or json."),
                ("PRESENCE_DASHBOARD_ACCESS", "password", "PRESENCE_STAFF_FILE must name the password file"),
            )
        ),
    ],
)
def test_a_wrong_setting_ends_the_demo_with_one_sentence(
    tmp_path: Path, environ: dict[str, str], sentence: str
) -> None:
    with Demo(tmp_path, **environ) as demo:
        assert demo.process.wait(60) == 2
    assert demo.out.startswith(sentence)
    assert demo.out.count("\n") == 1, "nothing was started"
    assert "hunter2" not in demo.out
