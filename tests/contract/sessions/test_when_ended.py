"""when_ended: wait until no request of a session passes any more."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from presence_core import AsyncPresence, InvalidArgument, Session, Settings, Unavailable, Validation
from presence_core.end_watch import runners
from tests.conftest import Bed, every_topology, on
from tests.support.facade import P
from tests.support.servers import wait_for

Wait = Callable[[Session], "Future[Validation | None]"]


@pytest.fixture
def wait(p: P) -> Iterator[Wait]:
    """Begin to wait for the end of a session. The end of the test ends all waiting."""
    with ThreadPoolExecutor(32) as pool:
        yield lambda session: pool.submit(p.when_ended, session.uid, session.session_id)
        p.close()


def watched(p: P) -> list[Any]:
    """The sessions that a client watches."""
    ends = getattr(p, "_target", p).internal.ends
    found = [ends._watched] if isinstance(ends, runners.EndWatchThread) else [w.watched for w in ends._loops.values()]
    return [session for each in found for session in list(each._watched.values())]


def wait_until_watched(p: P, count: int) -> None:
    """Until so many sessions were found live."""
    wait_for("the watch", lambda: sum(time.monotonic() < session.due < 1e12 for session in watched(p)) == count)


def word(waiting: Future[Validation | None]) -> str:
    failed = waiting.result(60)
    assert failed is not None
    assert not failed
    return failed.ended.reason if failed.ended is not None else failed.code


@every_topology
def test_every_end_is_reported_to_those_who_wait_for_it_and_to_no_other(p: P, wait: Wait) -> None:
    names = ("kicked", "left", "required", "stays", "rotated")
    logins = {uid: p.login(uid, device="phone") for uid in names}
    waiting = {uid: wait(login.session) for uid, login in logins.items()}
    second = wait(logins["kicked"].session)
    wait_until_watched(p, len(names))
    p.reauthenticated(p.rotate(logins["rotated"].token).token)
    p.kick("kicked", by="sam", reason="for staff", message="Please call us.")
    p.logout("left", logins["left"].session.session_id)
    p.require_sign_in("required", by="sam", reason="test", message="Please sign in again.")
    assert [word(waiting[uid]) for uid in ("kicked", "left", "required")] == ["kicked", "logout", "sign_in_required"]
    assert word(second) == "kicked"
    kicked, required = waiting["kicked"].result(), waiting["required"].result()
    assert kicked is not None
    assert kicked.ended is not None
    end = kicked.ended
    assert (end.message, end.by, end.ref, end.device) == (
        "Please call us.", "sam", logins["kicked"].session.ref, "phone"
    )  # fmt: skip
    assert required is not None
    assert required.refused is not None
    assert (required.message, required.refused.uid) == ("Please sign in again.", "required")
    assert not waiting["stays"].done()
    assert not waiting["rotated"].done()
    p.revoke_before(by="sam", reason="test")
    assert [word(waiting[uid]) for uid in ("stays", "rotated")] == ["kicked", "kicked"]
    assert watched(p) == []


def test_an_end_is_known_soon(p: P, wait: Wait) -> None:
    took = []
    for number in range(5):
        session = p.login(f"u{number}").session
        waiting = wait(session)
        wait_until_watched(p, 1)
        began = time.monotonic()
        p.kick(session.uid, by="sam", reason="test")
        assert word(waiting) == "kicked"
        took.append(time.monotonic() - began)
    assert sorted(took)[2] < 0.25


@on("valkey-sync", "redis7-async")
def test_a_deadline_is_an_end_without_any_sweep_and_moves_with_each_request(p: P, wait: Wait) -> None:
    short, seen = p.login("ada", idle_timeout=1), p.login("eve", idle_timeout=2)
    began = time.monotonic()
    waiting, other = wait(short.session), wait(seen.session)
    time.sleep(0.5)
    assert p.validate(seen.token)
    assert word(waiting) == "expired"
    assert time.monotonic() - began < 1.9
    assert word(other) == "expired"
    assert time.monotonic() - began > 2.4


def test_a_clock_that_a_test_moves_ends_sessions_at_once(p: P, wait: Wait) -> None:
    waiting, other = wait(p.login("ada", idle_timeout=100).session), wait(p.login("eve").session)
    wait_until_watched(p, 2)
    began = time.monotonic()
    p.advance(100)
    assert word(waiting) == "expired"
    assert time.monotonic() - began < 10
    assert not other.done()


def test_a_session_that_has_ended_or_is_unknown_is_reported_at_once(p: P) -> None:
    session = p.login("ada").session
    p.kick("ada", by="sam", reason="test")
    for sid, code in ((session.session_id, "ended"), ("no-such-session", "unknown")):
        failed = p.when_ended("ada", sid, timeout=60)
        assert failed is not None
        assert (bool(failed), failed.code) == (False, code)


def test_after_its_timeout_it_returns_none_and_watches_nothing(p: P) -> None:
    session = p.login("ada").session
    assert p.when_ended("ada", session.session_id, timeout=0.3) is None
    assert watched(p) == []
    assert p.when_ended("ada", session.session_id, timeout=0) is None
    wait_for("the end of the thread", lambda: "presence-ends" not in {thread.name for thread in threading.enumerate()})


@pytest.mark.parametrize(("uid", "sid", "timeout"), [("", "no-such-session", None), ("ada", "x", None),
                                                     ("ada", "no-such-session", -1)])  # fmt: skip
def test_invalid_arguments_are_refused(p: P, uid: str, sid: str, timeout: float | None) -> None:
    with pytest.raises(InvalidArgument):
        p.when_ended(uid, sid, timeout=timeout)
    assert watched(p) == []


def test_to_wait_raises_when_the_client_closes(p: P, wait: Wait) -> None:
    waiting = wait(p.login("ada").session)
    wait_until_watched(p, 1)
    p.close()
    with pytest.raises(Unavailable, match="closed"):
        waiting.result(60)


def test_the_watch_of_a_loop_leaves_no_task(bed: Bed) -> None:
    async def site() -> None:
        async with AsyncPresence.from_url(bed.url, Settings(bed.namespace)) as presence:
            session = (await presence.login("ada")).session
            first, second = (
                asyncio.create_task(presence.when_ended("ada", session.session_id)) for _ in range(2)
            )  # fmt: skip
            await asyncio.sleep(0.2)
            first.cancel()
            await asyncio.sleep(0.1)
            await presence.kick("ada", by="sam", reason="test")
            failed = await second
            assert failed is not None
            assert failed.ended is not None
            session = (await presence.login("ada")).session
            three = asyncio.create_task(presence.when_ended("ada", session.session_id))
            await asyncio.sleep(0.2)
            three.cancel()
            await asyncio.sleep(0.2)
            assert {task for task in asyncio.all_tasks() if "_LoopWatch" in repr(task)} == set()

    asyncio.run(site())
