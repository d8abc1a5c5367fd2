"""How sessions end: by logout, kick or expiry."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice

from benchmarks.measure import Result, Side, Target, compare, server_target
from benchmarks.methods.bare import Bare, BareSession
from benchmarks.stage import Stage, Ticket

BY = "support@example.org"
REASON = "Asked by the account's owner, who does not know this device."
MESSAGE = "You were signed out by our support team. Please sign in again."


def kick(stage: Stage) -> Result:
    """kick of one session, compared with a pipeline of ZREM ×2, SREM, HSET and EXPIRE of a tombstone, ZADD."""

    def ours(ticket: Ticket) -> None:
        assert stage.presence.kick(ticket.uid, ticket.session_id, by=BY, reason=REASON, message=MESSAGE)

    return _end_one(stage, "kick", kick.__doc__, ours)


def logout(stage: Stage) -> Result:
    """logout, compared with the same pipeline."""

    def ours(ticket: Ticket) -> None:
        assert stage.presence.logout(ticket.uid, ticket.session_id)

    return _end_one(stage, "logout", logout.__doc__, ours)


def _end_one(stage: Stage, name: str, compared: str | None, ours: Callable[[Ticket], None]) -> Result:
    return compare(
        stage,
        name,
        compared,
        Side(ours, lambda: stage.new_tickets(stage.new_rows(1))[0]),
        _bare_end(Bare(stage), lambda: stage.new_rows(1)),
        runs=300,
    )


def _bare_end(bare: Bare, rows: Callable[[], list[dict[str, object]]]) -> Side:
    def prepare() -> list[BareSession]:
        sessions = bare.sessions(rows())
        bare.log_in(sessions)
        return sessions

    return Side(lambda sessions: bare.end([run.ref for run in sessions]), prepare, bare.take_away)


def kick_all(stage: Stage) -> Result:
    """kick of a user's five sessions, compared with SMEMBERS, then the bare end of five in one pipeline."""
    return _kick_all(stage, 5, kick_all.__doc__)


def kick_three(stage: Stage) -> Result:
    """The same with three sessions."""
    return server_target(_kick_all(stage, 3, kick_three.__doc__), 107)


def _kick_all(stage: Stage, count: int, compared: str | None) -> Result:
    presence, bare = stage.presence, Bare(stage)

    def rows() -> list[dict[str, object]]:
        new = stage.new_rows(count)
        return [row | {"uid": new[0]["uid"]} for row in new]

    def ours(uid: str) -> None:
        assert len(presence.kick(uid, by=BY, reason=REASON, message=MESSAGE).kicked) == count

    def theirs(sessions: list[BareSession]) -> None:
        uid = sessions[0].uid
        bare.end([f"{uid}:{sid.decode()}" for sid in bare.redis.smembers(bare.keys.user(uid))])

    return compare(
        stage,
        f"kick all of {count}",
        compared,
        Side(ours, lambda: stage.new_tickets(rows())[0].uid),
        Side(theirs, _bare_end(bare, rows).prepare, bare.take_away),
        runs=200,
    )


def sweep(stage: Stage) -> Result:
    """sweep of sessions past their deadline, compared with the bare end of as many others, in pipelines of 500.

    Must run last: the sessions that the bare commands end leave wrong users and totals.
    """
    count = 1000 if stage.size < 100_000 else 2000
    runs = min(60, stage.redis.zcard(stage.keys.sessions) // count // 3)
    bare, presence = Bare(stage), stage.presence
    # sweep takes the earliest. Each side runs once to warm up, and a fifth of the runs once more alone.
    latest = stage.redis.zrevrange(stage.keys.deadlines, 0, (runs + runs // 5 + 3) * count - 1)
    left = iter([ref.decode() for ref in latest])

    def ours(_: object) -> None:
        assert presence.sweep(limit=count).expired == count

    def theirs(refs: list[str]) -> None:
        for first in range(0, count, 500):
            bare.end(refs[first : first + 500])

    stage.set_clock(int(time.time() * 1000) + 1000 * (presence.settings.idle_timeout + 3600))
    try:
        result = compare(stage, "sweep", sweep.__doc__, Side(ours), Side(theirs, lambda: list(islice(left, count))),
                         runs=runs, units=count, unit="sessions")  # fmt: skip
    finally:
        stage.set_clock(None)
    assert result.ours is not None
    result.targets.append(Target("sessions/s", 40_000, result.ours.rate, at_most=False))
    # A call takes longer if another process gets the core: judge by the undisturbed runs, if there are enough.
    if len(result.undisturbed) >= 3:
        title = f"longest call of {len(result.undisturbed)} undisturbed runs, ms"
        result.targets.append(Target(title, 10, max(result.undisturbed)))
    else:
        result.targets.append(Target("longest call, ms", 10, result.longest["longest_ms"] if result.longest else 0.0))
    return result


_BEATS = """
import json, sys, threading, time
from presence_core import Presence, Settings
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
took = []
with Presence.from_url(sys.argv[1], Settings(idle_timeout=21_600)) as presence:
    refs = [presence.login(f"after-{n}").session for n in range(200)]
    print("ready", flush=True)
    while not done.wait(0.004):
        session = refs[len(took) % 200]
        begin = time.perf_counter()
        assert presence.heartbeat(session.uid, session.session_id)
        took.append((time.perf_counter() - begin) * 1000)
print(json.dumps(took))
"""


def purge(stage: Stage) -> Result:
    """Sign out everyone and sweep all lists, while another process sends about 200 single heartbeats a second.

    Must run last: it leaves no sessions.
    """
    count = int(stage.redis.zcard(stage.keys.sessions))
    stage.progress(f"purge of {count:,}")
    time.sleep(0.01)  # the newest session began before now
    begin = time.perf_counter()
    stage.presence.revoke_before(by=BY, reason=REASON, message=MESSAGE)
    out_after = time.perf_counter() - begin
    words = [sys.executable, "-c", _BEATS, stage.url]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as others:
        assert others.stdout
        assert others.stdout.readline() == "ready\n"
        before, ours = stage.meter(), time.process_time()
        begin = time.perf_counter()
        swept = stage.presence.sweep().expired
        seconds = time.perf_counter() - begin
        server, ours = (stage.meter() - before).cpu_us / 1e6, time.process_time() - ours
        beats = sorted(json.loads(others.communicate()[0]))
    assert swept == count
    assert stage.presence.counts().sessions == 200
    result = Result("purge", (purge.__doc__ or "").partition("\n")[0])
    p99 = beats[int(len(beats) * 0.99)]
    result.figures = {
        "sessions": count,
        "all signed out after, ms": out_after * 1000,
        "removed from all lists after, s": seconds,
        "server CPU, s": server,
        "client CPU, s": ours,
        "heartbeats": len(beats),
        "heartbeat median, ms": beats[len(beats) // 2],
        "heartbeat p99, ms": p99,
        "heartbeat longest, ms": beats[-1],
    }
    result.targets += [
        Target("s for a million", 50, seconds * 1_000_000 / count),
        Target("p99 of heartbeats, ms", 10, p99),
    ]
    return result
