"""The table of keys: the documents and the ACL users agree with it, and each key of a user and of a shard is in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_type_hints

import pytest

from presence_core.keyspace import Common, Keyspace, Shard, layout_key, length_of
from presence_core.schema.keys import COMMON, SHARD, family_of
from tests.golden import acl_users

DOCS = Path(__file__).parents[3] / "docs"
EVERY = (*SHARD, *COMMON)


def test_the_document_of_keys_has_a_row_for_each_family() -> None:
    text = (DOCS / "keys.md").read_text("utf-8")
    rows = re.findall(r"^\| `(?:T|\{<namespace>\}):(.+?)` ([A-Z]+) \|", text, re.MULTILINE)
    assert sorted(rows) == sorted((family.key, family.type) for family in EVERY)


def test_the_document_of_privacy_names_each_family_with_personal_data() -> None:
    text = (DOCS / "run/privacy.md").read_text("utf-8")
    assert [family.prefix for family in EVERY if family.person and f"`{family.prefix}`" not in text] == []


@pytest.mark.parametrize("user", ["site", "worker", "viewer", "support"])
def test_an_acl_user_may_write_the_families_that_it_needs(user: str) -> None:
    """After a change of the table, ``python -m tests.golden`` writes them."""
    [line] = re.findall(rf"^user presence-{user} .*$", (DOCS / "run/acl.md").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r" \(?(~\S+)", line)) == set(acl_users.keys_of(user))
    assert acl_users.written() == acl_users.PAGE.read_text("utf-8")


def test_the_attributes_of_a_shard_are_the_keys_that_it_has_once() -> None:
    once = {family.key for family in SHARD if "<" not in family.key}
    assert get_type_hints(Shard).keys() == once
    assert {getattr(Keyspace("online", 2).shards[1], name) for name in once} == {
        f"{{online:2:13286}}:{name}" for name in once
    }


def test_every_key_that_is_made_belongs_to_a_family() -> None:
    s, common = Keyspace("online", 1).shards[0], Common("online")
    made = [s.record("a:b", "c"), s.rotated("a:b", "c"), s.note("n"), s.job("j"), s.retold("t"), s.known("a:b"),
            s.place("a"), s.block("a"), s.person("a"), s.ended_of("a"), s.failures("a"),
            s.failures_of_name("0a"), *s.of_user("a:b"), *s.every_of_user("a"),
            *s.lists, common.history, common.worker, common.mirror, common.top, common.denied, common.moving,
            common.api_keys, common.notice,
            common.visitors,
            f"{common.visits}:7", f"{common.logouts}:7", common.samples(10, 7), common.viewers("a"), common.split(7),
            layout_key("online")]  # fmt: skip
    found = {
        family_of(key.partition("}:")[2]) for key in (*made, *(getattr(s, name) for name in get_type_hints(Shard)))
    }
    assert found == set(EVERY)
    assert set(s.of_user("a")) < set(s.every_of_user("a"))


def test_a_key_of_a_foreign_type_is_found_by_a_command_of_its_own_type() -> None:
    assert length_of("{online:1:0}:ended") == ("ZCARD", "{online:1:0}:ended")
    assert length_of("{online:1:0}:place:a:b") == ("GETRANGE", "{online:1:0}:place:a:b", "0", "0")
    assert length_of("{online}:history") == ("HLEN", "{online}:history")
    assert length_of("{online}:history:10:7") == ("GETRANGE", "{online}:history:10:7", "0", "0")
    assert length_of("{online}:history:split:7") == ("HLEN", "{online}:history:split:7")
    assert length_of("{online:1:0}:sessions:x") == length_of("friends") == ()
