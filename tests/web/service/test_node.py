"""The blocks for Node of docs/node.md and docs/moving.md, run by Node against the real HTTP service."""

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

from presence_core import Presence, Settings
from presence_core.web.rules import hashed_id
from presence_core.web.service.api_keys import make_key
from tests.cli.test_moving import CAPTURED
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.servers import free_port, missing, wait_for
from tests.web.service.process import served_on_thread

DOCS = Path(__file__).parents[3] / "docs"
BLOCKS = dict(re.findall(r"^```js (\w+)\n(.*?)^```", (DOCS / "node.md").read_text("utf-8"), re.M | re.S))
[EXPRESS] = re.findall(r"^```js\n(.*?)^```", (DOCS / "moving.md").read_text("utf-8"), re.M | re.S)

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
    assert set(BLOCKS) == {"calls", "express", "jwt", "nextjs"}
    assert (DOCS / "node.md").read_text("utf-8").count("\n```js") == len(BLOCKS)


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
export default () => {
  const steps = [];
  const add = (method, path) => (handler) => steps.push({ method, path, handler });
  const serve = async (req, res) => {
    const url = new URL(req.url, "http://site");
    Object.assign(req, { query: Object.fromEntries(url.searchParams), ip: req.socket.remoteAddress });
    const json = (body) => res.setHeader("Content-Type", "application/json").end(JSON.stringify(body));
    const status = (code) => ((res.statusCode = code), res);
    const cookie = (name, value) => res.setHeader("Set-Cookie", `${name}=${encodeURIComponent(value)}; HttpOnly`);
    Object.assign(res, { json, status, cookie, sendStatus: (code) => status(code).end() });
    for (const { method, path, handler } of steps) {
      if ((method && method !== req.method) || (path && path !== url.pathname)) continue;
      let goesOn = false;
      await handler(req, res, () => (goesOn = true));
      if (!goesOn) return;
    }
    status(404).end();
  };
  return {
    use: add(), get: (path, handler) => add("GET", path)(handler), post: (path, handler) => add("POST", path)(handler),
    listen: (port, host) => createServer(serve).listen(port, host),
  };
};
"""
"""The part of Express that the page uses."""


@valkey
def test_the_express_site_of_the_page_signs_in_and_answers_401_with_the_reason_after_a_kick(
    p: P, bed: Bed, key: str, tmp_path: Path
) -> None:
    assert BLOCKS["express"].count("\n") <= 40
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "express.mjs").write_text(EXPRESS_MODULE, "utf-8")
    code = BLOCKS["express"].replace('from "express"', 'from "./node_modules/express.mjs"')
    port = free_port()
    code = code.replace("process.env.PORT", str(port))
    with (
        served_on_thread(bed.url, bed.namespace) as url,
        node(tmp_path, f"{code}const answer = () => null;{LOOP}", url, key) as site,
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as browser,
    ):
        site.ask({})
        assert browser.get("/me").status_code == 401
        assert browser.post("/sign-in?who=ada", headers={"User-Agent": "Firefox"}).status_code == 204
        [session] = p.sessions("ada")
        assert (session.ip, session.user_agent) == ("127.0.0.1", "Firefox")
        assert browser.get("/me").json() == {"uid": "ada"}
        p.kick("ada", by="sam", reason="test", message="Please call us.")
        refused = browser.get("/me")
        assert (refused.status_code, refused.json()) == (401, {"code": "kicked", "message": "Please call us."})
        p.block("ada", by="sam", reason="test")
        assert browser.post("/sign-in?who=ada").status_code == 403


JWT = (
    """
const sign = (claims) => JSON.stringify(claims), verify = (token) => JSON.parse(token);
const live = (token) => { try { return check(token).sub } catch (error) { return error.message } };
const answer = async ({ uid, token }) => uid ? await issue(uid) : live(token);
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
        assert site.ask({"token": site.ask({"uid": "bob"})}) == "bob", "a later login is live"
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


SITE = (
    """
import { createHash } from "node:crypto";
let middleware, mode;
const app = { use: (handler) => (middleware = handler) };
const post = (path, body) => fetch(process.env.PRESENCE_URL + path, { method: "POST", body: JSON.stringify(body),
  headers: { "Content-Type": "application/json", Authorization: `Bearer ${process.env.PRESENCE_KEY}` } });
const answer = (asked) => new Promise((resolve, reject) => {
  mode = asked.mode;
  const session = { ...asked.session, destroy: (after) => after() };
  const res = { redirect: (path) => resolve(path) };
  middleware({ session, sessionID: asked.sid }, res, () => resolve("next")).catch(reject);
});
"""
    + EXPRESS
    + LOOP
)


@valkey
def test_the_express_middleware_adopts_a_session_with_its_lifetime(p: P, bed: Bed, key: str, tmp_path: Path) -> None:
    """With sessions that the real express-session wrote."""
    with served_on_thread(bed.url, bed.namespace) as url, node(tmp_path, SITE, url, key) as site:
        for number, (record, _, life) in enumerate(CAPTURED.values()):
            ask = {"sid": f"83zv9FtcgEJa5o35Ceu6mFWXmqnEf65{number}", "session": json.loads(record), "mode": "adopt"}
            assert site.ask(ask | {"session": {"cookie": {}}}) == "next", "no user is signed in"
            assert site.ask(ask | {"mode": "enforce"}) == "/sign-in"
            assert site.ask(ask | {"mode": "observe"}) == "next"
            assert p.sessions("7") == []
            assert [site.ask(ask), site.ask(ask)] == ["next", "next"]
            [session] = p.sessions("7")
            assert (session.session_id, session.idle_timeout) == (hashed_id(ask["sid"]), life)
            assert site.ask(ask | {"mode": "enforce"}) == "next"
            p.kick("7", by="sam", reason="test")
            assert [site.ask(ask), site.ask(ask | {"mode": "enforce"})] == ["/sign-in", "/sign-in"]
