"""The table of bad arguments: what is called, with what, and the one sentence that must answer it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

UID = "uid must be text of 1 to 256 bytes"
SID = "session_id must be 8 to 128 characters of A-Z, a-z, 0-9, _ and -"
BY = "by must be text of 1 to 256 bytes that says who does this"
LIMIT = "limit must be a whole number from 1 to 1000"
JSON = "attributes must be made of what JSON can hold"

SPACE = ", not only white space"
CONTROL = ", without control characters"
NOT_UNICODE = "; this text is not valid Unicode"


class Case(NamedTuple):
    method: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    sentence: str  #: without its full stop

    def __str__(self) -> str:
        return f"{self.method}{self.args!r:.60}{self.options!r:.80}"


def _text(rule: str, size: int) -> list[tuple[Any, str]]:
    """What is no text of 1 to `size` bytes, and the sentence that says so."""
    plain = ("", "x" * (size + 1), "é" * (size // 2 + 1), "😀" * (size // 4 + 1), 5, 1.5, b"ada", ["ada"], True)
    return [
        *((value, rule) for value in plain),
        *((value, rule + SPACE) for value in (" ", "\t", "\u3000\u00a0", "\u2028")),
        *((value, rule + CONTROL) for value in ("a\nb", "\0", "a\x7f", "a\x85b", "\x1b[2J", "a\r")),
        *((value, rule + NOT_UNICODE) for value in ("\ud800", "a\udfff")),
    ]


def _same(sentence: str, *values: Any) -> list[tuple[Any, str]]:
    return [(value, sentence) for value in values]


UIDS = _text(UID, 256) + _same(UID, None)
SIDS = _same(
    SID, "", "short12", "x" * 129, "has:colon", "has space", "has.dots.", "ümlauts-here", "new-line\n", "٣٣٣٣٣٣٣٣",
    12345678, b"12345678", "\ud800" * 8,
)  # fmt: skip
IPS = _same(
    "ip must be an IPv4 or IPv6 address", "", " ", "localhost", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1.2.3.4 ",
    " 1.2.3.4", "01.2.3.4", "1.2.3.4/8", "1.2.3.4:80", ":::", "::g", "[::1]", "1::2::3", "0x7f.1.1.1", "1.2.3.4%eth0",
    "\0", 5, "1.2.3.4\0", b"1.2.3.4", "\ud800", "١.1.1.1", "127.1",
)  # fmt: skip
PROSE = [
    *_same(" must be text of 1 to 500 characters", "", "x" * 501, " \n", 5, b"x", True),
    *_same(" must be text of 1 to 500 characters" + CONTROL, "a\0b", "\ud800", "a\x1b[2J", "\x85a"),
]

# login's own arguments, which login_many takes too.
LOGIN: dict[str, list[tuple[Any, str]]] = {
    "uid": UIDS,
    "session_id": SIDS,
    "ip": IPS,
    "name": _text("name must be text of 1 to 256 bytes", 256),
    "device": _text("device must be text of 1 to 64 bytes", 64),
    "app": _text("app must be text of 1 to 64 bytes", 64),
    "app_version": _text("app_version must be text of 1 to 64 bytes", 64),
    "user_agent": _same("user_agent must be text", 5, b"curl", ["curl"], True),
    "aliases": [
        *_same("aliases must be a list of texts", "ada", 5, None),
        *_same("aliases must be at most 8 texts", ["a"] * 9, range(100)),
        *(([value], sentence) for value, sentence in _text("aliases must be texts of 1 to 256 bytes", 256)),
    ],
    "attributes": [
        *_same("attributes must be a dict with text keys", [], "{}", 5, {5: 1}, {None: 1}),
        *_same(JSON, *({"a": value} for value in (object(), {1}, float("nan"), float("inf"), b"x", "\ud800", 1j))),
        *_same("attributes must be at most 4096 bytes of JSON", {"a": "x" * 4096}, {"a": "é" * 2048}, {"x" * 4096: 1}),
    ],
    "idle_timeout": _same(
        "idle_timeout must be whole seconds from 1 to 315360000 (10 years)", 0, -1, 315_360_001, 1.5, "60", True
    ),
    "absolute_timeout": _same(
        "absolute_timeout must be whole seconds from 1 to 315360000 (10 years)", 0, -1, 315_360_001, 1.5, "60", False
    ),
}

MOMENTS: list[Any] = [
    "yesterday", "2026-01-01T00:00:00Z", datetime(2026, 1, 1), datetime(1960, 1, 1, tzinfo=UTC), -1, 0, 1e12,
    float("nan"), float("inf"), True, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))),
]  # fmt: skip


def _of_login() -> list[Case]:
    cases = []
    for field, values in LOGIN.items():
        for value, sentence in values:
            given = {"uid": "ada"} | {field: value}
            cases.append(Case("login", (), given, sentence))
            cases.append(Case("login_many", ([{"uid": "bob"}, given],), {}, f"row 2: {sentence}"))
    cases.append(Case("login", ("ada",), {"idle_timeout": 61, "absolute_timeout": 60},
                      "idle_timeout must be at most absolute_timeout"))  # fmt: skip
    rows = "rows must be dicts of login's arguments"
    cases += [Case("login_many", (value,), {}, rows) for value in (None, 5)]
    cases += [Case("login_many", ([{"uid": "ada"}, value],), {}, f"row 2: {rows}") for value in ("ada", None, ["ada"])]
    for given, field in (({"colour": "red"}, "colour"), ({"login_at": 5}, "login_at"), ({"last_seen": 5}, "last_seen")):
        cases.append(Case("login_many", ([{"uid": "ada"} | given],), {}, f"row 1: {field} is not an argument of login"))
    for moment in MOMENTS:
        for field, given in (("login_at", {}), ("last_seen", {"login_at": 5})):
            row = {"uid": "ada"} | given | {field: moment}
            sentence = f"row 1: {field} must be an aware datetime or Unix seconds"
            cases.append(Case("login_many", ([row],), {"imported": True}, sentence))
    cases.append(Case("login_many", ([{"uid": "ada", "last_seen": 5}],), {"imported": True},
                      "row 1: last_seen must come with login_at"))  # fmt: skip
    return cases


def _of_one_session() -> list[Case]:
    cases = []
    for method in ("validate_session", "heartbeat", "logout", "get"):
        cases += [Case(method, (value, "session-1"), {}, sentence) for value, sentence in UIDS]
        cases += [Case(method, ("ada", value), {}, sentence) for value, sentence in SIDS + _same(SID, None)]
    cases += [Case("sessions", (value,), {}, sentence) for value, sentence in UIDS]
    cases += [Case("validate_session", ("ada", "session-1"), {"ip": ip}, sentence) for ip, sentence in IPS]
    cases += [Case("validate", ("x",), {"ip": ip}, sentence) for ip, sentence in IPS]
    cases.append(Case("validate", (None,), {}, "token must be text"))
    refs: list[tuple[Any, str]] = [
        *_same("refs must be a list of refs", "ada:session-1", b"ada:session-1", None, 5),
        *_same("ref must be uid, a colon, session id", ["ada"], [""]),
        *_same("ref must be text: uid, a colon, session id", [5], [None], [b"ada:session-1"]),
        *_same(SID, ["ada:short"], ["ada:"], ["ada:session-1", "ada:session 1"]),
        *_same(UID, [":session-1"], ["x" * 257 + ":session-1"]),
        *_same(UID + CONTROL, ["a\nb:session-1"]),
    ]
    return cases + [Case("heartbeats", (value,), {}, sentence) for value, sentence in refs]


def _of_kick() -> list[Case]:
    cases = []
    good = {"by": "staff", "reason": "test"}
    cases += [Case("kick", (value,), good, sentence) for value, sentence in UIDS]
    cases += [Case("kick", ("ada", value), good, sentence) for value, sentence in SIDS]
    others: dict[str, list[tuple[Any, str]]] = {
        "by": _text(BY, 256) + _same(BY, None),
        "reason": [(value, f"reason{rest}") for value, rest in PROSE + _same(PROSE[0][1], None)],
        "message": [(value, f"message{rest}") for value, rest in PROSE],
        "ticket": _text("ticket must be text of 1 to 64 bytes", 64),
        "keep": [
            *_same("keep must be a list of session ids", "session-1", b"session-1", None, 5),
            *_same(SID.replace("session_id", "keep"), ["short"], [5], ["session-1", None]),
        ],
    }
    for field, values in others.items():
        cases += [Case("kick", ("ada",), good | {field: value}, sentence) for value, sentence in values]
    cases.append(Case("kick", ("ada", "session-1"), good | {"keep": ["session-2"]},
                      "keep goes with a kick of all of a user's sessions, not of one"))  # fmt: skip
    return cases


def _of_lists() -> list[Case]:
    cases = []
    for value in (0, -1, 1001, 1.5, "50", True, None):
        cases += [Case(method, (), {"limit": value}, LIMIT) for method in ("list_sessions", "events")]
    for value in (0, -1, 1.5, "5", True, 100_000_001):
        cases.append(Case("sweep", (), {"limit": value}, "limit must be a whole number from 1 to 100000000"))
    cases.append(Case("list_sessions", (), {"cursor": "x"}, "cursor must be one that list_sessions gave"))
    cases.append(Case("events", (), {"after": "x"}, "after must be the cursor of an event of this namespace"))
    return cases


CASES = _of_login() + _of_one_session() + _of_kick() + _of_lists()
