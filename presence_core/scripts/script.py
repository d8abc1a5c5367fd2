"""A Lua script as Redis sees it.

A script, or an include, names what it needs of ``lua/include`` by ``-- include: name`` lines. The text that Redis sees
is put together here once, when the module is imported; each include is in it once, where it is first named.
"""

from __future__ import annotations

import re
from hashlib import sha1
from importlib.resources import files
from typing import Final

from presence_core.text.search_text import NAME_CUT, fold_table, letter_table

_LUA = files("presence_core") / "lua"
_INCLUDE: Final = re.compile(r"^-- include: ([\w/]+)\n", re.MULTILINE)


def _expand(text: str, included: set[str]) -> str:
    """Put the includes that a text names in the place of their names, but for those that are there already."""

    def paste(match: re.Match[str]) -> str:
        if match[1] in included:
            return ""
        included.add(match[1])
        return _expand((_LUA / "include" / f"{match[1]}.lua").read_text("utf-8"), included)

    return _INCLUDE.sub(paste, text)


class Script:
    """A Lua script as Redis sees it.

    Args:
        name: its path in ``lua``, without the suffix.
        repeatable: it may be sent again when its reply was lost.
        fenced: it runs on one shard. Its last key is the shard's fence, and ``include/fence`` decides whether it may
            run while the shard is copied to another layout, and after that.
        reads_when_frozen: on a frozen shard it may run, and then it only reads.
        alone: it is refused while its shard is copied: the copy would still hold what it removes.
        derives: it reads keys that it does not declare. While a slot moves, it must not follow its declared keys to the
            new node, where it would take the others for missing.
        shares: its call and its reply are small, so it may share a connection with the calls of others.
    """

    __slots__ = ("command", "derives", "fenced", "name", "repeatable", "sha", "shares", "text")

    def __init__(
        self,
        name: str,
        *,
        repeatable: bool,
        reads_when_frozen: bool = False,
        fenced: bool = True,
        alone: bool = False,
        derives: bool = False,
        shares: bool = False,
    ) -> None:
        self.name = name
        self.shares = shares
        self.derives = derives
        head, _, body = (_LUA / f"{name}.lua").read_text("utf-8").partition("\n")
        is_read_only = "flags=no-writes" in head
        if fenced:
            fence = "read" if is_read_only else "read_or_write" if reads_when_frozen else "alone" if alone else "write"
            body = f"-- include: fence/{fence}\n{body}"
        text = _expand(body, set()).replace("INDEX_CUT", str(NAME_CUT + 2))
        if "FOLD_TABLE" in text:
            text = text.replace("FOLD_TABLE", fold_table()).replace("LETTER_TABLE", letter_table())
        self.text = f"{head}\n{text}"
        self.fenced = fenced
        self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()
        self.repeatable = repeatable
        self.command = "EVALSHA_RO" if is_read_only else "EVALSHA"

    def __repr__(self) -> str:
        return f"<Script {self.name}>"
