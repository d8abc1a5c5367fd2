"""Random failures, logins and time: what is kept stays within its limits, and lists and rows agree."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from presence_core import LoginRefused
from presence_core.keyspace import split_ref
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.soak import size

DAY = 86_400
PEOPLE = [f"u{number}" for number in range(6)]
WHYS: list[Any] = ["wrong_password", "second_factor", "locked"]


def _step(p: P, chance: random.Random) -> None:
    ip = f"203.0.{chance.randrange(30)}.{chance.randrange(3)}" if chance.random() < 0.9 else None
    act = chance.random()
    if act < 0.35:
        p.login_failed(chance.choice(PEOPLE), why=chance.choice(WHYS), ip=ip)
    elif act < 0.75:
        p.login_failed(f"name-{chance.randrange(400)}", why="unknown_name", ip=ip)
    elif act < 0.85:
        with contextlib.suppress(LoginRefused):
            p.login(chance.choice(PEOPLE), ip=ip)
    elif act < 0.9:
        p.block(chance.choice(PEOPLE), by="sue", reason="test", duration=600)
    else:
        p.advance(chance.choice([1, 60, 1800, 4000, 30_000]))


def _rows(bed: Bed, p: P) -> dict[str, dict[bytes, bytes]]:
    """The rows of each list, by ref."""
    found: dict[str, dict[bytes, bytes]] = {"failed": {}, "failed_names": {}}
    for name, rows in found.items():
        for key in bed.families().get(f"{name}:", []):
            who = key.partition(f":{name}:".encode())[2]
            who = b"\n" + who if name == "failed_names" else who
            rows |= {who + b":" + row: value for row, value in bed.raw.hgetall(key).items() if len(row) > 1}
    return found


def _check(bed: Bed, p: P, now: int, keep: int) -> None:
    shard = p.context.keys.shards[0]
    for name, rows in _rows(bed, p).items():
        key = getattr(shard, name)
        listed = {ref: int(at) for ref, at in bed.raw.zrange(key, 0, -1, withscores=True)}
        kept = {ref for ref, value in rows.items() if int.from_bytes(value[8:16], "big") >= now - keep * 1000}
        assert {ref for ref, at in listed.items() if at >= now - keep * 1000} == kept
        assert bed.raw.zcount(key, f"({now - DAY * 1000}", "+inf") <= 100
        by_person: dict[str, int] = {}
        for ref in kept:
            who, _ = split_ref(ref.decode())
            by_person[who] = by_person.get(who, 0) + 1
        assert max(by_person.values(), default=0) <= 10 + len(WHYS) + 1
    assert bed.raw.hlen(shard.failed_from) <= 1001


@pytest.mark.parametrize("seed", range(size(2, 30)))
@on("valkey-sync", "redis7-sync")
def test_random_failures_stay_within_their_limits(bed: Bed, seed: int) -> None:
    keep = 2 * DAY
    p = bed.connect(shards=1, max_failed_logins=100, keep_failed_logins=keep)
    p.freeze()
    chance, reported = random.Random(seed), 0
    for uid in PEOPLE:
        p.login(uid)
    for number in range(size(300, 3000)):
        _step(p, chance)
        if number % 50 == 49:
            _check(bed, p, p.clock.ms, keep)
    reported = p.counts().failed_logins
    assert sum(failure.count for failure in p.failed_logins(limit=1000).items) <= reported
    assert p.repair().repaired == 0
    for uid in PEOPLE:
        p.erase(uid, by="sue", reason="test")
    assert all(failure.uid is None for failure in p.failed_logins(limit=1000).items)
