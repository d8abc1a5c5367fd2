"""A Lua script as Redis sees it.

A script, or an include, names what it needs of ``lua/include`` by ``-- include: name`` lines. The text that Redis sees
is put together here once, when the module is imported; each include is in it once, where it is first named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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


WRITES: Final = frozenset((
    "expire", "hdel", "hincrby", "hset", "hsetnx", "persist", "pexpire", "pexpireat", "rename", "sadd", "set",
    "setrange", "srem", "unlink", "xadd", "xsetid", "xtrim", "zadd", "zrangestore", "zrem", "zremrangebyrank",
))  # fmt: skip
"""The commands of our scripts that write, but for the restores of a reshard, and XDEL, which only undoes."""

_READ_LATE: Final = frozenset(("scard", "ttl", "xinfo", "xlen", "xrange", "zcount"))
"""Commands that a script runs after its first write. All others that only read come before it, and fail there."""

_FUNCTION: Final = re.compile(r"^local function (\w+)\((?:.* end|.*\n(?:(?!end$).*\n)*end)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"--.*")
_WORD: Final = re.compile(r"'?\w+")
_CHECK: Final = "-- check commands\n"


def needed_commands(text: str) -> set[str]:
    """The commands that a script may run with its first write, or after it. Functions of an include that it does not
    call do not count."""
    text = _COMMENT.sub("", text)
    functions = {found[1]: found[0] for found in _FUNCTION.finditer(text)}
    reached, words = "", set(_WORD.findall(_FUNCTION.sub("", text)))
    while called := words & functions.keys():
        reached = "".join(functions.pop(name) for name in called)
        words |= set(_WORD.findall(reached))
    quoted = {word[1:].lower() for word in words if word[0] == "'" and word.isupper()}
    return quoted & (WRITES | _READ_LATE)


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
        begins: scripts that finish what this one begins.
        seldom: commands that it runs in few cases, before which the operation asks for them.

    A script that writes first asks whether the user may run the commands that it may need (include/permissions.lua), at
    its top, or where it has the line ``-- check commands``.
    """

    __slots__ = ("command", "derives", "fenced", "name", "needs", "repeatable", "sha", "shares", "text")

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
        begins: Sequence[Script] = (),
        seldom: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.shares = shares
        self.derives = derives
        head, _, body = (_LUA / f"{name}.lua").read_text("utf-8").partition("\n")
        is_read_only = "flags=no-writes" in head
        own = set() if is_read_only else needed_commands(_expand(body, set())) - {*seldom}
        self.needs: list[str] = sorted(own.union(*(script.needs for script in begins)))
        if self.needs:
            names = ", ".join(f"'{name}'" for name in self.needs)
            check = f"do local refused = refusal({{{names}}}) if refused then return refused end end\n"
            body = body.replace(_CHECK, check) if _CHECK in body else check + body
            body = f"-- include: permissions\n{body}"
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
