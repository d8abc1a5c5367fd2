"""What staff save, and who has a person open."""

from __future__ import annotations

import json
from typing import Any

import pytest

from presence_core import CorruptData, InvalidArgument, SavedItem
from presence_core.operations.staff import saved_items as limits
from tests.conftest import Bed, every_backend, on
from tests.support.facade import P


def names(items: list[SavedItem]) -> list[tuple[str, bool]]:
    return [(item.name, item.shared) for item in items]


@every_backend
def test_saved_items_are_own_or_shared_and_shared_changes_are_audited(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    assert p.saved_items("view") == p.saved_items("view", owner="sam") == []
    own = p.save_item("view", "iPhones", "device=iPhone", by="Sam")
    assert own == SavedItem("view", "iPhones", "device=iPhone", "sam", "Sam", p.clock.now)
    assert p.saved_items("view", owner="SAM") == [own]
    shared = p.save_item("view", "Ünïcode / ✓", "q=ø\n\t\"'\\", by="dana", shared=True)
    assert p.saved_items("view", owner="sam") == [own, shared]
    assert p.saved_items("view", owner="dana") == p.saved_items("view") == [shared]
    assert p.saved_items("phrase", owner="sam") == []
    p.advance(5)
    changed = p.save_item("view", "iPhones", "device=iPad", by="sam")
    assert (changed.text, changed.at) == ("device=iPad", p.clock.now)
    assert names(p.saved_items("view", owner="sam")) == [("iPhones", False), ("Ünïcode / ✓", True)]
    p.save_item("view", "Spam", "q=x", by="eve", shared=True, instead_of="Ünïcode / ✓")
    assert names(p.saved_items("view")) == [("Spam", True)]
    assert p.remove_item("view", "iPhones", by="sam")
    assert not p.remove_item("view", "iPhones", by="sam")
    assert not p.remove_item("view", "Spam", by="sam"), "their own list has none of this name"
    assert p.remove_item("view", "Spam", by="sam", shared=True)
    assert p.saved_items("view", owner="sam") == []
    assert "saved" not in bed.families()
    assert [(entry.action, entry.by, entry.outcome) for entry in p.audit()] == [
        ("shared_item", "sam", 'view "Spam" removed for everyone'),
        ("shared_item", "eve", 'view "Spam" saved for everyone, was "Ünïcode / ✓"'),
        ("shared_item", "dana", 'view "Ünïcode / ✓" saved for everyone'),
    ]


@on("valkey-sync", "redis7-async")
def test_a_list_of_saved_items_is_bounded_in_number_and_size(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ITEMS", 3)
    monkeypatch.setattr(limits, "LISTS", 2)
    for number in range(3):
        p.save_item("watch", f"u{number}", "", by="sam")
    with pytest.raises(InvalidArgument, match=r"^name cannot be added: the limit of 3 saved items is reached"):
        p.save_item("watch", "u3", "", by="sam")
    p.save_item("watch", "u2", "Ann", by="sam")
    p.save_item("watch", "u4", "", by="sam", instead_of="u0")
    p.save_item("watch", "u3", "", by="dana")
    with pytest.raises(InvalidArgument, match=r"^by cannot save: the limit of 2 lists"):
        p.save_item("watch", "u3", "", by="eve")
    monkeypatch.setattr(limits, "LIST_BYTES", 200)
    with pytest.raises(InvalidArgument, match=r"^text cannot be added: the limit of 200 bytes of saved items"):
        p.save_item("watch", "u3", "x" * 200, by="dana")
    assert p.remove_item("watch", "u4", by="sam"), "a list that is too large can be made smaller"


@on("valkey-sync")
def test_a_damaged_list_of_saved_items_reads_as_empty_and_can_be_written(bed: Bed, p: P) -> None:
    p.save_item("phrase", "a", "b", by="sam")
    [key] = bed.families()["saved"]
    good = json.loads(bed.raw.hget(key, "phrase\nsam"))["a"]
    bad_rows: list[Any] = [None, 5, "x", [], {}, good | {"at": "soon"}, good | {"text": 5}]
    for junk in (b"", b"\xff", b"[]", b"5", b"{", b"[" * 5000):
        bed.raw.hset(key, "phrase\nsam", junk)
        assert p.saved_items("phrase", owner="sam") == []
    bed.raw.hset(key, "phrase\nsam", json.dumps({"a": good} | {f"bad{n}": row for n, row in enumerate(bad_rows)}))
    assert names(p.saved_items("phrase", owner="sam")) == [("a", False)]
    bed.raw.hset(key, "phrase\nsam", b"{")
    assert p.export_person("sam")["saved"] == []
    p.save_item("phrase", "a", "b", by="sam")
    assert names(p.saved_items("phrase", owner="sam")) == [("a", False)]
    bed.raw.delete(key)
    bed.raw.set(key, "mine")
    with pytest.raises(CorruptData):
        p.save_item("phrase", "a", "b", by="sam")
    with pytest.raises(CorruptData):
        p.saved_items("phrase")
    assert p.export_person("sam")["saved"] == []


@on("valkey-sync", "redis7-async")
def test_an_erased_person_is_in_no_saved_item_and_loses_their_own(p: P) -> None:
    p.login("ada@example.com", name="Ada Lovelace", ip="192.0.2.7")
    p.save_item("view", "mine", "q=x", by="Ada@example.com")
    p.save_item("watch", "ada@example.com", "Ada Lovelace", by="sam")
    p.save_item("watch", "bob", "Bob", by="sam")
    p.save_item("watch", "44", "Ada lovelace's friend", by="dana")
    view = json.dumps({"q": "Ada Lovelace", "ip": "192.0.2.7", "os": "iOS"})
    p.save_item("view", "Ada Lovelace again", view, by="dana", shared=True)
    p.save_item("phrase", "Spam", "Sends spam.", by="ada@example.com", shared=True)
    exported = p.export_person("ada@example.com")["saved"]
    assert [(item["kind"], item["name"], item["owner"]) for item in exported] == [
        ("view", "mine", "ada@example.com"),
        ("watch", "ada@example.com", "sam"),
    ]
    report = p.erase("ada@example.com", by="dpo", reason="asked")
    assert report.complete
    alias = report.pseudonym
    assert p.saved_items("view", owner="ada@example.com") == p.saved_items("view")
    [shared] = p.saved_items("view")
    assert (shared.name, json.loads(shared.text)) == (f"{alias} again", {"q": alias, "ip": alias, "os": "iOS"})
    assert [item.name for item in p.saved_items("watch", owner="sam")] == ["bob"]
    assert [(item.name, item.text) for item in p.saved_items("watch", owner="dana")] == [("44", f"{alias}'s friend")]
    assert [(item.text, item.by) for item in p.saved_items("phrase")] == [("Sends spam.", alias)]
    assert p.erase("ada@example.com", by="dpo", reason="asked").rewritten == 0


# -- viewers ----------------------------------------------------------------------------------------------------------


@every_backend
def test_a_viewer_sees_the_others_until_they_close_the_person_or_expire(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    assert p.note_viewer("ada", by="sam") == []
    sam_since = p.clock.now
    p.advance(20)
    assert [(viewer.name, viewer.since) for viewer in p.note_viewer("ada", by="dana")] == [("sam", sam_since)]
    assert [viewer.name for viewer in p.note_viewer("ada", by="sam")] == ["dana"]
    p.advance(20)
    [sam] = p.note_viewer("ada", by="dana")
    assert sam.since == sam_since, "a renewed note keeps its beginning"
    assert p.note_viewer("ada", by="sam", closed=True)[0].name == "dana"
    assert p.note_viewer("ada", by="dana") == p.note_viewer("bob", by="dana") == []
    p.advance(31)
    assert p.note_viewer("ada", by="sam") == []
    assert 0 < bed.raw.ttl(f"{{{bed.namespace}}}:viewers:ada") <= 30


@on("valkey-sync")
def test_a_crowd_of_viewers_is_bounded(p: P) -> None:
    for number in range(60):
        p.note_viewer("ada", by=f"staff {number:02}")
    assert len(p.note_viewer("ada", by="sam")) == 50
