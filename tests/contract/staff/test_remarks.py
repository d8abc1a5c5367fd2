"""Remarks of staff on a person: who left them, how long they stay, and how many there may be."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from presence_core import InvalidArgument
from presence_core.operations.staff import remarks as limits
from tests.conftest import Bed, every_topology, on
from tests.support.facade import P


@every_topology
def test_a_remark_is_read_for_a_person_among_people_and_for_all(bed: Bed) -> None:
    p = bed.connect(keep_remarks=3600)
    p.freeze()
    assert p.remarks() == p.remarks("u1") == []
    assert p.remarks_among(["u1", "u2"]) == p.remarks_among([]) == {}
    first = p.add_remark("u1", "  calls about refunds\nbe kind ", by="dana")
    assert (first.uid, first.text, first.by) == ("u1", "calls about refunds\nbe kind", "dana")
    assert (first.at, first.until) == (p.clock.now, p.clock.now + timedelta(hours=1))
    p.advance(1)
    second = p.add_remark("u1", "paid", by="sam")
    p.advance(1)
    third = p.add_remark("a:{b}", "VIP", by="sam")
    assert p.remarks("u1") == [second, first]
    assert p.remarks() == [third, second, first]
    assert p.remarks(limit=1) == [third]
    assert p.remarks_among(["u1", "a:{b}", "u9"]) == {"u1": [second, first], "a:{b}": [third]}
    assert p.remove_remark("u1", second.id, by="eve")
    assert not p.remove_remark("u1", second.id, by="eve")
    assert not p.remove_remark("u2", third.id, by="eve"), "it is on another person"
    assert p.remarks() == [third, first]


@on("valkey")
def test_the_audit_says_who_left_and_removed_a_remark_and_not_its_text(p: P) -> None:
    remark = p.add_remark("u1", "calls about refunds", by="dana")
    p.remove_remark("u1", remark.id, by="sam")
    assert [(entry.action, entry.by, entry.uid) for entry in p.audit()] == [
        ("remove_remark", "sam", "u1"),
        ("add_remark", "dana", "u1"),
    ]
    assert "refunds" not in str(p.audit().items)


@on("valkey", "redis7")
def test_a_remark_lapses_and_leaves_no_key(bed: Bed) -> None:
    p = bed.connect(keep_remarks=3600)
    p.freeze()
    p.add_remark("u1", "first", by="dana")
    p.advance(1800)
    second = p.add_remark("u1", "second", by="dana")
    p.add_remark("u2", "other", by="dana")
    p.advance(1801)
    assert p.remarks("u1") == [second]
    assert len(p.remarks()) == 2
    p.advance(1800)
    assert p.remarks("u1") == p.remarks() == []
    assert p.remarks_among(["u1"]) == {}
    assert bed.raw.pttl(p.context.shard("u1").remarks("u1")) > 0, "Redis removes it"
    kept = p.add_remark("u3", "third", by="dana")
    assert bed.raw.zrange(p.context.shard("u3").remarked, 0, -1) == [b"u3"], "the lapsed ones are gone"
    p.remove_remark("u3", kept.id, by="dana")
    assert not bed.raw.exists(p.context.shard("u3").remarked, p.context.shard("u3").remarks("u3"))


@on("valkey")
def test_the_number_of_remarks_is_limited_for_a_person_and_in_all(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    p.freeze()
    kept = [p.add_remark("u1", f"remark {n}", by="dana") for n in range(limits.MAX_REMARKS)]
    with pytest.raises(InvalidArgument, match=r"^uid has 10 remarks, the limit"):
        p.add_remark("u1", "one too many", by="dana")
    p.remove_remark("u1", kept[0].id, by="dana")
    p.add_remark("u1", "another", by="dana")
    monkeypatch.setattr(limits, "MAX_PEOPLE", 1)
    p.remove_remark("u1", kept[1].id, by="dana")
    p.add_remark("u1", "again", by="dana")
    with pytest.raises(InvalidArgument, match="limit of 1 people with remarks is reached"):
        p.add_remark("u2", "too many", by="dana")
    assert len(p.remarks()) == limits.MAX_REMARKS


@on("valkey")
def test_remarks_of_a_foreign_form_are_left_out(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    good = p.add_remark("u1", "good", by="dana")
    key = p.context.shard("u1").remarks("u1")
    far = str(p.clock.ms + 10_000)
    rows = [
        "",
        "{",
        "[]",
        '"x"',
        json.dumps({"text": "x"}),
        json.dumps({"text": 5, "by": "x", "at": far, "until": far}),
    ]
    for number, row in enumerate(rows):
        bed.raw.hset(key, f"bad{number}", row)
    assert p.remarks("u1") == [good]
    p.add_remark("u1", "removes them", by="dana")
    assert bed.raw.hlen(key) == 3, "of the others only the one with an end stays, until then"
    bed.raw.delete(key)
    bed.raw.set(key, "text")
    assert p.remarks("u1") == []
