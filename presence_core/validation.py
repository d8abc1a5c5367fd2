"""The validation of every argument: one function for each kind, which returns the value as operations use it.

Each raises InvalidArgument with one sentence that names the field and the limit.
"""

from __future__ import annotations

import inspect
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from socket import AF_INET, AF_INET6, inet_pton
from typing import Any, Final, NoReturn, get_args

from presence_core.errors import InvalidArgument, InvalidCode

TEN_YEARS: Final = 315_360_000
AGENT_LENGTH: Final = 512
CUT_MARK: Final = "…"
MAX_UIDS: Final = 10_000
MAX_ATTRIBUTES: Final = 4096
ATTRIBUTES_RULE: Final = f"must be at most {MAX_ATTRIBUTES} bytes of JSON"
MAX_DEPTH: Final = 32
"""Lists and dicts of the attributes in each other, with the dict itself. Readers have limits of their own: JSON parsers
stop at 64 (.NET) and more, Python's own encoders at some hundred, and a list adds a few levels."""
_DEPTH_RULE: Final = f"must be nested at most {MAX_DEPTH} levels deep"
_JSON_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_JSON_NEST: Final = re.compile(rb"[^\[\]{}]+")
_A_DICT: Final = "must be a dict with text keys"

MAX_METHODS: Final = 8
MAX_METHODS_LENGTH: Final = 55  # so that the field has at most 64 bytes: schema/record.py
_METHOD: Final = re.compile(r"[a-z0-9_-]{1,16}")
_METHODS_RULE: Final = (
    f"must be at most {MAX_METHODS} names of 1 to 16 of a-z, 0-9, _ and -, {MAX_METHODS_LENGTH} characters in all"
)

_PLAIN_FUNCTION: Final = "must be a plain function: async functions are not awaited"

_MAPPED = bytes(10) + b"\xff\xff"
_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{8,128}")


def whole(field: str, value: object, low: int, high: int) -> int:
    """A whole number within limits."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidArgument(field, f"must be a whole number from {low} to {high}", "out_of_range")
    return int(value)


def callback(field: str, value: object) -> None:
    """Checked before anything is sent, because an error on the way would leave a part done."""
    if value is not None and not callable(value):
        raise InvalidArgument(field, "must be a function", "wrong_type")


def plain_function(field: str, value: object) -> None:
    """A function whose result counts."""
    callback(field, value)
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(type(value).__call__):
        raise InvalidArgument(field, _PLAIN_FUNCTION, "wrong_type")


def not_awaitable(field: str, result: object) -> None:
    """What a plain function has returned: not a coroutine, of which nothing has run yet."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise InvalidArgument(field, _PLAIN_FUNCTION, "wrong_type")


def choice(field: str, value: object, literal: Any) -> None:
    """One of a ``Literal``'s words."""
    words = get_args(literal)
    if value not in words:
        raise InvalidArgument(field, "must be " + " or ".join(f'"{word}"' for word in words), "not_a_choice")


def duration(field: str, value: object, low: float, high: float) -> float:
    """Seconds, not necessarily whole."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidArgument(field, f"must be {low:g} to {high:g} seconds", "out_of_range")
    return value


def call_time(value: object) -> float:
    """``timeout``: seconds that one call may take."""
    return duration("timeout", value, 0.05, 60)


def instant(value: object) -> str:
    """``now`` of a tracker as text: Unix seconds; "" for None, which means Redis's own clock."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e11:
        raise InvalidArgument("now", "must be Unix seconds, from 0 to 100000000000", "out_of_range")
    return repr(float(value)) if isinstance(value, float) else str(int(value))


def seconds(field: str, value: object) -> int:
    """Whole seconds, from 1 to ten years."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= TEN_YEARS:
        raise InvalidArgument(field, f"must be whole seconds from 1 to {TEN_YEARS} (10 years)", "out_of_range")
    return int(value)


def plain_text(field: str, value: object, high: int, rule: str, code: InvalidCode | None = None) -> str:
    """Text of 1 to ``high`` bytes, not only white space, without control characters. ``code``: in place of the usual
    ones, where staff read another sentence about this text."""
    if type(value) is str and value.isascii() and value.isprintable() and 0 < len(value) <= high and value[0] != " ":
        return value  # nearly every call: skip the slow checks
    if not isinstance(value, str):
        given = ", not a number" if isinstance(value, int | float) and not isinstance(value, bool) else ""
        raise InvalidArgument(field, rule + given, code or "wrong_type")
    value = str.__str__(value)  # a subclass may have its own
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(field, f"{rule}; this text is not valid Unicode", code or "unprintable") from None
    if not 1 <= size <= high:
        raise InvalidArgument(field, rule, code or ("too_long" if size else "empty"))
    if not value.strip():
        raise InvalidArgument(field, f"{rule}, not only white space", code or "empty")
    if any(unicodedata.category(char) == "Cc" for char in value):
        raise InvalidArgument(field, f"{rule}, without control characters", code or "unprintable")
    return value


def uid(value: object, field: str = "uid") -> str:
    return plain_text(field, value, 256, "must be text of 1 to 256 bytes")


def uids(value: object, most: int = MAX_UIDS) -> list[str]:
    """Users of ``online_among``, ``blocked_among`` and ``names_of``, each once: at most ``most`` items."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidArgument("uids", "must be a list of uids", "wrong_type")
    asked: dict[str, None] = {}
    for place, item in enumerate(value):
        if place == most:
            raise InvalidArgument("uids", f"must be at most {most} uids", "too_many")
        asked[uid(item)] = None
    return list(asked)


def actor(value: object) -> str:
    """``by``: the person who acts."""
    return plain_text("by", value, 256, "must be text of 1 to 256 bytes that says who does this", "not_an_actor")


def short(field: str, value: object, high: int, code: InvalidCode | None = None) -> str | None:
    """Optional text such as a device or a name. ``code`` as of ``plain_text``."""
    return None if value is None else plain_text(field, value, high, f"must be text of 1 to {high} bytes", code)


def session_id(value: object, field: str = "session_id") -> str:
    if not isinstance(value, str) or not _SESSION_ID.fullmatch(value):
        raise InvalidArgument(field, "must be 8 to 128 characters of A-Z, a-z, 0-9, _ and -", "malformed")
    return str.__str__(value)


def device_id(value: object) -> str | None:
    """Optional: the id of a device, as a cookie has it."""
    return None if value is None else session_id(value, "device_id")


ON_BEHALF_PREFIX: Final = "behalf-"
"""The ids of sessions on behalf of a user begin so: include/sessions/on_behalf.lua tells them by it."""


def is_on_behalf(session_id: str) -> bool:
    """Whether a member of staff began this session, on behalf of its user."""
    return session_id.startswith(ON_BEHALF_PREFIX)


MIRROR_PREFIX: Final = "mirror-"
"""The ids of sessions that ``presence mirror`` copies begin so: include/login/mirrored.lua tells them by it."""


MIRROR_AWAY: Final = 86_400
"""Seconds that a copy outlives the site's session unless the mirror ends it: so long the mirror may be away."""

LONGEST_TIMEOUT: Final = 3650 * 86_400
"""Of a copy whose session does not expire."""


def is_mirrored(session_id: str) -> bool:
    """Whether this session is the copy of one in the site's own store."""
    return session_id.startswith(MIRROR_PREFIX)


def is_session_id(value: str) -> bool:
    return _SESSION_ID.fullmatch(value) is not None


def ref(value: object) -> tuple[str, str]:
    """``uid:session_id``."""
    if not isinstance(value, str):
        raise InvalidArgument("ref", "must be text: uid, a colon, session id", "wrong_type")
    owner, colon, session = value.rpartition(":")
    if not colon:
        raise InvalidArgument("ref", "must be uid, a colon, session id", "malformed")
    return uid(owner), session_id(session)


def packed_address(value: object) -> bytes | None:
    """A plain IPv4 or IPv6 address, packed; b"" for None, None for any other value. An IPv4-mapped IPv6 address is the
    IPv4 address. ``visitor_fields`` reads it in other spellings."""
    if value is None:
        return b""
    try:
        packed = inet_pton(AF_INET6 if ":" in value else AF_INET, value)  # type: ignore[operator, arg-type]
    except (OSError, ValueError, TypeError):
        return None
    return packed[12:] if packed.startswith(_MAPPED) else packed


def method_names(field: str, value: object) -> tuple[str, ...]:
    """Names of methods of authentication, each once."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidArgument(field, _METHODS_RULE, "malformed")
    given = list(islice(value, MAX_METHODS + 1))
    if len(given) > MAX_METHODS or not all(isinstance(name, str) and _METHOD.fullmatch(name) for name in given):
        raise InvalidArgument(field, _METHODS_RULE, "malformed")
    names = tuple(dict.fromkeys(given))
    if len(",".join(names)) > MAX_METHODS_LENGTH:
        raise InvalidArgument(field, _METHODS_RULE, "malformed")
    return names


def authentication(methods: object, mfa: object) -> str:
    """How a visitor authenticated, as a record holds it: "1" for several factors, else "0", and the methods; empty if
    nothing is known."""
    names = method_names("methods", methods)
    if mfa is not None and not isinstance(mfa, bool):
        raise InvalidArgument("mfa", "must be True, False or None", "wrong_type")
    joined = ",".join(names)
    is_strong = mfa if mfa is not None else "mfa" in names or len(names) > 1
    return f"{int(is_strong)}{joined}" if joined or is_strong else ""


def max_age(value: object) -> int | str:
    """Seconds as ms; "" for None."""
    return "" if value is None else 1000 * seconds("max_age", value)


def user_agent(value: object) -> str:
    """A user agent, cut at 512 characters with a mark; control characters become spaces."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidArgument("user_agent", "must be text", "wrong_type")
    if not (value.isascii() and value.isprintable()):
        value = "".join(" " if unicodedata.category(char) in ("Cc", "Cs") else char for char in value).strip()
    if len(value) > AGENT_LENGTH:
        value = value[: AGENT_LENGTH - 1] + CUT_MARK
    return value


def aliases(value: object) -> str:
    """Up to eight other names, one a line."""
    if value == ():
        return ""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidArgument("aliases", "must be a list of texts", "wrong_type")
    items = list(islice(value, 9))
    if len(items) > 8:
        raise InvalidArgument("aliases", "must be at most 8 texts", "too_many")
    rule = "must be texts of 1 to 256 bytes"
    return "\n".join(plain_text("aliases", item, 256, rule) for item in items)


def as_json(value: object) -> str:
    """JSON as attributes are stored. Raises TypeError, ValueError or RecursionError for what JSON cannot hold."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def is_too_deep(raw: bytes) -> bool:
    """Whether JSON is nested deeper than ``MAX_DEPTH``. Read from its text: a value may be too deep to walk."""
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return False  # nearly every call
    depth = 0
    for sign in _JSON_NEST.sub(b"", _JSON_TEXT.sub(b"", raw)):
        depth += 1 if sign in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def attributes(value: object) -> bytes:
    """The site's own fields as JSON; b"" for none."""
    if value is None or value == {}:
        return b""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidArgument("attributes", _A_DICT, "wrong_type")
    try:
        raw = as_json(dict(value)).encode()
    except RecursionError:
        raise InvalidArgument("attributes", _DEPTH_RULE, "too_deep") from None
    except (TypeError, ValueError):
        raise InvalidArgument("attributes", "must contain only JSON values", "wrong_type") from None
    if is_too_deep(raw):
        raise InvalidArgument("attributes", _DEPTH_RULE, "too_deep")
    if len(raw) > MAX_ATTRIBUTES:
        raise InvalidArgument("attributes", ATTRIBUTES_RULE, "too_long")
    return raw


def changes(value: object) -> Mapping[str, Any]:
    """Changes of attributes, as JSON holds them."""
    if value is None:
        raise InvalidArgument("attributes", _A_DICT, "wrong_type")
    known: Mapping[str, Any] = json.loads(attributes(value) or b"{}")
    return known


def kept_ids(keep: object, only: str | None) -> list[str]:
    """Ids of sessions that an action on all sessions of a user leaves out."""
    if isinstance(keep, str | bytes) or not isinstance(keep, Iterable):
        raise InvalidArgument("keep", "must be a list of session ids", "wrong_type")
    kept = [session_id(kept_id, "keep") for kept_id in keep]
    if only is not None and kept:
        raise InvalidArgument("keep", "cannot be combined with session_id", "conflicts")
    return kept


def prose(field: str, value: object) -> str:
    """A reason or a message: 1 to 500 characters."""
    rule = "must be text of 1 to 500 characters"
    if not isinstance(value, str):
        raise InvalidArgument(field, rule, "wrong_type")
    if len(value) > 500 or not value.strip():
        raise InvalidArgument(field, rule, "too_long" if len(value) > 500 else "empty")
    if _has_control_characters(value):
        raise InvalidArgument(field, f"{rule}, without control characters", "unprintable")
    return value


def lines(field: str, value: object, high: int, rule: str, code: InvalidCode) -> str:
    """Text of at most ``high`` bytes, also of several lines; may be empty. ``code``: of every refusal."""
    if not isinstance(value, str):
        raise InvalidArgument(field, rule, code)
    if _has_control_characters(value):
        raise InvalidArgument(field, f"{rule}, without control characters", code)
    if len(value.encode()) > high:
        raise InvalidArgument(field, rule, code)
    return str.__str__(value)


def _has_control_characters(value: str) -> bool:
    return any(unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t" for char in value)


def optional_prose(field: str, value: object) -> str:
    """The same, where None means no text: ""."""
    return "" if value is None else prose(field, value)


def time_ms(field: str, value: object) -> int:
    """A time in ms, from an aware datetime or Unix seconds."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            _not_a_time(field)
        value = value.timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e11:
        _not_a_time(field)
    ms = round(value * 1000)
    if not 0 < ms < 10**14:  # the rounded value is stored, so it must be in range, too
        _not_a_time(field)
    return ms


IDP_CLAIMS: Final = ("iss", "sub", "sid")
"""The claims of an ID token that a session keeps."""

MAX_CLAIM: Final = 255
"""Bytes of each: OpenID Connect allows no longer subject."""


def idp_link(value: object) -> str:
    """The link to an identity provider, as the record has it; empty for None."""
    if value is None:
        return ""
    if not isinstance(value, Mapping):
        raise InvalidArgument("idp", "must be a dict with iss, and sub or sid or both", "wrong_type")
    if unknown := sorted(map(str, value.keys() - set(IDP_CLAIMS))):
        raise InvalidArgument(f"idp.{unknown[0][:100]}", "is not one of iss, sub and sid", "unknown")
    parts = [short(f"idp.{name}", value.get(name), MAX_CLAIM) or "" for name in IDP_CLAIMS]
    issuer, *names = parts
    if not issuer or not any(names):
        raise InvalidArgument("idp", "must have iss, and sub or sid or both", "required")
    return "\n".join(parts)


def period(since: object, until: object) -> tuple[int | None, int | None]:
    """``since`` (included) and ``until`` (excluded) in ms; None without a bound."""
    first = None if since is None else time_ms("since", since)
    last = None if until is None else time_ms("until", until)
    if first is not None and last is not None and first >= last:
        raise InvalidArgument("since", "must be before until", "wrong_order")
    return first, last


def _not_a_time(field: str) -> NoReturn:
    raise InvalidArgument(field, "must be an aware datetime or Unix seconds", "malformed")
