"""Mode adopt: clients that keep no cookie have one session for each user and kind of client."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from presence_core.drive_generators import drive
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.middleware.request_data import RequestData
from presence_core.web.middleware.shared_sessions import prefix_of
from presence_core.web.rules import Rules, Verdict, Visitor
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.web.frameworks.conftest import Make

CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"
BASIC = {"authorization": "Basic YWRhOnNlY3JldA=="}

CLIENTS: list[dict[str, str]] = [
    BASIC, {}, {"user_agent": "curl/8.5.0"}, {"user_agent": "python-requests/2.31"},
    {"user_agent": "nightly-report/1.2 (cron)"}, {"user_agent": CHROME, **BASIC},
    {"user_agent": "curl/8.5.0", "cookie": "session=of-the-site"},
    {"user_agent": "curl/8.5.0", "authorization": "Bearer eyJhbGciOiJub25lIn0.e30."},
    {"user_agent": "curl/8.5.0", "cookie": "presence=junk"},
]  # fmt: skip


@on("valkey-sync")
def test_fifty_requests_without_a_cookie_begin_one_session(p: P, make: Make) -> None:
    who = ["ada"]
    site = make(mode="adopt", user=lambda: who[0])
    for number, headers in enumerate(CLIENTS):
        who[0] = f"user-{number}"
        for _ in range(50):
            assert site.ask(**headers).body.decode() == who[0], headers
        assert len(p.sessions(who[0])) == 1, headers
    assert site.checker.tally == {"adopted": len(CLIENTS), "live": 49 * len(CLIENTS)}


@on("valkey-sync")
def test_each_kind_of_client_and_each_user_has_a_session_and_a_browser_its_own(p: P, make: Make) -> None:
    who = ["ada"]
    site = make(mode="adopt", user=lambda: who[0])
    for agent in ("curl/8.5.0", "curl/7.1", "Wget/1.21", "backup/1", "backup/2", "report/1"):
        site.ask(user_agent=agent)
    assert len(p.sessions("ada")) == 4, "by name, whatever the version"
    who[0] = "eve"
    site.ask(user_agent="curl/8.5.0")
    assert len(p.sessions("eve")) == 1
    who[0] = "bob"
    for _ in range(2):  # browsers
        cookie = str(site.ask(user_agent=CHROME).header("set-cookie")).partition(";")[0]
        assert site.ask(user_agent=CHROME, cookie=cookie).body == b"bob"
    assert len(p.sessions("bob")) == 2


def visits(p: P, **rules: Any) -> Any:
    """A site's process: a function that asks it as a script of ada."""
    checker = RequestChecker(p, Rules(mode="adopt", **rules))
    request = RequestData("/", user_agent="curl/8.5.0", peer="192.0.2.1")

    def visit(user: Any = "ada") -> Verdict:
        return drive(checker.check(request, lambda: user), lambda call: call(p))

    return visit


@on("valkey-sync", soak=("cluster-sync",))
def test_several_processes_begin_the_same_session_also_at_the_same_moment(p: P, bed: Bed) -> None:
    processes = [visits(bed.connect()) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        verdicts = list(threads.map(lambda visit: [visit() for _ in range(5)], processes))
    assert all(verdict.session is not None for made in verdicts for verdict in made)
    [session] = p.sessions("ada")
    assert session.last_ip == "192.0.2.1"
    p.logout("ada", session.session_id)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda visit: visit(), processes))
    [second] = p.sessions("ada")
    assert second.session_id != session.session_id


@on("valkey-sync")
def test_after_an_end_that_was_no_kick_the_next_request_begins_a_new_session(p: P) -> None:
    p.freeze()
    known = set()
    for number in range(7):
        visit = visits(p) if number % 2 else visits(p, max_known=100)
        assert visit().state == "adopted", number
        assert visit().state == "live", number
        [session] = p.sessions("ada")
        known.add(session.session_id)
        p.advance(session.idle_timeout + 1)
    assert len(known) == 7
    assert visit().state == "adopted", "a process that knew it as well"


@on("valkey-sync")
def test_a_kick_is_said_in_each_process_for_a_minute_and_a_block_keeps_the_client_out(p: P) -> None:
    p.freeze()
    first, second = visits(p), visits(p)
    assert (first().state, first().state) == ("adopted", "live")
    p.kick("ada", by="sam", reason="odd", message="Please call us.")
    for visit in (first, second, first, visits(p)):
        verdict = visit()
        assert (verdict.passes, verdict.state) == (False, "ended")
        assert verdict.ended is not None
        assert (verdict.ended.public.code, verdict.ended.public.message) == ("kicked", "Please call us.")
    assert p.sessions("ada") == []
    p.advance(61)
    assert [visit().state for visit in (first, second)] == ["adopted", "live"]
    p.block("ada", by="sam", reason="odd")
    p.kick("ada", by="sam", reason="odd")
    p.advance(61)
    assert first().refusal == "blocked"


@on("valkey-sync")
def test_while_redis_is_away_a_shared_session_has_its_grace(p: P) -> None:
    checker = RequestChecker(p, Rules(mode="adopt", on_unavailable="grace"))
    request = RequestData("/", user_agent="curl/8.5.0")
    for _ in range(2):
        assert drive(checker.check(request, lambda: "ada"), lambda call: call(p)).passes
    away = RequestChecker(p, Rules(mode="adopt", on_unavailable="grace"))
    checker.breaker._open_until = away.breaker._open_until = float("inf")
    assert drive(checker.check(request, lambda: "ada"), lambda call: call(p)).state == "grace"
    assert not drive(away.check(request, lambda: "ada"), lambda call: call(p)).passes


@pytest.mark.parametrize(
    ("agent", "authorization", "visitor"),
    [
        (CHROME, "", Visitor("ada")),
        ("curl/8", "", Visitor("ada", "id-of-the-site")),
        ("curl/8", "", Visitor("ada", login={"on_behalf_by": "sam", "reason": "ticket"})),
    ],
)
def test_who_has_a_session_of_its_own(agent: str, authorization: str, visitor: Visitor) -> None:
    assert prefix_of(RequestData("/", user_agent=agent, authorization=authorization), visitor) is None


def test_an_app_or_device_that_the_site_names_is_a_kind_of_its_own() -> None:
    request = RequestData("/", user_agent="curl/8")
    logins: list[dict[str, Any]] = [{}, {"app": "web"}, {"app": "cli"}, {"device": "web"}, {"app_version": "2"}]
    assert len({prefix_of(request, Visitor("ada", login=login)) for login in logins}) == 4
