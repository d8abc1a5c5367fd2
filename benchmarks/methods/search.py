"""Searches of support staff by uid, address, name or device; and how a scan slows down other clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Final

from benchmarks.measure import Result, Side, Target, compare, spread
from benchmarks.methods.bare import Bare
from benchmarks.stage import Stage
from presence_core import Presence, Session, SessionFilter

PAGE: Final = 50
RUNS: Final = 60

MakeFilter = Callable[[Session], SessionFilter]


def _random_session(stage: Stage) -> Session:
    """A random session with an IPv4 address."""
    while True:
        ticket = stage.ticket()
        session = stage.presence.get(ticket.uid, ticket.session_id)
        if session and session.ip and ":" not in session.ip and session.name and session.name.isascii():
            return session


def _first_letters(session: Session) -> str:
    return (session.name or "").split()[-1]


def _search(
    stage: Stage, name: str, compared: str | None, make_filter: MakeFilter, bare: Side, most_ms: float, runs: int = RUNS
) -> Result:
    filters = iter([make_filter(_random_session(stage)) for _ in range(runs * 2 + 10)])

    def page(filter: SessionFilter) -> None:
        stage.presence.list_sessions(filter, limit=PAGE)

    result = compare(stage, name, compared, Side(page, lambda: next(filters)), bare, runs=runs)
    assert result.ours is not None
    result.targets.append(Target("ms", most_ms, result.ours.p50 / 1000))
    sample = stage.presence.explain(make_filter(_random_session(stage)))
    result.figures |= {"entries looked at, estimated": sample.rows, "matches, estimated": sample.matches}
    return result


def search_uid(stage: Stage) -> Result:
    """The sessions of a uid, compared with SMEMBERS, then one pipeline of HGETALLs."""
    bare = Side(Bare(stage).sessions_of, lambda: stage.ticket().uid)
    return _search(stage, "search uid", search_uid.__doc__, lambda session: SessionFilter(uid=session.uid), bare, 3)


def search_ip(stage: Stage) -> Result:
    """The sessions of an address, compared with ZRANGE BYLEX of the same range, then one pipeline of HGETALLs."""
    return _search(
        stage, "search ip", search_ip.__doc__, lambda session: SessionFilter(ip=session.ip), _bare_ip(stage), 10
    )


def search_cidr(stage: Stage) -> Result:
    """The sessions of a /24, compared with the same bare commands."""
    make_filter: MakeFilter = lambda session: SessionFilter(ip=f"{session.ip}/24")  # noqa: E731
    return _search(stage, "search /24", search_cidr.__doc__, make_filter, _bare_ip(stage), 10)


def _bare_ip(stage: Stage) -> Side:
    redis, keys = stage.redis, stage.keys

    def look(session: Session) -> None:
        low = b"4" + bytes(int(part) for part in (session.ip or "").split("."))
        pipe = redis.pipeline(transaction=False)
        for entry in redis.zrangebylex(keys.addresses, b"[" + low, b"(" + low + b"\xff"):
            pipe.hgetall(keys.record_prefix.encode() + entry[5:])
        pipe.execute()

    return Side(look, lambda: _random_session(stage))


def _bare_words(stage: Stage) -> Side:
    """ZRANGE BYLEX of a hundred entries, SMEMBERS of their users, HGETALL of 50 sessions: unordered, untested."""
    redis, keys = stage.redis, stage.keys

    def look(session: Session) -> None:
        low = b"n" + _first_letters(session).lower().encode()
        entries = redis.zrangebylex(keys.words, b"[" + low, b"(" + low + b"\xff", start=0, num=100)
        uids = [entry.partition(b"\0")[2].decode() for entry in entries]
        pipe = redis.pipeline(transaction=False)
        for uid in uids:
            pipe.smembers(keys.user(uid))
        refs = [keys.record(uid, sid.decode()) for uid, sids in zip(uids, pipe.execute(), strict=True) for sid in sids]
        for ref in refs[:PAGE]:
            pipe.hgetall(ref)
        pipe.execute()

    return Side(look, lambda: _random_session(stage))


def search_name(stage: Stage) -> Result:
    """A page by a whole name, compared with ZRANGE BYLEX, SMEMBERS and 50 HGETALLs, unordered and untested."""
    return _search(stage, "search name, selective", search_name.__doc__,
                   lambda session: SessionFilter(name_prefix=session.name), _bare_words(stage), 10)  # fmt: skip


def search_text(stage: Stage) -> Result:
    """A page by the first 12 letters of an email address, compared with the same bare commands."""
    return _search(stage, "search text, selective", search_text.__doc__,
                   lambda session: SessionFilter(text=session.aliases[0][:12]), _bare_words(stage), 10)  # fmt: skip


def search_words(stage: Stage) -> Result:
    """A page by the two words of a name, the last one first, compared with the same bare commands."""
    make_filter: MakeFilter = lambda session: SessionFilter(text=", ".join(reversed((session.name or "").split())))  # noqa: E731
    return _search(stage, "search text, any order", search_words.__doc__, make_filter, _bare_words(stage), 30)


def search_domain(stage: Stage) -> Result:
    """A page by an email domain that one in seven has, compared with the bare first page."""
    make_filter: MakeFilter = lambda session: SessionFilter(text="@" + session.aliases[0].partition("@")[2])  # noqa: E731
    return _search(stage, "search email domain", search_domain.__doc__, make_filter, Side(Bare(stage).page), 30)


def search_digits(stage: Stage) -> Result:
    """The sessions of a uid, by its digits, compared with SMEMBERS, then one pipeline of HGETALLs."""
    bare = Side(Bare(stage).sessions_of, lambda: stage.ticket().uid)
    make_filter: MakeFilter = lambda session: SessionFilter(text=session.uid[1:])  # noqa: E731
    return _search(stage, "search digits of a uid", search_digits.__doc__, make_filter, bare, 30)


def search_session(stage: Stage) -> Result:
    """A session by its id, compared with SMEMBERS, then one pipeline of HGETALLs."""
    bare = Side(Bare(stage).sessions_of, lambda: stage.ticket().uid)
    make_filter: MakeFilter = lambda session: SessionFilter(text=session.session_id)  # noqa: E731
    return _search(stage, "search session id", search_session.__doc__, make_filter, bare, 30)


def search_people(stage: Stage) -> Result:
    """people() by the two words of a name, the last one first, compared with the same bare commands."""
    presence = stage.presence
    names = iter([", ".join(reversed((_random_session(stage).name or "").split())) for _ in range(2 * RUNS + 10)])
    ours = Side(lambda text: presence.people(text), lambda: next(names))
    result = compare(stage, "people, any order", search_people.__doc__, ours, _bare_words(stage), runs=RUNS)
    assert result.ours is not None
    result.targets.append(Target("ms", 30, result.ours.p50 / 1000))
    return result


def search_dense(stage: Stage) -> Result:
    """A page by the first letter of a name, compared with the bare first page."""
    return _search(stage, "search name, dense", search_dense.__doc__,
                   lambda session: SessionFilter(name_prefix=_first_letters(session)[0]), Side(Bare(stage).page),
                   20)  # fmt: skip


def search_device(stage: Stage) -> Result:
    """A page by device, compared with the bare first page."""
    return _search(stage, "search device", search_device.__doc__, lambda session: SessionFilter(device=session.device),
                   Side(Bare(stage).page), 20)  # fmt: skip


def search_range(stage: Stage) -> Result:
    """A page of the logins of an hour, compared with the bare first page."""
    now = time.time()
    make_filter: MakeFilter = lambda session: SessionFilter(logged_in_after=now - 7200, logged_in_before=now - 3600)  # noqa: E731
    return _search(stage, "search login range", search_range.__doc__, make_filter, Side(Bare(stage).page), 20)


def search_two(stage: Stage) -> Result:
    """A page by device and first letter of the name, compared with the bare first page."""
    make_filter: MakeFilter = lambda session: SessionFilter(  # noqa: E731
        device=session.device, name_prefix=_first_letters(session)[0]
    )
    return _search(stage, "search two", search_two.__doc__, make_filter, Side(Bare(stage).page), 30)


def search_three(stage: Stage) -> Result:
    """A page by device, first letter of the name and half of all addresses, compared with the bare first page."""
    make_filter: MakeFilter = lambda session: SessionFilter(  # noqa: E731
        device=session.device, name_prefix=_first_letters(session)[0], ip="0.0.0.0/1"
    )
    return _search(stage, "search three", search_three.__doc__, make_filter, Side(Bare(stage).page), 50)


def search_contains(stage: Stage) -> Result:
    """The first page of names with "an" in them, compared with the bare first page."""
    return _search(stage, "search contains, dense", search_contains.__doc__,
                   lambda session: SessionFilter(name_contains="an"), Side(Bare(stage).page), 20)  # fmt: skip


def search_nothing(stage: Stage) -> Result:
    """A text that no name contains, to the end, compared with a ZSCAN of the list and HGETs of each name, pipelined."""
    presence, redis, keys = stage.presence, stage.redis, stage.keys

    def ours(_: object) -> None:
        assert presence.count_sessions(SessionFilter(name_contains="zzqx")) == 0

    def theirs(_: object) -> None:
        cursor, prefix = None, keys.record_prefix.encode()
        while cursor != 0:
            cursor, entries = redis.zscan(keys.sessions, cursor or 0, count=1000)
            pipe = redis.pipeline(transaction=False)
            for ref, _score in entries:
                pipe.hget(prefix + ref, "n")
            assert not any(b"zzqx" in (name or b"").lower() for name in pipe.execute())

    result = compare(stage, "search, no match", search_nothing.__doc__, Side(ours), Side(theirs), runs=3)
    assert result.ours is not None
    floor = (3 if stage.server == "valkey" else 5) * stage.size / 1_000_000
    result.targets.append(Target("s", floor, result.ours.p50 / 1e6))
    return result


def facets(stage: Stage) -> Result:
    """facets("device"), compared with HGETALL of the counters."""
    presence, redis, keys = stage.presence, stage.redis, stage.keys
    result = compare(stage, "facets", facets.__doc__, Side(lambda _: presence.facets("device")),
                     Side(lambda _: redis.hgetall(keys.facets)), runs=400)  # fmt: skip
    assert result.ours is not None
    result.targets.append(Target("ms", 1, result.ours.p50 / 1000))
    return result


def heartbeats_during_scan(stage: Stage) -> Result:
    """Single heartbeats while another client scans the whole list with a filter that nothing matches."""
    stage.progress("heartbeats during a scan")
    alone = _heartbeats(stage, 3.0)
    done = threading.Event()

    def walk() -> None:
        with Presence(stage.redis, stage.presence.settings) as other:
            while not done.is_set():
                other.count_sessions(SessionFilter(attributes={"no": "such"}))

    walker = threading.Thread(target=walk, daemon=True)
    walker.start()
    time.sleep(0.2)
    during = _heartbeats(stage, 5.0)
    done.set()
    walker.join()
    result = Result("heartbeats during a scan", " ".join((heartbeats_during_scan.__doc__ or "").split()))
    p99 = sorted(during)[int(len(during) * 0.99)]
    result.figures = {
        "alone, median ms": median(alone),
        "during the scan, median ms": median(during),
        "during the scan, p99 ms": p99,
    }
    result.figures |= {"longest ms": spread(during)["longest_ms"]}
    result.targets.append(Target("p99 ms", 15, p99))
    return result


def _heartbeats(stage: Stage, seconds: float) -> list[float]:
    """Milliseconds of each single heartbeat, for this many seconds."""
    out = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        ticket = stage.ticket()
        begin = time.perf_counter()
        assert stage.presence.heartbeat(ticket.uid, ticket.session_id)
        out.append((time.perf_counter() - begin) * 1000)
    return out
