"""The material of the histories: people, the values that are drawn for them, and the table of cases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import Bundle

from presence_core import SessionFilter
from tests.properties.stays import Ref

UIDS: Final = ("a", "a:own-id-1", "*", "{b}", "Zoë 🙂")
OWN_IDS: Final = ("own-id-1", "own-id-2", "Own_ID-3")
STAFF_IDS: Final = ("behalf-id-1", "behalf-id-2")
DEVICE_IDS: Final = ("device-1", "device-2", "device-3")

DECLARED: Final = ("plan",)  #: attributes that facets count

FILTERS: Final[tuple[dict[str, Any], ...]] = (
    {"text": "zo"},
    {"text": "10.0."},
    {"text": "+44"},
    {"name_prefix": "lee"},
    {"name_contains": "ë"},
    {"ip": "10.0.0.0/24"},
    {"ip": "2001:db8::1"},
    {"device": "phone"},
    {"browser": "Firefox"},
    {"attributes": {"plan": "pro"}},
    {"device": "desktop", "name_prefix": "ann", "ip": "10.0.0.0/8"},
    {"uid": "a:own-id-1", "app": "shop"},
    {"idle_for": 3},
    {"seen_within": 3},
    {"app_version_below": "2.10", "without": SessionFilter(device="desktop")},
    {"os": "Linux", "text": "a"},
    {"new_device": True},
    {"on_behalf": True},
    {"sign_in_required": True},
    {"idp_issuer": "https://idp.example", "idp_session": "sid-1"},
    {"idp_issuer": "https://idp.example", "idp_subject": "ann"},
    {"idp_subject": "ann", "device": "phone"},
)
"""The filters, used in turn, one every second step; and one by login time."""

ALL: Final = {"logged_in_after": 1_600_000_000}
"""Matches every session that began before now: a bulk kick needs at least one field."""

LINKS: Final = (
    {"iss": "https://idp.example", "sub": "ann", "sid": "sid-1"},
    {"iss": "https://idp.example", "sub": "ann"},
    {"iss": "https://other.example", "sub": "ann", "sid": "sid-1"},
)
"""Links to an identity provider."""

NEEDLES: Final = ("a", "ann", "Zoë", "lee", "+44 1", "*", "ann@example.org", "z", "{b}", "nobody")
FACETS: Final = ("device", "app", "app_version", "os", "browser", *DECLARED)

# -- what is drawn ----------------------------------------------------------------------------------------------------

uids = st.sampled_from(UIDS)
own_ids = st.sampled_from(OWN_IDS)
staff_ids = st.sampled_from(STAFF_IDS)
addresses = st.sampled_from([None, "10.0.0.1", "10.0.7.7", "2001:db8::1"])
clients = st.sampled_from([0, 1])
timeouts = st.sampled_from(
    [
        {},
        {"idle_timeout": 2},
        {"absolute_timeout": 5},
        {"idle_timeout": 3, "absolute_timeout": 4},
        {"idle_timeout": 9, "absolute_timeout": 9},
        {"idle_timeout": 90},
        {"idle_timeout": 30, "absolute_timeout": 40_000_000},
    ]
)
details = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["Ann Lee", "Zoë", "Ágnes Ann"]),
        "aliases": st.sampled_from([["ann@example.org", "+44 1"], ["zoë@example.org"]]),
        "device": st.sampled_from(["phone", "desktop"]),
        "app": st.just("shop"),
        "app_version": st.just("2.1"),
        "ip": addresses,
        "user_agent": st.sampled_from(["Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Firefox/130.0", "curl/8"]),
        "device_id": st.sampled_from(DEVICE_IDS),
        "idp": st.sampled_from(LINKS),
        "attributes": st.sampled_from([{"plan": "pro"}, {"plan": "free", "seats": 3}, {"plan": 2}, {"seats": 1}]),
    },
)
arguments = st.builds(lambda most, some: most | some, details, timeouts)
changes: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "plan": st.sampled_from([None, "pro", 2]),
        "seats": st.sampled_from([None, 1, 4]),
        "note": st.sampled_from([None, [1, {"a": "]"}], {"plan": []}]),
    },
)
"""Changes of attributes."""
names: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["Ann Lee", "Zoë", "Cai Ode"]),
        "aliases": st.sampled_from([["ann@example.org", "+44 1"], ["cai@example.org"]]),
    },
).filter(bool)
"""New names of a session or a person."""
new_clients: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"device": "phone", "app": "shop", "app_version": "2.2"},
        {"device": "desktop", "app": None, "app_version": None},
        {"device": None, "app": None, "app_version": None},
    ]
)
whys = st.fixed_dictionaries(
    {"by": st.sampled_from(["sue", "Bob"]), "reason": st.sampled_from(["spam", "shared"])},
    optional={"message": st.sampled_from(["Goodbye.", "spam"])},
)
kicks = st.builds(
    lambda why, more: why | more,
    whys,
    st.fixed_dictionaries({}, optional={"ticket": st.just("T-1"), "block_for": st.sampled_from([1, 5])}),
)
holds = st.builds(
    lambda why, more: why | more,
    whys,
    st.fixed_dictionaries(
        {"duration": st.sampled_from([1, 5, 25, None])},
        optional={"ticket": st.sampled_from(["T-1", "T-2"]), "shorten": st.booleans()},
    ),
)
revocations = st.sampled_from([None, 0, 1, 1000, 4000, 5000, 30_000])  #: ms before now; None: not given
rows = st.lists(
    st.fixed_dictionaries(
        {"uid": uids, "given": arguments, "session_id": st.none() | own_ids},
        # both are seconds before now; an import may give neither
        optional={"ago": st.sampled_from([0, 1, 4, 30]), "seen_ago": st.sampled_from([0, 1, 3, 30])},
    ),
    max_size=5,
)


@dataclass(frozen=True, slots=True)
class Issued:
    """The token of a visitor. It may have been replaced, and the session may have ended."""

    uid: str
    sid: str
    token: str = field(repr=False)

    @property
    def ref(self) -> Ref:
        return self.uid, self.sid

    @property
    def forged(self) -> str:
        owner, sid, secret = self.token.split(".")
        return f"{owner}.{sid}.{'B' if secret[0] == 'A' else 'A'}{secret[1:]}"


logins: Bundle[Issued] = Bundle("logins")
refs = st.one_of(logins.map(lambda stay: stay.ref), st.tuples(uids, own_ids | staff_ids))
acts = st.one_of(
    st.tuples(st.just("login"), uids, st.none() | own_ids, arguments),
    st.tuples(st.just("login again"), logins, arguments),
    st.tuples(st.just("logout"), refs),
    st.tuples(st.just("kick"), uids, kicks),
)
"""Actions of others between two commands of an operation."""

# -- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """The server and settings of the histories."""

    name: str
    shards: int
    settings: dict[str, Any] = field(default_factory=dict)
    mode: str = "sync"
    heals: bool = True  #: reads of the second client remove stale entries
    labels: int = 8192  #: texts that a shard stores once
    examples: int = 6
    steps: int = 25


REPLACE: Final = {"max_sessions": 3, "max_sessions_per_device": 2}
REJECT: Final = REPLACE | {"on_limit": "reject"}
FORGETFUL: Final = {"keep_logout": 0, "keep_expired": 0, "keep_people": 60, "max_ended": 8}

CASES: Final = [
    Case("replace-1-shard", 1, REPLACE, examples=12, steps=40),
    Case("replace-4-shards", 4, REPLACE),
    Case("reject-1-shard", 1, REJECT, heals=False),
    Case("reject-4-shards", 4, REJECT, labels=2),
    Case("single-device", 1, {"max_sessions": 1}, labels=1),
    Case("forgetful", 4, FORGETFUL),
    Case("async", 4, REPLACE, mode="async"),
]
LOSS_CASES: Final = [
    Case("1-shard", 1, REPLACE),
    Case("4-shards", 4, REPLACE, labels=2),
]
CRASH_CASES: Final = [
    Case("replace", 1, REPLACE, heals=False),
    Case("reject-4-shards", 4, REJECT),
]
