"""``--map FILE``: a TOML file that says where a store has user, name and login time."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from presence_core.errors import InvalidArgument
from presence_core.mirror.formats import FORMATS
from presence_core.mirror.site_session import Paths
from presence_core.mirror.stores import Store

_PATHS: Final = {
    "uid": "uid", "name": "person", "email": "email", "address": "address", "agent": "agent", "login": "login",
    "seen": "seen", "lifetime": "lifetime",
}  # fmt: skip
"""Names in the file, and the fields of Store."""

_TEXTS: Final = ("prefix", "encoding", "same_login", "title")
_LONGEST: Final = 65_536


def read_map(path: str, store: Store | None) -> Store:
    """The store that a file describes; what it does not say is as in ``store``. Raises InvalidArgument."""
    try:
        with Path(path).open("rb") as file:
            given = tomllib.loads(file.read(_LONGEST).decode())
    except OSError as error:
        raise InvalidArgument(
            "--map", f"must name a file that can be read ({error.strerror})", "unusable_file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument("--map", f"must name a file of TOML: {error}", "malformed") from None
    unknown = given.keys() - _PATHS.keys() - set(_TEXTS) - {"fields", "lifetime_unit"}
    if unknown:
        raise InvalidArgument(
            "--map", f"must not have {sorted(unknown)[0]!r}: docs/use/mirror.md lists the names", "unknown"
        )
    return _store(given, store)


def _store(given: dict[str, Any], store: Store | None) -> Store:
    for name in _TEXTS:
        if not isinstance(given.get(name, ""), str):
            raise InvalidArgument("--map", f"must have text for {name}", "wrong_type")
    changes: dict[str, Any] = {field: _paths(name, given[name]) for name, field in _PATHS.items() if name in given}
    changes |= {name: given[name] for name in ("prefix", "same_login", "title") if name in given}
    if given.get("encoding", "json") not in FORMATS:
        raise InvalidArgument("--map", f"must have one of {', '.join(FORMATS)} for encoding", "not_a_choice")
    if given.get("same_login", "end") not in ("end", "new"):
        raise InvalidArgument("--map", 'must have "end" or "new" for same_login', "not_a_choice")
    if "encoding" in given:
        changes["form"] = given["encoding"]
    if "fields" in given:
        changes["fields"] = _texts("fields", given["fields"])
    if "lifetime_unit" in given:
        changes["lifetime_unit"] = _number(given["lifetime_unit"])
    if store is not None:
        return replace(store, **changes)
    for name in ("prefix", "encoding", "uid"):
        if name not in given:
            raise InvalidArgument("--map", f"must have {name}, as no --store is given", "required")
    own: dict[str, Any] = {"name": "map", "title": "the site's own store", "same_login": "", **changes}
    return Store(**own)


def _paths(name: str, value: Any) -> Paths:
    """ "user.id", or ["user.id", "uid"]: the first that is there; [["a.b", "c"]] names with dots in them."""
    values = value if isinstance(value, list) else [value]
    found = []
    for each in values:
        parts = each.split(".") if isinstance(each, str) else each
        if not isinstance(parts, list) or not parts or not all(isinstance(part, str) and part for part in parts):
            raise InvalidArgument("--map", f'must have a path like "user.id" for {name}', "wrong_type")
        found.append(tuple(parts))
    return tuple(found)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise InvalidArgument("--map", f"must have a list of texts for {name}", "wrong_type")
    return tuple(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise InvalidArgument("--map", "must have a number of seconds for lifetime_unit", "out_of_range")
    return float(value)
