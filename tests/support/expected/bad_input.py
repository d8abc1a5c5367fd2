"""The table of bad arguments: the method, the arguments, and the one sentence of the error."""

from __future__ import annotations

import itertools
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple, get_args

from presence_core import EndCause, SessionFilter
from presence_core.schema.failures import FailureWhy

UID = "uid must be text of 1 to 256 bytes"
SID = "session_id must be 8 to 128 characters of A-Z, a-z, 0-9, _ and -"
BY = "by must be text of 1 to 256 bytes that says who does this"
LIMIT = "limit must be a whole number from 1 to 1000"
JSON = "attributes must contain only JSON values"

DEEP = "attributes must be nested at most 32 levels deep"

NO_CALL = "on_progress must be a function"
NO_CALLS: tuple[Any, ...] = (5, "print", True, [print], False, 0, "")

SPACE = ", not only white space"
CONTROL = ", without control characters"
NOT_UNICODE = "; this text is not valid Unicode"


class Case(NamedTuple):
    method: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    sentence: str  #: without the full stop

    def __str__(self) -> str:
        return f"{self.method}{self.args!r:.60}{self.options!r:.80}"


def _text(rule: str, size: int) -> list[tuple[Any, str]]:
    """Values that are not a text of 1 to `size` bytes, and the sentence of the error."""
    plain = ("", "x" * (size + 1), "é" * (size // 2 + 1), "😀" * (size // 4 + 1), b"ada", ["ada"], True)
    return [
        *((value, rule) for value in plain),
        *((value, f"{rule}, not a number") for value in (5, 1.5)),
        *((value, rule + SPACE) for value in (" ", "\t", "\u3000\u00a0", "\u2028")),
        *((value, rule + CONTROL) for value in ("a\nb", "\0", "a\x7f", "a\x85b", "\x1b[2J", "a\r")),
        *((value, rule + NOT_UNICODE) for value in ("\ud800", "a\udfff")),
    ]


def searched() -> list[tuple[Any, str]]:
    """The same for a search text: several lines, and a long text with an email address, are taken."""
    rule = "text must be text of 1 to 256 bytes"
    found = "an email address, uid=…, an IP address, an international phone number or a session id"
    long = f"{rule}, or of up to 20000 characters with {found}"
    taken = ("a\nb", "a\x7f", "a\x85b", "a\r")
    return [
        (value, long if isinstance(value, str) and len(value.encode("utf-8", "replace")) > 256 else sentence)
        for value, sentence in _text(rule, 256)
        if value not in taken
    ]


def _same(sentence: str, *values: Any) -> list[tuple[Any, str]]:
    return [(value, sentence) for value in values]


def nested(depth: int) -> Any:
    """Dicts and lists in each other, so many."""
    value: Any = {} if depth % 2 else []
    for level in range(depth - 1, 0, -1):
        value = {"a": value} if level % 2 else [value]
    return value


UIDS = _text(UID, 256) + _same(UID, None)
SIDS = _same(
    SID, "", "short12", "x" * 129, "has:colon", "has space", "has.dots.", "ümlauts-here", "new-line\n", "٣٣٣٣٣٣٣٣",
    12345678, b"12345678", "\ud800" * 8,
)  # fmt: skip
IPS = _same(
    "ip must be an IPv4 or IPv6 address", "", " ", "localhost", "1.2.3", "1.2.3.4.5", "256.1.1.1",
    "01.2.3.4", "1.2.3.4/8", ":::", "::g", "1::2::3", "0x7f.1.1.1", "1.2.3.4%eth0", "1.2.3.4:x", "[::1", "[::1]x",
    "\0", 5, "1.2.3.4\0", b"1.2.3.4", "\ud800", "١.1.1.1", "127.1",
)  # fmt: skip
PROSE = [
    *_same(" must be text of 1 to 500 characters", "", "x" * 501, " \n", 5, b"x", True),
    *_same(" must be text of 1 to 500 characters" + CONTROL, "a\0b", "\ud800", "a\x1b[2J", "\x85a"),
]

NO_CURSORS: list[Any] = [
    "", " ", "x", "!!!!", "é", "\ud800", 5, b"", True, [], "x" * 100_000, "[" * 1000,
    *(urlsafe_b64encode(text.encode()).rstrip(b"=").decode() for text in (
        "5", "[]", "{}", "null", "[1,2,3,4]", '["blocks","",0,["5","a"]]', '["audit","x",0,[]]', "[" * 5000,
        '["ended",null,0,["5","a"]]', '[5,"a:session-1"]', '{"a":1,"b":2,"c":3,"d":4}',
    )),
]  # fmt: skip

# arguments of login, which login_many takes too.
METHODS: list[tuple[Any, str]] = _same(
    "methods must be at most 8 names of 1 to 16 of a-z, 0-9, _ and -, 55 characters in all",
    "pwd", b"pwd", 7, None, ["PWD"], [""], ["a" * 17], [None], ["a,b"], ["pwd\n"], [f"m{n}" for n in range(9)],
    ["a" * 16, "b" * 16, "c" * 16, "d" * 16], itertools.repeat("pwd"),
)  # fmt: skip
MFA: list[tuple[Any, str]] = _same("mfa must be True, False or None", 0, 1, "yes", [])


def _claim(name: str) -> list[tuple[Any, str]]:
    given = _text(f"idp.{name} must be text of 1 to 255 bytes", 255)
    return [(value, sentence) for value, sentence in given if value is not None]


LOGIN: dict[str, list[tuple[Any, str]]] = {
    "uid": UIDS,
    "session_id": SIDS,
    "device_id": [(value, sentence.replace("session_id", "device_id")) for value, sentence in SIDS],
    "ip": IPS,
    "on_behalf_by": _text("on_behalf_by must be text of 1 to 256 bytes that says who does this", 256),
    "reason": _same("reason must come with on_behalf_by", "why", "", 5),
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
        *_same(DEEP, *(nested(depth) for depth in (33, 34, 500, 2000, 100_000)), {"a": [nested(32)], "b": 1}),
        *_same(DEEP, {'[{\\"[': nested(33)}, {"a": [*["]" * 40] * 9, nested(32)]}),
        *_same("attributes must be at most 4096 bytes of JSON", {"a": "x" * 4096}, {"a": "é" * 2048}, {"x" * 4096: 1}),
    ],
    "idle_timeout": _same(
        "idle_timeout must be whole seconds from 1 to 315360000 (10 years)", 0, -1, 315_360_001, 1.5, "60", True
    ),
    "absolute_timeout": _same(
        "absolute_timeout must be whole seconds from 1 to 315360000 (10 years)", 0, -1, 315_360_001, 1.5, "60", False
    ),
    "max_sessions": _same("max_sessions must be a whole number from 1 to 1000", 0, -1, 1001, 1.5, "5", True),
    "methods": METHODS,
    "mfa": MFA,
    "idp": [
        *_same("idp must be a dict with iss, and sub or sid or both", [], "https://idp.example", 5, True),
        *_same("idp must have iss, and sub or sid or both", {}, {"iss": "i"}, {"sub": "s"}, {"iss": "i", "sid": None}),
        ({"iss": "i", "sub": "s", "aud": "a"}, "idp.aud is not one of iss, sub and sid"),
        ({"iss": "i", "sub": "s", 5: 5}, "idp.5 is not one of iss, sub and sid"),
        *(({"iss": value, "sub": "s"}, sentence) for value, sentence in _claim("iss")),
        *(({"iss": "i", "sub": value}, sentence) for value, sentence in _claim("sub")),
        *(({"iss": "i", "sid": value}, sentence) for value, sentence in _claim("sid")),
    ],
}

MOMENTS: list[Any] = [
    "yesterday", "2026-01-01T00:00:00Z", datetime(2026, 1, 1), datetime(1960, 1, 1, tzinfo=UTC), -1, 0, 1e12,
    float("nan"), float("inf"), True, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))), 0.0001,
    99_999_999_999.9999,
]  # fmt: skip


def _of_login() -> list[Case]:
    cases = [Case("login", ("ada",), {"expires_at": value}, "expires_at must be an aware datetime or Unix seconds")
             for value in MOMENTS]  # fmt: skip
    for field, values in LOGIN.items():
        for value, sentence in values:
            given = {"uid": "ada"} | {field: value}
            cases.append(Case("login", (), given, sentence))
            cases.append(Case("login_many", ([{"uid": "bob"}, given],), {}, f"row 2: {sentence}"))
    cases.append(Case("login", ("ada",), {"idle_timeout": 61, "absolute_timeout": 60},
                      "idle_timeout must be at most absolute_timeout"))  # fmt: skip
    cases.append(Case("login", ("ada",), {"max_sessions": 5, "on_behalf_by": "sam", "reason": "test"},
                      "max_sessions must not be given with on_behalf_by"))  # fmt: skip
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
    methods = (
        "validate_session", "heartbeat", "logout", "logout_others", "get", "update_session", "reauthenticated_session",
        "when_ended", "previous_login",
    )  # fmt: skip
    for method in methods:
        given = {"attributes": {"a": 1}} if method == "update_session" else {}
        cases += [Case(method, (value, "session-1"), given, sentence) for value, sentence in UIDS]
        cases += [Case(method, ("ada", value), given, sentence) for value, sentence in SIDS + _same(SID, None)]
    cases += [
        Case("logout_others", ("ada", "session-1", value), {}, sentence.replace("session_id", "other"))
        for value, sentence in SIDS
    ]
    for value, sentence in LOGIN["attributes"] + _same("attributes must be a dict with text keys", None):
        cases.append(Case("update", ("x",), {"attributes": value}, sentence))
        cases.append(Case("update_session", ("ada", "session-1"), {"attributes": value}, sentence))
    cases.append(Case("update_session", ("ada", "session-1"), {}, "attributes or another field must be given"))
    for field in ("name", "aliases", "device", "app", "app_version"):
        for value, sentence in LOGIN[field]:
            if value is not None:  # which removes it
                cases.append(Case("update_session", ("ada", "session-1"), {field: value}, sentence))
    cases.append(Case("update_person", ("ada",), {}, "name or aliases must be given"))
    cases += [Case("update_person", (value,), {"name": "Ada"}, sentence) for value, sentence in UIDS]
    for field in ("name", "aliases"):
        cases += [Case("update_person", ("ada",), {field: value}, sentence) for value, sentence in LOGIN[field]
                  if value is not None]  # fmt: skip
    cases.append(Case("update", (None,), {"attributes": {}}, "token must be text"))
    cases += [Case(method, (value,), {}, sentence) for method in ("sessions", "sign_ins") for value, sentence in UIDS]
    cases += [Case("validate_session", ("ada", "session-1"), {"ip": ip}, sentence) for ip, sentence in IPS]
    cases += [Case("validate", ("x",), {"ip": ip}, sentence) for ip, sentence in IPS]
    cases.append(Case("validate", (None,), {}, "token must be text"))
    no_agent = "user_agent must be text"
    for value in (5, b"curl", ["curl"], True):
        cases.append(Case("validate", ("x",), {"user_agent": value}, no_agent))
        cases.append(Case("validate_session", ("ada", "session-1"), {"user_agent": value}, no_agent))
    cases += [
        Case("when_ended", ("ada", "session-1"), {"timeout": value}, sentence)
        for value, sentence in _same("timeout must be 0 to 86400 seconds", -1, "30", True, 86_401, timedelta(seconds=3))
    ]
    max_age = "max_age must be whole seconds from 1 to 315360000 (10 years)"
    for value, sentence in _same(max_age, 0, -1, 1.5, "300", True, 315_360_001, timedelta(seconds=300)):
        cases.append(Case("validate", ("x",), {"max_age": value}, sentence))
        cases.append(Case("validate_session", ("ada", "session-1"), {"max_age": value}, sentence))
    began = _same("began must be an aware datetime or Unix seconds", *MOMENTS)
    for field, values in (("methods", METHODS), ("mfa", MFA), ("began", began)):
        cases += [Case("reauthenticated", ("x",), {field: value}, sentence) for value, sentence in values]
        cases += [
            Case("reauthenticated_session", ("ada", "session-1"), {field: value}, sentence)
            for value, sentence in values
        ]
    refs: list[tuple[Any, str]] = [
        *_same("refs must be a list of refs", "ada:session-1", b"ada:session-1", None, 5),
        *_same("ref must be uid, a colon, session id", ["ada"], [""]),
        *_same("ref must be text: uid, a colon, session id", [5], [None], [b"ada:session-1"]),
        *_same(SID, ["ada:short"], ["ada:"], ["ada:session-1", "ada:session 1"]),
        *_same(UID, [":session-1"], ["x" * 257 + ":session-1"]),
        *_same(UID + CONTROL, ["a\nb:session-1"]),
    ]
    too_many = "refs must be at most 1000 refs"
    of_live = refs + _same(too_many, ["ada:session-1"] * 1_001, itertools.repeat("ada:session-1"))
    cases += [Case("sessions_among", (value,), {}, sentence) for value, sentence in of_live]
    good = {"by": "staff", "reason": "test"}
    cases += [Case("kick_refs", (value,), good, sentence) for value, sentence in of_live]
    return cases + [Case("heartbeats", (value,), {}, sentence) for value, sentence in refs]


def _of_kick(method: str = "kick") -> list[Case]:
    cases = []
    good = {"by": "staff", "reason": "test"}
    cases += [Case(method, (value,), good, sentence) for value, sentence in UIDS]
    cases += [Case(method, ("ada", value), good, sentence) for value, sentence in SIDS]
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
        cases += [Case(method, ("ada",), good | {field: value}, sentence) for value, sentence in values]
    if method == "kick":
        cases += [
            Case("kick_refs", (["ada:session-1"],), good | {field: value}, sentence)
            for field in others.keys() - {"keep"}
            for value, sentence in others[field]
        ]
    cases.append(Case(method, ("ada", "session-1"), good | {"keep": ["session-2"]},
                      "keep cannot be combined with session_id"))  # fmt: skip
    return cases


def _of_timeouts() -> list[Case]:
    method, good = "change_timeouts", {"idle_timeout": 60, "by": "staff", "reason": "test"}
    fields: dict[str, list[tuple[Any, str]]] = {
        "idle_timeout": LOGIN["idle_timeout"],
        "absolute_timeout": [*LOGIN["absolute_timeout"], (59, "idle_timeout must be at most absolute_timeout")],
        "by": _text(BY, 256) + _same(BY, None),
        "reason": [(value, f"reason{rest}") for value, rest in PROSE + _same(PROSE[0][1], None)],
        "only_shorten": _same("only_shorten must be True or False", 1, None, "yes"),
    }
    cases = [Case(method, (value,), good, sentence) for value, sentence in UIDS]
    cases += [Case(method, ("ada", value), good, sentence) for value, sentence in SIDS]
    for field, values in fields.items():
        cases += [Case(method, ("ada",), good | {field: value}, sentence) for value, sentence in values]
    neither = "idle_timeout or absolute_timeout must be given"
    cases.append(Case(method, ("ada",), {"by": "staff", "reason": "test"}, neither))
    return cases + _of_timeouts_where(fields)


def _of_timeouts_where(fields: dict[str, list[tuple[Any, str]]]) -> list[Case]:
    asked, given, cases = SessionFilter(device="phone"), {"idle_timeout": 60}, []
    fields = fields | {
        "expected": _same("expected must be a whole number from 0 to 1000000000", -1, 10**9 + 1, 1.5, "5", True, None),
        "ticket": _text("ticket must be text of 1 to 64 bytes", 64),
        "pace": _same("pace must be a whole number from 1 to 100000", 0, -1, 100_001, 1.5, "5", True),
        "on_progress": _same(NO_CALL, *NO_CALLS),
    }
    timeouts = {field: fields[field] for field in ("idle_timeout", "absolute_timeout")}
    needed = "filter must have at least one field: logged_in_before with the present time matches all"
    for method, good, checked in (
        ("preview_timeouts", given, timeouts),
        ("change_timeouts_where", given | {"by": "staff", "reason": "test", "expected": 9}, fields),
        (
            "start_timeouts",
            given | {"by": "staff", "reason": "test", "expected": 9},
            {field: values for field, values in fields.items() if field != "on_progress"},
        ),
    ):
        for field, values in checked.items():
            cases += [Case(method, (asked,), good | {field: value}, sentence) for value, sentence in values]
        cases += [Case(method, (value,), good, needed) for value in (None, SessionFilter())]
        cases.append(Case(method, ("device=phone",), good, "filter must be a SessionFilter"))
        neither = "idle_timeout or absolute_timeout must be given"
        cases.append(Case(method, (asked,), good | {"idle_timeout": None}, neither))
    return cases


def _of_blocks() -> list[Case]:
    good = {"by": "staff", "reason": "test"}
    fields: dict[str, list[tuple[Any, str]]] = {
        "by": _text(BY, 256) + _same(BY, None),
        "reason": [(value, f"reason{rest}") for value, rest in PROSE + _same(PROSE[0][1], None)],
    }
    more: dict[str, list[tuple[Any, str]]] = {
        "message": [(value, f"message{rest}") for value, rest in PROSE],
        "ticket": _text("ticket must be text of 1 to 64 bytes", 64),
        "duration": _same(
            "duration must be whole seconds from 1 to 315360000 (10 years)", 0, -1, 315_360_001, 1.5, "60", True,
            timedelta(hours=1),
        ),
    }  # fmt: skip
    cases = [Case("blocked", (value,), {}, sentence) for value, sentence in UIDS]
    for method, all_of_it in (("block", fields | more), ("unblock", fields)):
        cases += [Case(method, (value,), good, sentence) for value, sentence in UIDS]
        for field, values in all_of_it.items():
            cases += [Case(method, ("ada",), good | {field: value}, sentence) for value, sentence in values]
    what = "what must be text of 1 to 64 bytes"
    denied: dict[str, list[tuple[Any, str]]] = {
        "by": fields["by"],
        "what": _text(what, 64) + _same(what, None),
        "uid": _text(UID, 256),
        "reason": [(value, f"reason{rest}") for value, rest in PROSE],
    }
    for field, values in denied.items():
        start = {"by": "staff", "what": "kick"}
        cases += [Case("denied", (), start | {field: value}, sentence) for value, sentence in values]
        cases += [Case("audit_note", (), start | {field: value}, sentence) for value, sentence in values]
    return cases


def _of_bulk_kicks() -> list[Case]:
    no_question = "filter must have at least one field: use revoke_before to sign out everyone"
    good: dict[str, Any] = {"by": "staff", "reason": "test", "expected": 5}
    asked = SessionFilter(device="phone")
    asking: dict[str, list[tuple[Any, str]]] = {
        "exclude": [
            *_same("exclude must be a list of refs", "ada:session-1", b"ada:session-1", None, 5),
            *_same("exclude must be at most 10000 refs", ["ada:session-1"] * 10_001, itertools.repeat("ada:session-1")),
            *_same("ref must be uid, a colon, session id", ["ada"], [""]),
            *_same("ref must be text: uid, a colon, session id", [5], [None], [b"ada:session-1"]),
            *_same(SID, ["ada:short"], ["ada:session-1", "ada:session 1"]),
            *_same(UID, [":session-1"]),
        ]
    }
    starting: dict[str, list[tuple[Any, str]]] = {
        "by": _text(BY, 256) + _same(BY, None),
        "reason": [(value, f"reason{rest}") for value, rest in PROSE + _same(PROSE[0][1], None)],
        "message": [(value, f"message{rest}") for value, rest in PROSE],
        "ticket": _text("ticket must be text of 1 to 64 bytes", 64),
        "expected": _same(
            "expected must be a whole number from 0 to 1000000000", -1, 10**9 + 1, 1.5, "5", True, None
        ),
        "pace": _same("pace must be a whole number from 1 to 100000", 0, -1, 100_001, 1.5, "5", True),
        "delay": _same("delay must be a whole number from 0 to 86400", -1, 86_401, 1.5, "5", True),
    }  # fmt: skip
    no_filters: list[Any] = ["ada", {}, {"device": "phone"}, 5, True, []]
    cases = []
    for method, given in (("preview_kick", {}), ("kick_where", good), ("start_kick", good)):
        cases += [Case(method, (value,), given, "filter must be a SessionFilter") for value in no_filters]
        cases += [Case(method, (value,), given, no_question) for value in (None, SessionFilter())]
        for field, values in (asking | (starting if given else {})).items():
            cases += [Case(method, (asked,), given | {field: value}, sentence) for value, sentence in values]
    for method, asked_with, given in (("kick_where", (asked,), good), ("reindex", (), {}), ("reshard", (2,), {})):
        cases += [Case(method, asked_with, given | {"on_progress": value}, NO_CALL) for value in NO_CALLS]
    no_ids = [(value, sentence.replace("session_id", "job_id")) for value, sentence in SIDS + _same(SID, None)]
    for method in ("job", "run_job", "pause_job", "resume_job", "cancel_job"):
        steers = method not in ("job", "run_job")
        options = {"by": "staff"} if steers else {}
        cases += [Case(method, (value,), options, sentence) for value, sentence in no_ids]
        if method == "run_job":
            cases += [Case(method, ("a-known-job",), {"on_progress": value}, NO_CALL) for value in NO_CALLS]
        if steers:
            cases += [Case(method, ("a-known-job",), {"by": value}, sentence) for value, sentence in starting["by"]]
    return cases


def _of_what_was_done() -> list[Case]:
    """audit and ended take the same arguments; the page arguments of blocks are the same."""
    cases = []
    for method in ("audit", "ended"):
        cases += [Case(method, (), {"uid": value}, sentence) for value, sentence in _text(UID, 256)]
        cases += [Case(method, (), {"by": value}, sentence) for value, sentence in _text(UID.replace("uid", "by"), 256)]
        for field in ("since", "until"):
            sentence = f"{field} must be an aware datetime or Unix seconds"
            cases += [Case(method, (), {field: value}, sentence) for value in MOMENTS]
        cases += [
            Case(method, (), {"since": since, "until": 5}, "since must be before until") for since in (5, 5.001, 10**9)
        ]
    reason = 'reason must be "logout", "expired", "kicked" or "replaced"'
    no_reasons: list[Any] = ["", "Kicked", "kick", 5, b"kicked", True, []]
    cases += [Case("ended", (), {"reason": value}, reason) for value in no_reasons]
    causes = "cause must be " + " or ".join(f'"{cause}"' for cause in get_args(EndCause))
    cases += [Case("ended", (), {"cause": value}, causes) for value in ["kicked", *no_reasons]]
    for method in ("blocks", "audit", "ended", "jobs"):
        cases += [Case(method, (), {"limit": value}, LIMIT) for value in (0, -1, 1001, 1.5, "50", True, None)]
        sentence = f"cursor must be the next_cursor of {method}, with the same other arguments"
        cases += [Case(method, (), {"cursor": value}, sentence) for value in NO_CURSORS]
    why = "why must be " + " or ".join(f'"{word}"' for word in ("wrong_password", "second_factor", "unknown_name",
                                                                "locked", "other"))  # fmt: skip
    cases += [Case("login_failed", ("ada",), {"why": value}, why) for value in ("", "blocked", None, 5, ["locked"])]
    who = "who must be a uid, or the text that the visitor typed"
    cases += [Case("login_failed", (value,), {"why": "locked"}, who) for value in (None, 5, b"ada", ["ada"])]
    described: dict[str, list[tuple[Any, str]]] = {
        "ip": _same("ip must be an IPv4 or IPv6 address", "x", "1.2.3.4.5", 5),
        "app": _text("app must be text of 1 to 64 bytes", 64),
        "user_agent": _same("user_agent must be text", 5, b"curl", True),
        "is_uid": _same("is_uid must be True or False", 1, 0, "yes", None),
    }
    for field, values in described.items():
        cases += [Case("login_failed", ("ada",), {"why": "locked", field: value}, text) for value, text in values]
    no_uid = "uid must be a uid, or a name that was typed"
    cases += [Case("failed_logins", (value,), {}, no_uid) for value in ("", " ", 5, b"ada", ["ada"])]
    no_network = "ip must be an address, or a network such as 192.0.2.0/24"
    cases += [Case("failed_logins", (), {"ip": value}, no_network) for value in ("", "ada", "1.2.3", 5, "1.2.3.4/33")]
    cases += [Case("failed_logins", (), {"since": value}, "since must be an aware datetime or Unix seconds")
              for value in MOMENTS]  # fmt: skip
    whys = "why must be " + " or ".join(f'"{word}"' for word in get_args(FailureWhy))
    cases += [Case("failed_logins", (), {"why": value}, whys) for value in ("", "password", 5, ["locked"])]
    cases += [Case("failed_logins", (), {"since": 9, "until": 5}, "since must be before until")]
    for value in (0, -1, 1001, 1.5, "50", True, None):
        cases += [Case(method, (), {"limit": value}, LIMIT) for method in ("failed_logins", "failed_networks")]
    cases.append(
        Case(
            "failed_logins",
            (),
            {"cursor": "x"},
            "cursor must be the next_cursor of failed_logins, with the same other arguments",
        )
    )
    return cases


def _of_history() -> list[Case]:
    cases = []
    for field, given in (("since", {}), ("until", {"since": 5})):
        sentence = f"{field} must be an aware datetime or Unix seconds"
        cases += [Case("history", (), given | {field: value}, sentence) for value in MOMENTS]
    cases.append(Case("history", (None,), {}, "since must be an aware datetime or Unix seconds"))
    step = "step must be a multiple of 10 seconds, from 10 to 31536000 (a year)"
    steps: list[Any] = [0, -10, 5, 15, 10.0, "60", True, 31_536_010, timedelta(seconds=60)]
    cases += [Case("history", (5,), {"step": value}, step) for value in steps]
    cases += [Case("history", (since, 5), {}, "since must be before until") for since in (5, 5.001, 10**9)]
    points = "step must give at most 1000 points between since and until"
    spans = ((10, 10_011, 10), (60, 60_061, 60), (1, 1e9, 86_400))
    cases += [Case("history", (since, until), {"step": value}, points) for since, until, value in spans]
    return cases


BLOCKS = _same(
    "ip must be an IPv4 or IPv6 address, or a network such as 192.0.2.0/24", "", " ", "localhost", "192.0.2.",
    "192.0.2", "256.1.1.1", "1.2.3.4/33", "1.2.3.4/-1", "1.2.3.4/255.0.0.0", "::/129", "1.2.3.4/٨", 5, b"1.2.3.4", True,
)  # fmt: skip


def _of_filters() -> list[tuple[str, Any, str]]:
    """Field of SessionFilter, value, sentence."""
    fields: dict[str, list[tuple[Any, str]]] = {
        "uid": _text(UID, 256),
        "ip": BLOCKS,
        "idle_for": _same("idle_for must be a whole number from 0 to 315360000", -1, 315_360_001, 1.5, "60", True),
        "seen_within": _same(
            "seen_within must be whole seconds from 1 to 315360000 (10 years)", 0, -1, 315_360_001, 1.5, "60", True
        ),
        "attributes": LOGIN["attributes"],
        "methods": [(value, sentence) for value, sentence in METHODS if value is not None],
        "mfa": _same("mfa must be True or False", 1, 0, "yes"),
        "without": [
            *_same("without must be a SessionFilter", {"uid": "ada"}, "ada", 5, True, [], SessionFilter),
            *_same(
                "without must have at least one field: else no session matches",
                SessionFilter(),
                SessionFilter(methods=[]),
                SessionFilter(idle_for=0),
            ),
            (SessionFilter(without=SessionFilter(uid="ada")), "without must not have a without of its own"),
        ],
        "on_behalf": _same("on_behalf must be True or False", 1, 0, "yes", None),
        "new_device": _same("new_device must be True or False", 1, 0, "yes", None),
        "sign_in_required": _same("sign_in_required must be True or False", 1, 0, "yes", None),
        "distant": _same("distant must be True or False", 1, 0, "yes", None),
        "after_failures": _same("after_failures must be True or False", 1, 0, "yes", None),
        "moved": _same("moved must be True or False", 1, 0, "yes", None),
        "old_token": _same("old_token must be True or False", 1, 0, "yes", None),
        **{
            field: _text(f"{field} must be text of 1 to 255 bytes", 255)
            for field in ("idp_issuer", "idp_subject", "idp_session")
        },
        "country": _same("country must be the two letters of an ISO country code, such as FR", "FRA", "F", "1A", "ÄÖ"),
        "network": _same(
            "network must be the number of a network (AS number), such as AS64500",
            "64500",
            "AS0",
            "ASX",
            "192.0.2.0/24",
        ),
    }
    fields["city"] = _text("city must be text of 1 to 64 bytes", 64)
    fields["city"] += _same("city must have a letter or digit", "\u0301")
    for field in ("text", "name_prefix", "name_contains"):
        fields[field] = searched() if field == "text" else _text(f"{field} must be text of 1 to 256 bytes", 256)
        fields[field] += _same(f"{field} must have a letter or digit", "\u0301", "\u0301\u0308", "´", " \u0327")
    for field, size in (("device", 64), ("app", 64), ("app_version", 64), ("os", 2048), ("browser", 2048)):
        fields[field] = _text(f"{field} must be text of 1 to {size} bytes", size)
    fields["app_version_below"] = _text("app_version_below must be text of 1 to 64 bytes", 64)
    fields["app_version_below"] += _same(
        "app_version_below must be a version that begins with a number, such as 2.10", "beta", "-1", ".5", "versions",
        "v", "²", "٢.1",
    )  # fmt: skip
    for field in ("logged_in_after", "logged_in_before"):
        fields[field] = _same(f"{field} must be an aware datetime or Unix seconds", *MOMENTS)
    return [(field, value, sentence) for field, rows in fields.items() for value, sentence in rows]


FILTERS = _of_filters()


def _of_lists() -> list[Case]:
    cases = []
    no_filters: list[Any] = ["ada", {}, {"uid": "ada"}, 5, True, []]
    for method in ("list_sessions", "count_sessions", "explain"):
        cases += [Case(method, (value,), {}, "filter must be a SessionFilter") for value in no_filters]
    no_fields: list[Any] = ["", "uid", "ip", "plan", "Device", None, 5, b"device", ["device"], True]
    known = (
        "device, app, app_version, os, browser, country, network (an attribute counts where Settings.facets names it)"
    )
    cases += [Case("facets", (value,), {}, f"field must be one of {known}") for value in no_fields]
    sentence = 'order must be "login" or "last_seen"'
    for order in ("", "Login", "seen", None, 5, True, b"login", ["login"]):
        cases += [Case(method, (), {"order": order}, sentence) for method in ("list_sessions", "explain")]
    for value in (0, -1, 1001, 1.5, "50", True, None):
        cases += [Case(method, (), {"limit": value}, LIMIT) for method in ("list_sessions", "events")]
    for value in (0, -1, 1.5, "5", True, 100_000_001):
        cases.append(Case("sweep", (), {"limit": value}, "limit must be a whole number from 1 to 100000000"))
    for value in (0, -1, 1.5, "5", True, None, 1025):
        cases.append(Case("reshard", (value,), {}, "shards must be a whole number from 1 to 1024"))
    cases.append(Case("list_sessions", (), {"cursor": "x"}, "cursor must be one that list_sessions gave"))
    cases.append(Case("events", (), {"after": "x"}, "after must be the cursor of an event of this namespace"))
    return cases


def _of_online() -> list[Case]:
    cases = [Case("is_online", (value,), {}, sentence) for value, sentence in UIDS]
    sentence = "count_on_behalf must be True or False"
    cases += [Case("is_online", ("ada",), {"count_on_behalf": value}, sentence) for value in (None, 1, "yes")]
    no_lists: list[Any] = ["ada", b"ada", None, 5, True]
    for method, most in (("online_among", 10_000), ("blocked_among", 10_000), ("names_of", 1_000)):
        too_many = f"uids must be at most {most} uids"
        cases += [Case(method, (value,), {}, "uids must be a list of uids") for value in no_lists]
        cases += [Case(method, (["ada", value],), {}, sentence) for value, sentence in UIDS]
        cases += [Case(method, (value,), {}, too_many) for value in (["a"] * (most + 1), itertools.repeat("ada"))]
    sentence = "within must be whole seconds from 1 to 315360000 (10 years)"
    for value in (0, -1, 315_360_001, 1.5, "60", True, None, float("nan"), timedelta(seconds=60)):
        cases += [Case(method, (value,), {}, sentence) for method in ("online_users", "count_users")]
    return cases


def _of_trackers() -> tuple[list[Case], list[Case]]:
    """Cases for LastSeenTracker, then for MinuteSetTracker; the method "" is the constructor."""
    now = "now must be Unix seconds, from 0 to 100000000000"
    nows: list[Any] = [float("nan"), float("inf"), -float("inf"), -1, -0.5, True, False, "5", 1e12, 10**400, 1j,
                       datetime(2026, 1, 1, tzinfo=UTC)]  # fmt: skip
    seconds = " must be whole seconds from 1 to 315360000 (10 years)"
    no_seconds: list[Any] = [0, -1, 315_360_001, 1.5, "60", True, float("nan")]
    reuse = "reuse_for must be a whole number from 0 to 3600"
    no_reuse: list[Any] = [-1, 3601, 1.5, "5", True]
    timeouts = _same("timeout must be 0.05 to 60 seconds", 0, -1, 61, "2", True, None, float("nan"))

    def texts(field: str) -> list[tuple[Any, str]]:
        return [(value, sentence.replace("uid", field)) for value, sentence in UIDS]

    both: list[Case] = [Case("touch", (value,), {}, sentence) for value, sentence in texts("member")]
    both += [Case("online_friends", (value,), {}, sentence) for value, sentence in texts("friends_key")]
    for method, args in (("touch", ("ada",)), ("count", ()), ("members", ()), ("online_friends", ("friends",))):
        both += [Case(method, args, {"now": value}, now) for value in nows]
    both += [Case("", (), {"timeout": value}, sentence) for value, sentence in timeouts]
    seen, sets = list(both), list(both)

    seen += [Case("forget", (value,), {}, sentence) for value, sentence in texts("member")]
    seen += [Case("trim", (), {"now": value}, now) for value in nows]
    seen += [Case("", (), {"key": value}, sentence) for value, sentence in texts("key")]
    seen += [Case("", (), {"window": value}, "window" + seconds) for value in [*no_seconds, None]]
    seen += [Case("", (), {"reuse_for": value}, reuse) for value in [*no_reuse, None]]
    seen += [Case("", (), {"keep_older": value}, "keep_older must be True or False") for value in (None, 1, "yes")]
    seen += [Case("online_friends", ("friends",), {"reuse_for": value}, reuse) for value in no_reuse]

    window, within = "window must be a whole number from 1 to 3598", "within must be a whole number from 1 to 600"
    sets += [Case("", (), {"prefix": value}, sentence) for value, sentence in texts("prefix")]
    sets += [Case("", (), {"window": value}, window) for value in [*no_seconds, None, 3599, 3600, 86_400]]
    for value in [*no_seconds, None, 601]:
        sets.append(Case("", (), {"bucket": value}, "bucket must be a whole number from 1 to 600"))
    sets += [Case("", (), {"bucket": value}, "bucket must divide window") for value in (7, 90, 599)]
    for method, args in (("count", ()), ("members", ()), ("online_friends", ("friends",))):
        seen += [Case(method, args, {"within": value}, "within" + seconds) for value in no_seconds]
        sets += [Case(method, args, {"within": value}, within) for value in [*no_seconds, 601]]
    return seen, sets


def _of_privacy() -> list[Case]:
    why = {"by": "staff", "reason": "asked"}
    cases = [Case("erase", (value,), why, sentence) for value, sentence in UIDS]
    cases += [Case("export_person", (value,), {}, sentence) for value, sentence in UIDS]
    cases += [
        Case("erase", ("ada",), why | {"by": value}, BY + rest) for value, rest in (("", ""), (None, ""), (" ", SPACE))
    ]
    cases += [Case("erase", ("ada",), why | {"reason": value}, "reason" + rule) for value, rule in PROSE]
    cases += [Case("rotate_device_key", (), why | {"reason": value}, "reason" + rule) for value, rule in PROSE]
    cases += [
        Case("rotate_device_key", (), why | {"by": value}, BY + rest)
        for value, rest in (("", ""), (None, ""), (" ", SPACE))
    ]
    return cases


LAST_SEEN, MINUTE_SETS = _of_trackers()


def _of_provider_logout() -> list[Case]:
    given = {"subject": "ada", "by": "idp", "issued_at": 1.0}
    fields: dict[str, list[tuple[Any, str]]] = {
        "subject": _claim("sub"), "session": _claim("sid"), "by": _text(BY, 256),
        "issued_at": [(value, "issued_at must be an aware datetime or Unix seconds") for value in MOMENTS],
        "token_id": _text("token_id must be text of 1 to 1024 bytes", 1024),
        "token_seconds": _same("token_seconds must be a whole number from 1 to 604800", 0, -1, 604_801, 1.5, "5", True),
    }  # fmt: skip
    return [
        Case("provider_logout", ("https://idp.example.com",), given | {field: value}, sentence)
        for field, values in fields.items()
        for value, sentence in values
    ]


def _of_notices() -> list[Case]:
    until = {"until": 4e9}
    times = [(value, "a time") for value in MOMENTS]
    cases = [Case(method, (value,), {}, sentence) for method in ("notices_of",) for value, sentence in _text(UID, 256)]
    cases += [Case("notice_is_open", (value, "id"), {}, sentence) for value, sentence in _text(UID, 256)]
    rule = "notice_id must be the id of a notice"
    cases += [Case("notice_is_open", ("ada",), {"notice_id": value}, rule) for value in ("", "x" * 65, None)]
    cases += [Case("answer_notice", (value, "session-1", 1.0, "me"), until, text) for value, text in _text(UID, 256)]
    cases += [Case("answer_notice", ("ada", "short", 1.0, "me"), until, SID)]
    for value, _ in times:
        wrong = "must be an aware datetime or Unix seconds"
        cases.append(Case("answer_notice", ("ada", "session-1", value, "me"), until, f"at {wrong}"))
        cases.append(Case("answer_notice", ("ada", "session-1", 1.0, "me"), {"until": value}, f"until {wrong}"))
    choice = 'answer must be "me" or "not_me"'
    cases += [Case("answer_notice", ("ada", "session-1", 1.0, value), until, choice) for value in ("", "yes", None, 1)]
    seconds = "block_for must be whole seconds from 1 to 315360000 (10 years)"
    cases += [
        Case("answer_notice", ("ada", "session-1", 1.0, "not_me"), until | {"block_for": value}, seconds)
        for value in (0, -1, 1.5, "60", True, 315_360_001)
    ]
    return cases


CASES = (
    _of_provider_logout() + _of_notices() +
    _of_login() + _of_one_session() + _of_kick() + _of_kick("require_sign_in") + _of_timeouts() + _of_bulk_kicks()
    + _of_blocks() + _of_what_was_done() + _of_history()
    + _of_lists() + _of_online() + _of_privacy()
)  # fmt: skip
