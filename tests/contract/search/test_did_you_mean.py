"""What a search text with a mistake may have been meant to be."""

from __future__ import annotations

from typing import Any

import pytest

from presence_core.operations.search import similar
from presence_core.scripts.search import FIND_SIMILAR
from tests.conftest import Bed, every_topology, on
from tests.support.facade import P

PEOPLE = {
    "u1": ("John Smith", "john.smith@example.com"),
    "u2": ("Ada Lovelace", "ada@example.com"),
    "u3": ("Anna Smithson", None),
    "u4": ("Jürgen Müller", None),
    "u5": ("山田 太郎", None),
    "u6": ("Иван Петров", None),
    "u7": ("Grace B. Hopper", None),
    "octocat": (None, None),
}


def _log_in_everyone(p: P) -> None:
    for uid, (name, alias) in PEOPLE.items():
        p.login(uid, name=name, aliases=[alias] if alias else [])


@every_topology
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Jonh Smtih", ["John Smith"]),
        ("Smtih, Jonh", ["Smith John"]),
        ("Mr Jonh Smtih", ["John Smith"]),
        ("jonhsmith", ["John Smith"]),
        ("smtih", ["Smith", "Smithson"]),
        ("Lovelac", []),
        ("Lovleac", ["Lovelace"]),
        ("Lobelace", ["Lovelace"]),
        ("Lvelace", ["Lovelace"]),
        ("Lovellace", ["Lovelace"]),
        ("Loveeelace", []),
        ("grace hoper", ["Grace Hopper"]),
        ("Mulelr", ["Müller"]),
        ("Иавн Петров", ["Иван Петров"]),
        ("山田 太朗", ["山田 太郎"]),
        ("jonh.smtih@example.com", ["john.smith@example.com"]),
        ("ada@exmaple.com", ["ada@example.com"]),
        ("octocta", ["octocat"]),
        ("u9", []),
        ("203.0.113.7", []),
        ("a b c d e Smtih", []),
    ],
)
def test_a_text_with_a_mistake_in_a_word_means_the_name_of_someone(p: P, typed: str, meant: list[str]) -> None:
    _log_in_everyone(p)
    assert p.did_you_mean(typed) == meant
    for text in meant:
        assert p.people(text), "each answer finds someone"


@on("valkey")
def test_someone_who_is_offline_is_meant_after_those_who_are_online(bed: Bed) -> None:
    p = bed.connect(keep_people=600)
    p.freeze()
    gone = p.login("u1", name="Jane Hopper").session
    p.login("u2", name="Jane Hooper")
    p.logout("u1", gone.session_id)
    assert p.did_you_mean("Jane Hoppper") == ["Jane Hopper"]
    assert p.did_you_mean("Jane Hoper") == ["Jane Hooper", "Jane Hopper"]
    assert p.did_you_mean("Jane Hoper", limit=1) == ["Jane Hooper"]
    p.advance(601)
    p.sweep()
    assert p.did_you_mean("Jane Hoper") == ["Jane Hooper"]


@on("valkey")
def test_a_search_for_similar_names_reads_a_limited_part_of_the_index(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = bed.connect()
    letters = "abcdefghijklmnopqrstuvwxyz"
    p.login_many([{"uid": f"x{a}{b}", "name": f"{a}{b}{a} Zed"} for a in letters for b in letters])
    reads: list[int] = []
    decode = FIND_SIMILAR.reply

    def counted(raw: Any) -> Any:
        reads.append(raw[1])
        return decode(raw)

    monkeypatch.setattr(FIND_SIMILAR, "reply", counted)
    p.did_you_mean("aqqz Zdeq")
    assert 200 < max(reads) <= similar.MAX_READS
    monkeypatch.setattr(similar, "MAX_READS", 100)
    reads.clear()
    p.did_you_mean("aqqz Zdeq")
    assert max(reads) == 100
