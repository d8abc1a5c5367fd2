"""What a server has: which stores, three masked examples of each, and the command that mirrors it. Only reads."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from presence_core.mirror.formats import Unreadable
from presence_core.mirror.loop import NEEDED_FLAGS, SLICE, hears_enough
from presence_core.mirror.site_session import Paths, SiteSession, text_at
from presence_core.mirror.stores import Store
from presence_core.transport.site_store import RawSession, SiteStore, pattern

MOST_KEYS: Final = 50_000
"""Keys that are looked at: a few seconds."""

EXAMPLES: Final = 3

_VERSION: Final = re.compile(r"^:\d+:")

_COMMANDS: Final = (
    "+ping +scan +pttl +watch +unwatch +multi +exec +discard +unlink +psubscribe +punsubscribe +config|get +hello "
    "+client|setinfo +select"
)
_BY_KIND: Final = {False: "+getrange +strlen +mget", True: "+hstrlen +hmget"}


@dataclass(slots=True)
class FoundStore:
    """A store of which keys were found."""

    store: Store  #: with the prefix that they have
    keys: int = 0
    examples: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class Look:
    """What was found."""

    looked_at: int  #: keys
    is_whole: bool
    flags: str | None  #: notify-keyspace-events
    found: list[FoundStore]


def look(site: SiteStore, stores: tuple[Store, ...]) -> Look:
    """Look at the keys of a server, without reading a value."""
    by_prefix: dict[tuple[str, str], FoundStore] = {}
    cursor, looked_at = 0, 0
    while True:
        cursor, keys = site.scan(cursor, "", SLICE)
        for key in keys:
            for store in stores:
                if found := with_prefix_of(store, key):
                    entry = by_prefix.setdefault((found.name, found.prefix), FoundStore(found))
                    entry.keys += 1
                    if len(entry.examples) < EXAMPLES:
                        entry.examples.append(key)
        looked_at += len(keys)
        if cursor == 0 or looked_at >= MOST_KEYS:
            found_stores = sorted(by_prefix.values(), key=lambda entry: -entry.keys)
            return Look(looked_at, cursor == 0, site.notification_flags(), found_stores)


def with_prefix_of(store: Store, key: bytes) -> Store | None:
    """The store with the prefix that this key has, if it is the key of a session: sites put names in front."""
    text = key.decode("utf-8", "replace")
    core = _VERSION.sub(":", store.prefix)
    at = text.find(core)
    if at < 0 or (at > 0 and not core):
        return None
    found = replace(store, prefix=text[: at + len(core)])
    return found if found.is_session_key(key) else None


def lines(look: Look, site_of: Mapping[str, SiteStore], url_name: str) -> Iterator[str]:
    """What is printed. site_of: by the name of a store, how its keys are read."""
    yield f"Looked at {look.looked_at:,} {_keys(look.looked_at)}{'' if look.is_whole else ' (there are more)'}."
    yield _notifications(look.flags)
    for entry in look.found:
        store = entry.store
        yield ""
        yield f"{store.title}: {entry.keys:,} {_keys(entry.keys)}, beginning with {store.prefix!r}"
        if store.refused:
            yield f"  {store.refused}."
            continue
        site = site_of[store.name]
        raws = site.read(entry.examples)
        for number, raw in enumerate(raws, 1):
            yield f"  example {number}: {example(store, raw)}"
        if store.note:
            yield f"  {store.note}"
        if store.same_login == "":
            yield "  After a kick, a request in flight and a new sign-in look alike here: choose same_login in the map."
        yield f"  mirror it: {command(store, url_name)}"
        yield f"  its ACL user: {acl_line(store, site.database, is_cluster=site.is_cluster)}"
    if not look.found:
        yield "No sessions of a store that is known were found. Describe it in a file: --map FILE (docs/use/mirror.md)."


def _keys(number: int) -> str:
    return "key" if number == 1 else "keys"


def _notifications(flags: str | None) -> str:
    if flags is None:
        return "The server does not say whether it sends keyspace notifications."
    if hears_enough(flags):
        return "Keyspace notifications are on: changes are heard at once."
    return (
        f"Keyspace notifications are off: changes are found by scans. To hear them at once: CONFIG SET "
        f"notify-keyspace-events {''.join(dict.fromkeys(flags + NEEDED_FLAGS))}, or start the mirror with --notify."
    )


def example(store: Store, raw: RawSession) -> str:
    """A session with its values masked."""
    try:
        session, data = store.read(raw), store.data(raw)
    except Unreadable as unreadable:
        return f"cannot be read: {unreadable}"
    life = f"lives {raw.ttl // 1000:,} s more" if raw.ttl >= 0 else "has no time to live"
    if session is None:
        return f"no user; has {', '.join(_names(data)) or 'nothing'}; {life}"
    parts = [f"user {mask(session.uid)} in {_place(data, store.uid)}"]
    for words, value in _shown(session):
        parts.append(f"{words} {mask(value)}" if value else f"no {words}")
    parts.append("login time" if session.login_at is not None else "no login time")
    return "; ".join([*parts, life])


def _shown(session: SiteSession) -> tuple[tuple[str, str | None], ...]:
    return (("name", session.person), ("email", session.email), ("address", session.address))


def mask(value: str) -> str:
    """The first character, and how many there are."""
    return f"{value[:1]}… ({len(value)})"


def _place(data: Any, places: Paths) -> str:
    return next((".".join(place) for place in places if text_at(data, (place,)) is not None), "?")


def _names(data: Any) -> list[str]:
    """The names on the first level of a session: they say what a map could name."""
    return [str(name)[:40] for name in list(data)[:12]] if isinstance(data, Mapping) else []


def command(store: Store, url_name: str) -> str:
    words = ["presence", "mirror", "--store", store.name]
    if store.prefix != _default_prefix(store):
        words += ["--prefix", store.prefix]
    return f"{shlex.join(words)} --from {url_name}"


def _default_prefix(store: Store) -> str:
    from presence_core.mirror.stores import BY_NAME

    return BY_NAME[store.name].prefix if store.name in BY_NAME else store.prefix


def acl_line(store: Store, database: int, *, is_cluster: bool = False) -> str:
    """The user that the site's server needs for this mirror."""
    space = pattern(store.prefix.removesuffix(":").removesuffix(":sessions"), "")
    own = store.acl.replace("{space}", space)
    commands = " ".join(filter(None, (_BY_KIND[bool(store.fields)], _COMMANDS, own, "+cluster|slots" * is_cluster)))
    channel = pattern(f"__keyspace@{database}__:{store.prefix}", "*")
    return f"ACL SETUSER presence-mirror on >PASSWORD ~{pattern(store.prefix, '*')} &{channel} {commands}"
