"""The blocks for Node of docs/use/frameworks/node.md and docs/use/move.md, run by Node on the real HTTP service."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from presence_core import Presence, Settings, cli
from presence_core.text.user_agents import families
from presence_core.web.cookies import clear_copies_headers
from presence_core.web.rules import hashed_id
from presence_core.web.service.api_keys import make_key
from tests.cli.test_moving import CAPTURED
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.servers import free_port, missing, wait_for
from tests.web.framework_pages.printed import blocks, staff_commands
from tests.web.framework_pages.walk import FORGED, PASSWORD, Browser, leads
from tests.web.service.process import served_on_thread

DOCS = Path(__file__).parents[3] / "docs"
BLOCKS = blocks("node", "js")
[EXPRESS] = re.findall(r"^```js\n(.*?)^```", (DOCS / "use/move.md").read_text("utf-8"), re.M | re.S)

valkey = on("valkey-sync")


class Node:
    """A Node process that runs a module, and answers lines of JSON with lines of JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def send(self, value: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()

    def read(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def ask(self, value: Any) -> Any:
        self.send(value)
        return self.read()


LOOP = """
import { createInterface } from "node:readline";
for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(await answer(JSON.parse(line)) ?? null));
process.exit(0);
"""  # noqa: E501


@contextmanager
def node(directory: Path, code: str, url: str, key: str = "") -> Iterator[Node]:
    program = shutil.which("node") or missing("node")
    shutil.copy(DOCS / "examples/presence.mjs", directory)
    (directory / "site.mjs").write_text(code, "utf-8")
    environ = os.environ | {"PRESENCE_URL": url, "PRESENCE_KEY": key}
    errors = directory / "stderr"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [program, "site.mjs"], cwd=directory, env=environ, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
        ) as process,
    ):  # fmt: skip
        try:
            yield Node(process)
        finally:
            assert process.stdin
            process.stdin.close()
            assert process.wait(60) == 0, errors.read_text()
    assert errors.read_text() == ""


@pytest.fixture
def key(bed: Bed) -> str:
    """A key with all scopes, which the service then asks for."""
    with Presence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT)) as presence:
        return make_key(presence, "site", ("record", "read", "kick"))[1]


def test_each_block_of_the_page_is_tested() -> None:
    assert set(BLOCKS) == {"calls", "express", "session", "jwt", "nextjs", "test"}  # "session" in make partners


@valkey
def test_the_calls_of_the_page_print_what_it_says(p: P, bed: Bed, key: str, tmp_path: Path) -> None:
    said: list[str] = re.findall(r"console\.log\(.+\); // (.+)$", BLOCKS["calls"], re.M)
    code = BLOCKS["calls"].replace("console.log(", "print(")
    prelude = "const printed = []; const print = (...words) => printed.push(words.join(' '));\n"
    with (
        served_on_thread(bed.url, bed.namespace) as url,
        node(tmp_path, f"{prelude}{code}const answer = () => printed;{LOOP}", url, key) as site,
    ):
        assert site.ask({}) == said
    [end] = p.ended("ada")
    assert (end.by, end.note, end.device) == ("site", "stolen phone", "phone")


EXPRESS_MODULE = """
import { createServer } from "node:http";
const express = () => {
  const steps = [];
  const add = (method, path) => (handler) => steps.push({ method, path, handler });
  const serve = async (req, res) => {
    const url = new URL(req.url, "http://site");
    const ip = req.socket.remoteAddress, path = url.pathname, parts = [];
    for await (const part of req) parts.push(part);
    const body = Object.fromEntries(new URLSearchParams(Buffer.concat(parts).toString()));
    Object.assign(req, { query: Object.fromEntries(url.searchParams), ip, path, body });
    const status = (code) => ((res.statusCode = code), res);
    const append = (name, values) => res.setHeader(name, [...(res.getHeader(name) ?? []), ...values]) && res;
    const cookie = (name, value) => append("Set-Cookie", [`${name}=${encodeURIComponent(value)}; HttpOnly`]) && res;
    const clearCookie = (name) => append("Set-Cookie", [`${name}=; Max-Age=0`]);
    const send = (text) => res.setHeader("Content-Type", "text/html; charset=utf-8").end(text);
    const redirect = (code, to) => status(code).setHeader("Location", to).end();
    Object.assign(res, { append, status, cookie, clearCookie, send, redirect });
    for (const { method, path, handler } of steps) {
      if ((method && method !== req.method) || (path && path !== url.pathname)) continue;
      let goesOn = false;
      await handler(req, res, () => (goesOn = true));
      if (!goesOn) return;
    }
    status(404).end();
  };
  return {
    set: () => {}, use: (handler) => handler && add()(handler),
    get: (path, handler) => add("GET", path)(handler), post: (path, handler) => add("POST", path)(handler),
    listen: (port, host) => createServer(serve).listen(port, host),
  };
};
export default Object.assign(express, { urlencoded: () => null });
"""
"""The part of Express that the page uses."""


@contextmanager
def express(bed: Bed, key: str, directory: Path) -> Iterator[str]:
    """The site of the page: its address."""
    families("Firefox")  # the first one takes half a second: on a busy machine longer than the client waits
    (directory / "node_modules").mkdir()
    (directory / "node_modules" / "express.mjs").write_text(EXPRESS_MODULE, "utf-8")
    (directory / "test.mjs").write_text(BLOCKS["test"], "utf-8")
    port = free_port()
    code = BLOCKS["express"].replace('from "express"', 'from "./node_modules/express.mjs"')
    code = code.replace("process.env.PORT", str(port))
    with (
        served_on_thread(bed.url, bed.namespace) as url,
        node(directory, f"{code}const answer = () => null;{LOOP}", url, key) as site,
    ):
        site.ask({})
        (directory / "url").write_text(url)
        yield f"http://127.0.0.1:{port}"


@valkey
def test_the_express_site_of_the_page_runs_as_it_is_printed(
    p: P, bed: Bed, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"PRESENCE_REDIS_URL": bed.url, "PRESENCE_NAMESPACE": bed.namespace, "USER": "sam"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    kick, block = staff_commands("node")
    with express(bed, key, tmp_path) as at:
        browser, phone = Browser(int(at.rpartition(":")[2])), Browser(int(at.rpartition(":")[2]))
        assert leads(browser.ask("GET", "/devices")) == "/sign-in?next=%2Fdevices"
        assert 'type="password"' in browser.ask("GET", "/sign-in").text
        for who, password in (("ada", "wrong"), ("toString", PASSWORD), ("", "")):
            assert browser.sign_in(who, password=password).status_code == 403
        assert leads(browser.sign_in("ada", "//evil.example/")) == "/"
        assert leads(browser.sign_in("ada", "/devices")) == "/devices"
        [session] = p.sessions("ada")
        assert (session.ip, session.user_agent) == ("127.0.0.1", "Firefox")
        assert "Hello ada." in browser.ask("GET", "/").text
        assert browser.ask("POST", "/sign-out", None, **FORGED).status_code == 403
        phone.sign_in("ada")
        [found] = re.findall(r'name="id" value="(.+?)"', phone.ask("GET", "/devices").text)
        assert found == session.session_id
        assert leads(phone.ask("POST", "/devices", {"id": found})) == "/devices"
        assert len(p.sessions("ada")) == 1
        test = subprocess.run(
            ["node", "test.mjs"], cwd=tmp_path, check=False, capture_output=True, text=True,
            env={**os.environ, "PRESENCE_URL": (tmp_path / "url").read_text(), "PRESENCE_KEY": key, "SITE_URL": at},
        )  # fmt: skip
        assert (test.returncode, test.stderr) == (0, "")
        assert cli.main(kick) == 0
        refused = phone.ask("GET", "/devices")
        assert (refused.status_code, "Please call us." in refused.text) == (401, True)
        assert "next=%2Fdevices" in refused.text
        assert cli.main(block) == 0
        refused = phone.sign_in("ada")
        assert (refused.status_code, p.sessions("ada")) == (403, [])
        assert "Your account is on hold. Signing in is blocked until 2" in refused.text


@valkey
def test_the_express_site_of_the_page_reads_cookies_as_the_middleware_does(
    p: P, bed: Bed, key: str, tmp_path: Path
) -> None:
    with express(bed, key, tmp_path) as at:
        browser = Browser(int(at.rpartition(":")[2]))

        def ask(path: str, *tokens: str, who: str | None = None, method: str = "GET") -> httpx.Response:
            cookie = "; ".join(("theme=dark", *(f"presence={token}" for token in tokens), "x"))
            data = None if who is None else {"who": who, "password": PASSWORD}
            return httpx.request(method, at + path, data=data, headers={"Host": "www.shop.example", "Cookie": cookie})

        browser.sign_in("ada")
        first = browser.cookies["presence"]
        assert leads(browser.sign_in("eve")) == "/"
        assert "Hello eve." in browser.ask("GET", "/").text
        assert p.sessions("ada") == [], "the browser's first session, of another user"
        assert leads(browser.ask("POST", "/sign-out")) == "/sign-in"
        assert (p.sessions("eve"), browser.ask("GET", "/").status_code, browser.cookies) == ([], 303, {})

        live, kicked = p.login("ada"), p.login("bob")
        p.kick("bob", by="sam", reason="test")
        copies = clear_copies_headers(
            name="presence", secure=True, same_site="lax", domain=None, url_path="/", host="www.shop.example"
        )
        for tokens in ((first, live.token), ("", live.token), ('"junk"', live.token), (f'"{live.token}"',)):
            assert "Hello ada." in ask("/", *tokens).text, tokens
        for several in ((kicked.token, live.token), (live.token, kicked.token), (first, live.token, kicked.token)):
            refused = ask("/?x=1", *several)
            assert (refused.status_code, "Please sign in again." in refused.text) == (401, True)
            assert refused.headers.get_list("set-cookie") == copies
        assert "set-cookie" not in ask("/", kicked.token).headers, "a single cookie: the next sign-in replaces it"
        demanded, behalf = p.login("cyd"), p.login("ada", on_behalf_by="sam", reason="test")
        p.require_sign_in("cyd", by="sam", reason="test", message="Is it you?")
        asked = ask("/", demanded.token)
        assert (asked.status_code, "Is it you?" in asked.text) == (401, True)
        ask("/sign-in", behalf.token, live.token, demanded.token, who="eve", method="POST")
        assert [session.session_id for session in p.sessions("ada")] == [behalf.session.session_id]
        assert p.sessions("cyd") == []
        ask("/sign-out", behalf.token, "x", method="POST")
        assert p.sessions("ada") == []


JWT = (
    """
const sign = (claims) => JSON.stringify(claims), verify = (token) => JSON.parse(token);
const live = (token) => { try { return check(token).sub } catch (error) { return error.message } };
const refusal = (error) => `${error.status} ${error.problem.code}`;
const answer = async ({ uid, token, old, ended }) =>
  ended ? await end(ended) : uid ? await issue(uid, old).catch(refusal) : live(token);
"""
    + LOOP
)


@valkey
def test_a_jwt_is_refused_after_a_kick_and_after_a_revocation_of_all(p: P, bed: Bed, key: str, tmp_path: Path) -> None:
    p.login("eve", session_id="ended-before")
    p.kick("eve", by="sam", reason="test")
    refused = "This session has ended."
    with (
        served_on_thread(bed.url, bed.namespace) as url,
        node(tmp_path, BLOCKS["jwt"].replace("keep: 900", "keep: 900, heartbeat: 0.05") + JWT, url, key) as site,
    ):
        old = json.dumps({"sub": "eve", "jti": "ended-before", "auth_time": 1})
        assert site.ask({"token": old}) == refused, "it ended before this process began"
        ada, bob = site.ask({"uid": "ada"}), site.ask({"uid": "bob"})
        before = p.sessions("ada")[0].last_seen
        assert [site.ask({"token": token}) for token in (ada, bob)] == ["ada", "bob"]
        wait_for("the heartbeat", lambda: p.sessions("ada")[0].last_seen > before)
        p.kick("ada", by="sam", reason="test")
        wait_for("the kick", lambda: site.ask({"token": ada}) == refused)
        assert site.ask({"token": bob}) == "bob"
        p.revoke_before(by="sam", reason="test")
        wait_for("the revocation", lambda: site.ask({"token": bob}) == refused)
        bob_again = site.ask({"uid": "bob"})
        assert site.ask({"token": bob_again}) == "bob", "a later login is live"
        eve = site.ask({"uid": "eve", "old": bob_again})
        assert (p.sessions("bob"), len(p.sessions("eve"))) == ([], 1), "a second sign-in of the same browser"
        wait_for("the end of the first", lambda: site.ask({"token": bob_again}) == refused)
        site.ask({"ended": eve})
        assert p.sessions("eve") == []
        wait_for("the sign-out", lambda: site.ask({"token": eve}) == refused)
        assert "JSON" in site.ask({"token": ""}), "the library of an anonymous visitor's site throws"
        p.block("eve", by="sam", reason="test")
        assert site.ask({"uid": "eve"}) == "409 blocked"
    late = tmp_path / "late"
    late.mkdir()
    with served_on_thread(bed.url, bed.namespace) as url, node(late, BLOCKS["jwt"] + JWT, url, key) as site:
        assert site.ask({"token": bob}) == refused, "the revocation is older than this process"


@valkey
def test_the_cache_continues_where_it_stopped_after_a_lost_connection(p: P, bed: Bed, key: str, tmp_path: Path) -> None:
    port = free_port()
    with ExitStack() as open_:
        with served_on_thread(bed.url, bed.namespace, port=port) as url:
            site = open_.enter_context(node(tmp_path, BLOCKS["jwt"] + JWT, url, key))
            ada, bob, cyd = (site.ask({"uid": who}) for who in ("ada", "bob", "cyd"))
            p.kick("cyd", by="sam", reason="test")
            wait_for("the first kick", lambda: site.ask({"token": cyd}) == "This session has ended.")
        p.kick("ada", by="sam", reason="test")
        assert site.ask({"token": ada}) == "ada", "the service is away, and the cache is not old yet"
        with served_on_thread(bed.url, bed.namespace, port=port):
            wait_for("the missed kick", lambda: site.ask({"token": ada}) == "This session has ended.")
            assert site.ask({"token": bob}) == "bob"
            open_.close()


NEXTJS = (
    """
const verify = (request) => JSON.parse(request.headers.get("authorization"));
const opened = new Map();
const text = (body) => new Response(body).text();
async function answer({ open, claims, leave, read }) {
  if (read) return await opened.get(read).text;
  if (leave) return opened.get(leave).stop.abort();
  const stop = new AbortController();
  const headers = { authorization: JSON.stringify(claims) };
  const response = await GET(new Request("http://site/api/session", { headers, signal: stop.signal }));
  if (response.ok) opened.set(open, { stop, text: text(response.body) });
  return response.status;
}
"""
    + LOOP
)


@valkey
def test_an_open_page_learns_of_its_kick(p: P, bed: Bed, key: str, tmp_path: Path) -> None:
    sessions = {who: p.login(who).session for who in ("ada", "bob", "cyd")}
    claims = {
        who: {"sub": who, "jti": session.session_id, "auth_time": session.login_at.timestamp()}
        for who, session in sessions.items()
    }
    with (
        served_on_thread(bed.url, bed.namespace) as url,
        node(tmp_path, BLOCKS["nextjs"] + NEXTJS, url, key) as site,
    ):
        assert site.ask({"open": "nobody", "claims": None}) == 401
        for who in claims:
            assert site.ask({"open": who, "claims": claims[who]}) == 200
        p.kick("ada", by="sam", reason="test")
        assert site.ask({"read": "ada"}) == ": waiting\n\nevent: ended\ndata: signed out\n\n"
        assert site.ask({"open": "ada", "claims": claims["ada"]}) == 401
        site.ask({"leave": "bob"})
        assert site.ask({"read": "bob"}) == ": waiting\n\n", "the visitor has left"
        p.revoke_before(by="sam", reason="test")
        assert site.ask({"read": "cyd"}).endswith("event: ended\ndata: signed out\n\n")


SITE = """
const handlers = [], failures = [], app = { use: (handler) => handlers.push(handler) };
const answer = (asked) => new Promise((resolve, reject) => {
  const mode = asked.mode;
  if (asked.failures) return resolve(failures.length);
  if (asked.options) {
    const url = asked.options.url ?? process.env.PRESENCE_URL, key = asked.options.key ?? process.env.PRESENCE_KEY;
    const onError = (error) => failures.push(error);
    handlers[0] = new ExpressSessions(new Presence({ url, key }), { onError, ...asked.options }).check;
    return resolve(null);
  }
  let destroyed = false;
  const session = { ...asked.session, destroy: (after) => ((destroyed = true), after()) };
  const headers = { "user-agent": "Firefox" };
  const answerWith = (status) => (why) => resolve([status, why.code, destroyed]);
  const res = { status: (status) => ({ set: () => res.status(status), json: answerWith(status) }) };
  handlers[0]({ session, sessionID: asked.sid, headers, ip: "203.0.113.9" }, res, () => resolve("next")).catch(reject);
});
"""
"""Its first step is to set the options."""


@valkey
def test_the_express_middleware_adopts_a_session_with_its_lifetime(p: P, bed: Bed, key: str, tmp_path: Path) -> None:
    """With sessions that the real express-session wrote."""
    with served_on_thread(bed.url, bed.namespace) as url, node(tmp_path, SITE + EXPRESS + LOOP, url, key) as site:
        for number, (record, _, life) in enumerate(CAPTURED.values()):
            ask = {"sid": f"83zv9FtcgEJa5o35Ceu6mFWXmqnEf65{number}", "session": json.loads(record)}

            def said(mode: str, ask: dict[str, Any] = ask) -> Any:
                site.ask({"options": {"mode": mode}})
                return site.ask(ask)

            assert said("observe") == "next", "as printed"
            assert said("adopt", ask | {"session": {"cookie": {}}}) == "next", "no user is signed in"
            assert said("enforce") == [401, "unknown", True]
            assert said("observe") == "next"
            assert p.sessions("7") == []
            assert [said("adopt"), said("adopt")] == ["next", "next"]
            [session] = p.sessions("7")
            assert (session.session_id, session.idle_timeout) == (hashed_id(ask["sid"]), life)
            assert (session.ip, session.user_agent) == ("203.0.113.9", "Firefox")
            assert said("enforce") == "next"
            p.kick("7", by="sam", reason="test")
            assert [said("adopt"), said("enforce")] == [[401, "kicked", True]] * 2
            assert said("observe") == "next"
        assert site.ask({"failures": True}) == 0


@valkey
def test_without_the_service_or_its_key_the_express_middleware_does_what_its_options_say(
    p: P, bed: Bed, key: str, tmp_path: Path
) -> None:
    port, away, [(record, _, _), *_] = free_port(), f"http://127.0.0.1:{free_port()}", CAPTURED.values()
    ask = {"sid": "83zv9FtcgEJa5o35Ceu6mFWXmqnEf650", "session": json.loads(record)}
    p.login("7", session_id=hashed_id(ask["sid"]))
    with ExitStack() as open_:
        with served_on_thread(bed.url, bed.namespace, port=port) as url:
            site = open_.enter_context(node(tmp_path, SITE + EXPRESS + LOOP, url, key))
            failures = 0
            for broken in ({"url": away}, {"key": "pk_wrong"}):
                for options, expected in (
                    ({"mode": "observe"}, "next"),
                    ({"onUnavailable": "open"}, "next"),
                    ({"mode": "adopt"}, [503, "unavailable", False]),
                    ({"onUnavailable": "grace"}, [503, "unavailable", False]),
                ):
                    site.ask({"options": {**options, **broken}})
                    assert [site.ask(ask), site.ask(ask)] == [expected] * 2, (options, broken)
                    failures += 1
                    assert site.ask({"failures": True}) == failures, "it is said once a minute"
            site.ask({"options": {"onUnavailable": "grace"}})
            assert site.ask(ask) == "next"
        assert site.ask(ask) == "next", "checked within 60 seconds"
        assert site.ask(ask | {"sid": "another"}) == [503, "unavailable", False]
        open_.close()
