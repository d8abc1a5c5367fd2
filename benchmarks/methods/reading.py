"""Reads of pages and support staff."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Result, Side, Target, compare, server_target
from benchmarks.methods.bare import Bare
from benchmarks.stage import Stage
from presence_core import ListOrder, Session, SessionFilter
from presence_core.operations.search.list_sessions import make_cursor

SMALL = 10_000
"""Every other size is compared with this one."""

PAGE = 50
PAGES = 40
DEPTH = 10_000
"""Pages before the deep page."""


def page_first(stage: Stage) -> Result:
    """The first page of 50, compared with ZREVRANGE 50 WITHSCORES, then one pipeline of HGETALLs of the same 50
    records."""
    bare = Bare(stage)
    result = compare(stage, "page, first", page_first.__doc__, _page(stage), Side(bare.page), runs=400)
    assert result.ratio is not None
    result.targets.append(Target("× bare", 1.3, result.ratio))
    return result


def page_read(stage: Stage) -> Result:
    """The first page of 50 with every field of its sessions read, compared with the same bare commands."""
    names = [item.name for item in fields(Session)]

    def ours(_: object) -> None:
        for session in stage.presence.list_sessions(limit=PAGE):
            for name in names:
                getattr(session, name)

    bare = Bare(stage)
    result = compare(stage, "page, every field", page_read.__doc__, Side(ours), Side(bare.page), runs=400)
    assert result.ratio is not None
    result.targets.append(Target("× bare", 1.3, result.ratio))
    return result


def page_growth(stage: Stage) -> Result | None:
    """The first page of 50, compared with the same call on a second server that holds 10,000 sessions."""
    if stage.size <= SMALL:
        return None
    with (
        TemporaryDirectory(prefix="bench-") as directory,
        Stage(stage.server, SMALL, Path(directory), quiet=True) as small,
    ):
        small.load()
        result = compare(stage, "page, here / at 10k", page_growth.__doc__, _page(stage), _page(small), runs=400)
    assert result.ratio is not None
    result.targets.append(Target("× at 10k", 1.3, result.ratio))
    return result


def page_deep(stage: Stage) -> Result:
    """The page after 10,000 others (or the last full one), by cursor, compared with the first page."""
    return _deep(stage, "page, deep", page_deep.__doc__, gone=False)


def page_deep_gone(stage: Stage) -> Result:
    """The same, when the session that the cursor names has ended, compared with the first page."""
    return _deep(stage, "page, deep, place gone", page_deep_gone.__doc__, gone=True)


def page_last_seen(stage: Stage) -> Result:
    """The first page of 50 by last seen, compared with the first page by login."""
    return _by_last_seen(stage, "page, last seen", page_last_seen.__doc__, None)


def page_last_seen_filtered(stage: Stage) -> Result:
    """The first page of 50 of a device by last seen, compared with the same by login."""
    return _by_last_seen(stage, "page of a device, last seen", page_last_seen_filtered.__doc__, _common_device(stage))


def page_last_seen_rare(stage: Stage) -> Result:
    """The first page of 50 of a whole name by last seen, compared with the same by login."""
    name = stage.presence.list_sessions(limit=1).items[0].name
    return _by_last_seen(
        stage, "page of a name, last seen", page_last_seen_rare.__doc__, SessionFilter(name_prefix=name)
    )


def _common_device(stage: Stage) -> SessionFilter:
    return SessionFilter(device=next(iter(stage.presence.facets("device"))))


def _by_last_seen(stage: Stage, name: str, compared: str | None, asked: SessionFilter | None) -> Result:
    def page(order: ListOrder) -> Side:
        return Side(lambda _: stage.presence.list_sessions(asked, order=order, limit=PAGE))

    result = compare(stage, name, compared, page("last_seen"), page("login"), runs=200)
    assert result.ours is not None
    result.targets.append(Target("server ms", 5, result.ours.server_us / 1000))
    return result


def pages_last_seen(stage: Stage) -> Result:
    """The first 40 pages of 50 by last seen, one after another, a page, compared with the same by login."""

    def pages(order: ListOrder) -> Side:
        def turn(_: object) -> None:
            cursor = None
            for _ in range(PAGES):
                page = stage.presence.list_sessions(order=order, limit=PAGE, cursor=cursor)
                cursor = page.next_cursor

        return Side(turn)

    name = "40 pages, last seen"
    return compare(stage, name, pages_last_seen.__doc__, pages("last_seen"), pages("login"), runs=10, units=PAGES)


def _deep(stage: Stage, name: str, compared: str | None, *, gone: bool) -> Result:
    pages = min(DEPTH, stage.size // PAGE - 1)
    # The cursor that the page before this one would have given.
    [(ref, login)] = stage.redis.zrevrange(stage.keys.sessions, pages * PAGE - 1, pages * PAGE - 1, withscores=True)
    cursor = make_cursor((int(login), ref.decode()[:-8] + "--------" if gone else ref.decode()))
    result = compare(stage, name, compared, _page(stage, cursor), _page(stage), runs=300)
    assert result.ratio is not None
    result.figures["pages before"] = pages
    result.targets.append(Target("× first page", 1.3, result.ratio))
    return result


def _page(stage: Stage, cursor: str | None = None) -> Side:
    def page(_: object) -> None:
        assert len(stage.presence.list_sessions(limit=PAGE, cursor=cursor)) == PAGE

    return Side(page)


def sessions(stage: Stage) -> Result:
    """sessions(uid) of random users, compared with SMEMBERS, then one pipeline of HGETALLs."""
    presence, bare = stage.presence, Bare(stage)

    def ours(uid: str) -> None:
        assert presence.sessions(uid)

    def uid() -> str:
        return stage.ticket().uid

    return compare(stage, "sessions(uid)", sessions.__doc__, Side(ours, uid), Side(bare.sessions_of, uid), runs=800)


def get(stage: Stage) -> Result:
    """get of one session, compared with HGETALL of its record."""
    presence, bare = stage.presence, Bare(stage)

    def record() -> str:
        return stage.keys.record_prefix + stage.ticket().ref

    return compare(
        stage,
        "get",
        get.__doc__,
        Side(lambda ticket: presence.get(ticket.uid, ticket.session_id), stage.ticket),
        Side(bare.redis.hgetall, record),
        runs=800,
    )


def counts(stage: Stage) -> Result:
    """counts, compared with one pipeline of ZCARD ×2 and HGETALL of the totals."""
    presence, bare = stage.presence, Bare(stage)
    result = compare(stage, "counts", counts.__doc__, Side(lambda _: presence.counts()), Side(bare.counts), runs=800)
    return server_target(result, 13)


FRIENDS = 500
"""Friends of one user, half of them online."""


def online_among(stage: Stage) -> Result:
    """online_among of 500 friends, half of them online, compared with one ZMSCORE of the same uids."""
    presence, bare = stage.presence, Bare(stage)

    def friends() -> list[str]:
        online = [stage.ticket().uid for _ in range(FRIENDS // 2)]
        return online + [f"away{number}" for number in range(FRIENDS - len(online))]

    def ours(uids: list[str]) -> None:
        assert len(presence.online_among(uids)) > FRIENDS // 3

    result = compare(
        stage, "online among 500", online_among.__doc__, Side(ours, friends), Side(bare.seen, friends), runs=400
    )
    assert result.ours is not None
    result.targets.append(Target("ms", 2.0, result.ours.p50 / 1000))
    return result


def count_users(stage: Stage) -> Result:
    """count_users(600), compared with one ZCOUNT."""
    presence, bare = stage.presence, Bare(stage)
    ours = Side(lambda _: presence.count_users(600))
    return compare(stage, "count_users", count_users.__doc__, ours, Side(bare.count_users), runs=800)
