"""A Lua script as Redis sees it.

A script, or an include, names what it needs of ``lua/include`` by ``-- include: name`` lines. The text that Redis sees
is put together here once, when the module is imported; each include is in it once, where it is first named. Names in
capitals such as KEPT_SECONDS stand for what the tables of ``schema`` and ``text`` say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, Final, Generic, ParamSpec, TypeAlias, TypeVar

from presence_core.schema import endings, failures, record
from presence_core.schema.record import ENDS, FIELDS, RECORD, Field
from presence_core.text.search_text import MORE, fold_table, letter_table

P = ParamSpec("P")
R = TypeVar("R")

_LUA = files("presence_core") / "lua"
_INCLUDE: Final = re.compile(r"^-- include: ([\w/]+)\n", re.MULTILINE)


def _expand(text: str, included: set[str]) -> str:
    """Put the includes that a text names in the place of their names, but for those that are there already."""

    def paste(match: re.Match[str]) -> str:
        if match[1] in included:
            return ""
        included.add(match[1])
        return _expand(_include(match[1]), included)

    return _INCLUDE.sub(paste, text)


@cache
def _include(name: str) -> str:
    """A file that many scripts include, with the words of our tables in it."""
    return _fill_in((_LUA / "include" / f"{name}.lua").read_text("utf-8"))


_FIELD: Final = re.compile(r"\bR\.(\w+)|\b((?:RECORD|COUNTED|END|LOGIN)_FIELDS)\b")
_PLACES: Final = {field.name: str(place) for place, field in enumerate(FIELDS, 1)}


def _listed(fields: Iterable[Field]) -> str:
    return ", ".join(f"'{field.letter}'" for field in fields)


_LISTS: Final = {
    "RECORD_FIELDS": _listed(RECORD[:-2]),  # without ``declared``, which no reader needs, and ``move``
    "COUNTED_FIELDS": _listed(RECORD),
    "END_FIELDS": _listed(ENDS),
    "LOGIN_FIELDS": _listed(field for field in RECORD if not field.stays),  # that the same login writes again
}
"""What HMGET and HDEL get: a row has the value of ``R.name`` at its place."""


def _fill_in(text: str) -> str:
    """Put the places of a record's fields for ``R.name``, their letters for the names of lists, and what the tables of
    ``schema`` and ``text`` say for words in capitals."""
    text = _FIELD.sub(lambda found: _PLACES[found[1]] if found[1] else _LISTS[found[2]], text)
    text = text.replace("IS_CUT", f"'\\{MORE[0]}'")
    for word, value in (endings.LUA | failures.LUA | record.LUA).items():
        text = text.replace(word, value)
    for word, table in (("FOLD_TABLE", fold_table), ("LETTER_TABLE", letter_table)):
        if word in text:
            text = text.replace(word, table())
    return text


_ARGUMENTS: Final = re.compile(r"^local ([\w,\s]+?)\s*=\s*unpack\(ARGV, 1, ARGS\)$", re.MULTILINE)
_KEYS: Final = re.compile(r"^local ([\w,\s]+?)\s*=\s*unpack\(KEYS\b.*\)$", re.MULTILINE)

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
_COMMENT_OR_COMMAND: Final = re.compile(r"--.*|(\bp?call\('(?:(?!--).)*?) *(?=(?:redis\.)?\bp?call\(')")


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


def _one_command_a_line(text: str) -> str:
    """Redis reports the line of a script where a command fails, and not the command."""
    return _COMMENT_OR_COMMAND.sub(lambda found: f"{found[1]}\n" if found[1] else found[0], text)


def as_sent(reply: Any) -> Any:
    """A reply that is used as Redis sends it: a number or a text, or nothing that anyone reads."""
    return reply


def _names(statement: re.Pattern[str], body: str) -> tuple[str, ...]:
    found = statement.search(body)
    return tuple(re.findall(r"\w+", found[1])) if found else ()


class Script(Generic[P, R]):
    """A Lua script as Redis sees it, and how its reply is read.

    Args:
        name: its path in ``lua``, without the suffix.
        reply: decodes its reply.
        repeatable: it may be sent again when its reply was lost.
        fenced: it runs on one shard. Its last key is the shard's fence, and ``include/fence`` decides whether it may
            run while the shard is copied to another layout, and after that.
        reads_when_frozen: on a frozen shard it may run, and then it only reads.
        alone: it is refused while its shard is copied: the copy would still hold what it removes.
        derives: it reads keys that it does not declare. While a slot moves, it must not follow its declared keys to the
            new node, where it would take the others for missing.
        shares: its call and its reply are small, so it may share a connection with the calls of others.
        begins: scripts that finish what this one begins.
        seldom: commands that it runs in few cases: as its first write, or where the operation asks for them before.

    A script of many arguments names them in one statement, ``local now, uid, … = unpack(ARGV, 1, ARGS)``; ARGS is how
    many it names. ``call_of`` takes them by these names, in any order, and further ones behind them. So does ``keys``
    for the keys that it names in one statement, ``local job, note_key, … = unpack(KEYS, 14, 16)``.

    A script that writes first asks whether the user may run the commands that it may need (include/permissions.lua), at
    its top, or where it has the line ``-- check commands``.
    """

    __slots__ = (
        "args",
        "command",
        "derives",
        "fenced",
        "key_names",
        "name",
        "needs",
        "repeatable",
        "reply",
        "sha",
        "shares",
        "text",
    )

    def __init__(
        self,
        name: str,
        *,
        repeatable: bool,
        reply: Callable[P, R],
        reads_when_frozen: bool = False,
        fenced: bool = True,
        alone: bool = False,
        derives: bool = False,
        shares: bool = False,
        begins: Sequence[AnyScript] = (),
        seldom: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.reply = reply
        self.shares = shares
        self.derives = derives
        head, _, body = (_LUA / f"{name}.lua").read_text("utf-8").partition("\n")
        is_read_only = "flags=no-writes" in head
        self.args, self.key_names = _names(_ARGUMENTS, body), _names(_KEYS, body)
        body = _fill_in(re.sub(r"\bARGS\b", str(len(self.args)), body))
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
        self.text = f"{head}\n{_one_command_a_line(_expand(body, set()))}"
        self.fenced = fenced
        self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()
        self.repeatable = repeatable
        self.command = "EVALSHA_RO" if is_read_only else "EVALSHA"

    def __repr__(self) -> str:
        return f"<Script {self.name}>"

    def keys(self, **named: str) -> tuple[str, ...]:
        """The keys that it names, in its order."""
        assert named.keys() == set(self.key_names), f"{self.name} has the keys {self.key_names}"
        return tuple(named[name] for name in self.key_names)


AnyScript: TypeAlias = Script[..., Any]
