"""The keys of the ACL users in docs/run/acl.md, as the table of keys says. Their commands are written by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from presence_core.schema.keys import COMMON, SHARD, Family

PAGE: Final = Path(__file__).parents[2] / "docs/run/acl.md"
_LINE: Final = re.compile(r"^user presence-(\w+) .*$", re.MULTILINE)
_WRITTEN: Final = re.compile(r"(?<=[ (])~\{online\S*(?: ~\{online\S*)*")


def keys_of(user: str) -> list[str]:
    """The keys that a user may write."""
    keys = [f"~{{online}}:{_pattern(family)}" for family in COMMON if user in family.writers.split()]
    keys += [f"~{{online:*}}:{_pattern(family)}" for family in SHARD if user in family.writers.split()]
    if user == "site":
        keys.append("~{online:*}:job:")  # a kick names that key and does not write it
    return list(dict.fromkeys(keys))


def _pattern(family: Family) -> str:
    return "history*" if family.prefix.startswith("history") else family.prefix + "*" * ("<" in family.key)


def written() -> str:
    """The page with the keys of the table in each user's line: where its longest list of keys is."""

    def with_keys(line: re.Match[str]) -> str:
        known = max(_WRITTEN.findall(line[0]), key=len)
        return line[0].replace(known, " ".join(keys_of(line[1])))

    return _LINE.sub(with_keys, PAGE.read_text("utf-8"))
