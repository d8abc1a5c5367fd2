"""What a failure means to the caller: a PresenceError with one sentence that names the server and no secret."""

from __future__ import annotations

import re
from typing import Any, Final

import redis
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError

from presence_core.errors import RENAMED, CorruptData, OutcomeUnknown, PresenceError, Unavailable
from presence_core.keyspace import length_of
from presence_core.scripts.calls import Call, command
from presence_core.transport import tls as tls_errors

LOST: Final = (redis.ConnectionError, redis.TimeoutError, OSError)
"""The connection was lost, or no reply came. The builtin TimeoutError is an OSError."""

FAILURES: Final = (*LOST, RedisError, Unavailable)
"""What a node or the way to it may raise; anything else is a bug or an interrupt."""

NOT_RUN: Final = (
    "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY", "NOREPLICAS", "MISCONF"
)  # fmt: skip
"""Codes with which Redis refuses a command for now: it was not run."""

AWAY: Final = ("", "LOADING", "BUSY", "CLUSTERDOWN", "MASTERDOWN")
"""Codes of an Unavailable that concern reads and writes alike: the server is away. "" is a server that did not answer.
A refusal of writes alone is no outage of the server."""

_CODE_OF_CLASS: Final = {
    "BusyLoadingError": "LOADING", "ReadOnlyError": "READONLY", "TryAgainError": "TRYAGAIN",
    "ClusterDownError": "CLUSTERDOWN", "MasterDownError": "MASTERDOWN", "MovedError": "MOVED", "AskError": "ASK",
    "NoScriptError": "NOSCRIPT",
}  # fmt: skip

_FOR_NOW: Final = {
    "LAYOUT": "is being resharded",
    "LOADING": "is still loading its data",
    "READONLY": "is a replica and takes no writes",
    "BUSY": "is busy with another program's script",
    "NOREPLICAS": "has too few replicas and takes no writes (min-replicas-to-write)",
    "MISCONF": "cannot save its data and takes no writes (its log says why)",
    "CLUSTERDOWN": "is part of a cluster that is down",
    "MASTERDOWN": "has lost its master",
    "TRYAGAIN": "is moving this slot to another node",
    "ASK": "is moving this slot to another node",
    "NOSCRIPT": "loses its scripts (SCRIPT FLUSH) as fast as they are loaded",
    "MOVED": "no longer serves this slot",
}
"""What each code says about a server, between its address and "; try again"."""


_NOT_SIGNED_IN: Final = (
    "NOAUTH", "HELLO must be called with the client already authenticated", "invalid username-password pair",
)  # fmt: skip
"""Redis's words where redis-py turns the refusal of a new connection into a lost one."""


def code_of(error: BaseException) -> str:
    """The first word of an error reply. redis-py turns some of these words into classes."""
    if "non local key" in str(error):  # a script has derived a key that has moved to another node
        return "TRYAGAIN"
    return _CODE_OF_CLASS.get(type(error).__name__) or str(error).partition(" ")[0]


def text_of(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__


def needs_cluster(server: str, *, tls: bool) -> Unavailable:
    """The failure of a client of one server if Redis names another node for a key (MOVED): it cannot go there."""
    scheme = "rediss" if tls else "redis"
    return Unavailable(
        f"Redis at {server} is part of a Redis Cluster: its URL must begin with {scheme}+cluster:// (in place of a "
        "redis.Redis pass a redis.RedisCluster).",
        server,
        "MOVED",
    )


def is_frozen(error: BaseException) -> bool:
    """The last part of a shard is being copied to another layout: for this moment it takes no writes."""
    return str(error).startswith("LAYOUT frozen")


def outcome_unknown(error: BaseException, server: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"Redis at {server} did not reply to a change in time. It may be done: check before you repeat it "
        f"({text_of(error)}).",
        server,
    )


_UNKNOWN_IN_SCRIPT: Final = re.compile("Unknown (Redis )?command called from script")  # Redis, Valkey
_CHECKED_KEY: Final = re.compile(r" \(command (\w+)\)$")  # as include/key_types.lua says


def explained(error: BaseException, server: str, *, tls: bool | None = None, call: Call | None = None) -> PresenceError:
    """The failure as our caller sees it. Redis's own sentence is part of it: it contains no secret.

    tls: of a failure to connect, whether by TLS; None: the connection was there. call: what failed, where one call did.
    """
    if isinstance(error, PresenceError):
        return error
    at, code, text = (f"Redis at {server}" if server else "Redis"), code_of(error), text_of(error)
    if code in _FOR_NOW:
        return Unavailable(f"{at} {_FOR_NOW[code]}; try again.", server, code)
    if code == "WRONGTYPE" or "WRONGTYPE" in text:
        advice = "Run presence repair." if "is lost" in text else "Another program uses this namespace."
        return CorruptData(f"{at}: {text.replace('WRONGTYPE ', '')}. {advice}")
    if isinstance(error, redis.OutOfMemoryError) or code == "OOM":
        return Unavailable(
            f"{at} is out of memory and takes no new data: raise maxmemory, or wait until sessions end.", server, "OOM"
        )
    return (
        _access_refused(error, at, server, call)
        or _not_connected(error, at, server, tls)
        or CorruptData(f"{at} could not run a script: {text}.")
    )


def _access_refused(error: BaseException, at: str, server: str, call: Call | None) -> Unavailable | None:
    code, text = code_of(error), text_of(error)
    if isinstance(error, AuthenticationError) or code in ("NOAUTH", "WRONGPASS") or text.startswith(_NOT_SIGNED_IN):
        return Unavailable(f"{at} refused the user name or password.", server)
    missing = "" if call is None else f" ({_missing_permission(call, text)})"
    if text.startswith("unknown command") or _UNKNOWN_IN_SCRIPT.search(text):
        said = text.partition(", with args")[0]
        return Unavailable(
            f"{at} does not have a command that this needs{missing}: {said}. Its configuration renames or disables it "
            f"{RENAMED}; docs/run/acl.md lists the commands.",
            server,
            "NOPERM",
        )
    in_script = "ACL failure in script" in text or "executing the script can't run this command" in text
    if isinstance(error, NoPermissionError) or code == "NOPERM" or in_script:
        return Unavailable(
            f"{at} does not permit this: {text}{missing}. docs/run/acl.md lists what ACL users need.",
            server,
            "NOPERM",
        )
    return None


def _not_connected(error: BaseException, at: str, server: str, tls: bool | None) -> Unavailable | None:
    text = text_of(error)
    if isinstance(error, ResponseError):
        return None
    if isinstance(error, redis.exceptions.MaxConnectionsError) or text == "Too many connections":
        return Unavailable(f"All connections to {at} that its pool allows are in use.", server)
    if type(error).__name__ == "MasterNotFoundError":  # redis-py has two classes of that name; its text names objects
        certificates = ", or the TLS certificates do not match" if tls else ""
        return Unavailable(f"{at}: no Sentinel names a master; they may be unreachable{certificates}.", server)
    tls_failure = None if tls is None else tls_errors.explain_failure(text, uses_tls=tls)
    return Unavailable(f"{at} {tls_failure or f'cannot be reached ({text})'}.", server)


def _missing_permission(call: Call, text: str) -> str:
    """What the ACL user lacks, where Redis leaves it open: it names no key, and 7.0 no command of a script."""
    words = call.words
    if call.script is None:
        return f"{words[0]!s} on {call.key!r}"
    place = re.search(r"@user_script:(\d+)", text)
    line = call.script.text.splitlines()[int(place[1]) - 1] if place else ""
    if command_in_script := re.search(r"\bp?call\('(\w+)'", line) or _CHECKED_KEY.search(text):
        return f"script {call.script.name}: +{command_in_script[1].lower()}"
    if "key" not in text:
        return f"script {call.script.name}"
    tag = call.key.partition("}")[0] + "}:"
    names = (str(key).removeprefix(tag).partition(":") for key in words[3 : 3 + int(words[2])])
    return f"script {call.script.name} on {tag} " + ", ".join(
        dict.fromkeys(f"{name}{colon}{'*' if rest else ''}" for name, colon, rest in names)
    )


# -- which key has a foreign type --------------------------------------------------------------------------------------


def is_unnamed(error: Exception) -> bool:
    """A key has a foreign type, in Redis's own words, which do not name the key."""
    return "WRONGTYPE" in str(error) and "wrong kind of value" in str(error)


def _keys_of(call: Call) -> list[str]:
    words = call.words
    keys = words[1:2] if call.script is None else words[3 : 3 + int(words[2])]
    return [key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key) for key in keys]


def type_checks(call: Call) -> list[Call]:
    """A call for each key of a script that fails if the key does not have our type. A plain command has one key."""
    wanted = [] if call.script is None else [(key, length_of(key)) for key in _keys_of(call)]
    return [command(key, *words) for key, words in wanted if words]


def with_key_name(call: Call, checks: list[Call], replies: list[Any]) -> ResponseError:
    """The same failure with the name of the key, as far as the replies to ``type_checks`` tell."""
    wrong = [check.key for check, reply in zip(checks, replies, strict=False) if "WRONGTYPE" in str(reply)]
    keys = wrong[:1] or _keys_of(call)
    named = keys[0] if len(keys) == 1 else f"one of {keys[0]}, …, {keys[-1]}"
    return ResponseError(f"WRONGTYPE {named} holds data that presence_core did not write")
