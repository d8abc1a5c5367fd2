"""What a failure means to our caller: one sentence that names the server and no secret."""

from __future__ import annotations

import re
from typing import Any

import redis
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from presence_core.errors import CorruptData, PresenceError, Unavailable
from presence_core.keyspace import length_of
from presence_core.scripts import Call, command
from presence_core.transport import tls as secure


def code_of(error: BaseException) -> str:
    """The error's first word: redis-py strips some codes and turns them into classes."""
    name = type(error).__name__
    by_class = {"BusyLoadingError": "LOADING", "ReadOnlyError": "READONLY", "TryAgainError": "TRYAGAIN",
                "ClusterDownError": "CLUSTERDOWN", "MasterDownError": "MASTERDOWN",
                "MovedError": "MOVED", "AskError": "ASK", "NoScriptError": "NOSCRIPT"}  # fmt: skip
    return by_class.get(name) or str(error).partition(" ")[0]


def _needed(doing: Call, said: str) -> str:
    """What the ACL user lacks, where Redis leaves it open: it names no key, and 7.0 no command of a script."""
    words = doing.words
    if doing.script is None:
        return f"{words[0]!s} on {doing.key!r}"
    place = re.search(r"@user_script:(\d+)", said)
    line = doing.script.text.splitlines()[int(place[1]) - 1] if place else ""
    if ran := re.search(r"redis\.p?call\('(\w+)'", line):
        return f"script {doing.script.name}: +{ran[1].lower()}"
    if "key" not in said:
        return f"script {doing.script.name}"
    tag = doing.key.partition("}")[0] + "}:"
    names = (str(key).removeprefix(tag).partition(":") for key in words[3 : 3 + int(words[2])])
    return f"script {doing.script.name} on {tag} " + ", ".join(
        dict.fromkeys(f"{name}{colon}{'*' if rest else ''}" for name, colon, rest in names)
    )


def is_unnamed(error: Exception) -> bool:
    """Whether a key was of a foreign type, in Redis's own words, which do not name it."""
    return "WRONGTYPE" in str(error) and "wrong kind of value" in str(error)


def _keys_of(call: Call) -> list[str]:
    words = call.words
    keys = words[1:2] if call.script is None else words[3 : 3 + int(words[2])]
    return [key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key) for key in keys]


def probes(call: Call) -> list[Call]:
    """What fails for each of a script's keys that is not of the type that it has with us; a plain command has one."""
    asked = [] if call.script is None else [(key, length_of(key)) for key in _keys_of(call)]
    return [command(key, *words) for key, words in asked if words]


def foreign(call: Call, asked: list[Call], answers: list[Any]) -> ResponseError:
    """The same failure with the name of the key, as far as the answers to ``probes`` tell."""
    wrong = [one.key for one, answer in zip(asked, answers, strict=False) if "WRONGTYPE" in str(answer)]
    keys = wrong[:1] or _keys_of(call)
    named = keys[0] if len(keys) == 1 else f"one of {keys[0]}, …, {keys[-1]}"
    return ResponseError(f"WRONGTYPE {named} holds what presence_core never wrote")


def plain(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__


def meaning(error: BaseException, where: str, *, tls: bool | None = None, doing: Call | None = None) -> PresenceError:
    """What a failure says to our caller. Redis's own sentence is passed on: it names no secret. ``tls``, of one while
    connecting: whether that was by TLS."""
    if isinstance(error, PresenceError):
        return error
    code, at = code_of(error), f"Redis at {where}" if where else "Redis"
    said = plain(error)
    if code == "WRONGTYPE" or "WRONGTYPE" in said:
        return CorruptData(f"{at}: {said.replace('WRONGTYPE ', '')}. Another program shares this namespace.")
    if isinstance(error, AuthenticationError) or code in ("NOAUTH", "WRONGPASS"):
        return Unavailable(f"{at} refused the user name or password.", where)
    in_script = "ACL failure in script" in said or "executing the script can't run this command" in said
    if isinstance(error, NoPermissionError) or code == "NOPERM" or in_script:
        what = "" if doing is None else f" ({_needed(doing, said)})"
        return Unavailable(
            f"{at} does not permit this: {said}{what}. docs/operations.md lists what ACL users need.", where, "NOPERM"
        )
    if isinstance(error, redis.OutOfMemoryError) or code == "OOM":
        return Unavailable(
            f"{at} is out of memory: what adds data waits until maxmemory is raised or sessions end.", where, "OOM"
        )
    explained = {
        "LAYOUT": "has data that are being moved to another number of shards (presence migrate)",
        "LOADING": "is still loading its data",
        "READONLY": "is a replica and takes no writes",
        "BUSY": "is busy with another program's script",
        "NOREPLICAS": "has too few replicas and takes no writes (min-replicas-to-write)",
        "MISCONF": "cannot save its data and takes no writes (its log says why)",
        "CLUSTERDOWN": "is part of a cluster that is down",
        "MASTERDOWN": "has lost its master",
        "TRYAGAIN": "is moving this slot to another node",
        "ASK": "is moving this slot to another node",
        "NOSCRIPT": "is made to forget its scripts (SCRIPT FLUSH) as fast as they are loaded",
        "MOVED": "does not serve this slot any more",
    }.get(code)
    if explained:
        return Unavailable(f"{at} {explained}; try again.", where, code)
    if isinstance(error, ResponseError):
        return CorruptData(f"{at} could not run a script: {said}.")
    if isinstance(error, redis.exceptions.MaxConnectionsError) or said == "Too many connections":
        return Unavailable(f"All connections to {at} that its pool allows are in use.", where)
    if type(error).__name__ == "MasterNotFoundError":  # redis-py has two of that name; its text names objects
        papers = ", or their certificates and ours do not fit" if tls else ""
        return Unavailable(f"{at}: none of them names a master just now; they may be away{papers}.", where)
    if tls is not None and (of_tls := secure.told(said, asked=tls)):
        return Unavailable(f"{at} {of_tls}.", where)
    return Unavailable(f"{at} cannot be reached ({said}).", where)
