"""Filters: how text and addresses are compared, what an index stores of a user, and which sessions match."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from presence_core import InvalidArgument, Session
from presence_core.filters import SessionFilter, facet_members
from presence_core.models import moment
from presence_core.operations.search.planner import name_piece
from presence_core.schema.conditions import address_range_of, packed
from presence_core.scripts.search import READ_INDEX
from presence_core.settings import INDEXES
from presence_core.text.search_text import (
    BEFORE_CUT,
    CUT,
    MORE,
    NAME_CUT,
    entries,
    fold,
    fold_table,
    is_found,
    is_found_in_uid,
    letter_table,
    needles,
    spellings,
    starts,
    starts_of,
    starts_of_uid,
    uid_of,
)
from tests.conftest import Servers
from tests.support.expected.bad_input import FILTERS
from tests.support.expected.oracle import folded, found_by
from tests.support.soak import size

few = settings(max_examples=60, deadline=None, database=None, derandomize=True)

EVERY_INDEX = frozenset(INDEXES)
NOW = 1_800_000_000_000

# -- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "compared"),
    [
        ("Emeka Okafor", "emeka okafor"),
        ("  Emeka \t Okafor ", "emeka okafor"),
        ("Zoë", "zoe"),
        ("Zoe\u0308", "zoe"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("ẞ", "ss"),
        ("ΣΊΣΥΦΟΣ", "σισυφοσ"),
        ("Σίσυφος", "σισυφοσ"),
        ("İstanbul", "istanbul"),
        ("ﬁne", "fine"),
        ("Ａｄａ　Ｌ", "ada l"),
        ("Nguyễn Thị Hương", "nguyen thi huong"),
        ("Ёлка", "елка"),
        ("がぎぐ", "かきく"),
        ("山田太郎", "山田太郎"),
        ("김", "\u1100\u1175\u11b7"),
        ("a\u00a0b", "a b"),
        ("a\u2028b", "a b"),
        ("a´b", "a b"),
        ("\u0301", ""),
        ("😀 K", "😀 k"),
        ("ŁŒø", "łœø"),
        ("", ""),
    ],
)
def test_text_is_compared_without_case_accents_or_extra_white_space(written: str, compared: str) -> None:
    assert fold(written) == compared


@few
@given(st.text(max_size=40))
@example("\u0345\u03b1\u0301 ŉ")
def test_folding_follows_the_design_and_folding_twice_changes_nothing(text: str) -> None:
    assert fold(text) == folded(text)
    assert fold(fold(text)) == fold(text)
    assert fold(unicodedata.normalize("NFC", text)) == fold(unicodedata.normalize("NFD", text))


def test_a_name_is_found_by_the_start_of_its_first_eight_words() -> None:
    assert list(starts("emeka okafor")) == ["emeka okafor", "okafor"]
    assert list(starts("one")) == ["one"]
    assert list(starts("a b c d e f g h i j"))[-1] == "h i j"
    assert len(list(starts("a b c d e f g h i j"))) == 8
    assert len(list(starts("a b c d e f g h"))) == 8


# -- what the index of words holds ------------------------------------------------------------------------------------

HOSTILE = ["a", "a:b", "::", "ü😀", "ADA", "Ada Lovelace", " x", "x ", "\u0301", "n", "u", "\xff", "a\u00a0b", "{x}",
           "é" * 24, "é" * 25, "x" * 48, "x" * 49, "x" * 256, "ü" * 128, "X" * 48, "Ｘ", "김" * 16]  # fmt: skip


@pytest.mark.parametrize("uid", HOSTILE)
def test_every_entry_of_the_index_names_its_user(uid: str) -> None:
    found = entries(EVERY_INDEX, uid, "Zoë " + uid, "mail@example.org\n" + uid)
    assert {uid_of(entry) for entry in found} == {uid}
    kinds = [entry[:1] for entry in found]
    assert set(kinds) - {b"u"} == {b"n", b"a"}
    assert kinds.count(b"u") == len({piece for text in spellings(uid) for piece in starts_of_uid(text)})
    texts = [entry.partition(b"\0")[0] for entry in found if b"\0" in entry]
    assert all(len(text.removesuffix(MORE)) <= 1 + (BEFORE_CUT if text[:1] == b"n" else CUT) for text in texts)
    assert len(set(found)) == len(found)


def reaches(found: list[bytes], kinds: bytes, start: str) -> bool:
    """Whether a search for this text reads one of these entries."""
    return any(entry[:1] in kinds and entry[1:].startswith(start.encode()[:CUT]) for entry in found)


@few
@given(
    st.sampled_from(HOSTILE),
    st.text("aB éữøü-@'.+0", max_size=30),
    st.lists(st.text("aB éü@.+04-", min_size=1), max_size=3),
)
def test_every_start_of_a_user_has_an_entry(uid: str, name: str, aliases: list[str]) -> None:
    found = entries(EVERY_INDEX, uid, name, "\n".join(aliases))
    assert all(reaches(found, b"u", start) for text in spellings(uid) for start in starts_of_uid(text))
    for text in spellings(name):
        for start in starts_of(text):
            assert reaches(found, b"n", start)
            kept = [entry for entry in found if entry[:1] == b"n" and entry[1:].startswith(start.encode()[:NAME_CUT])]
            assert kept, "name_contains searches whole names"
    for alias in aliases:
        assert all(reaches(found, b"na", start) for text in spellings(alias) for start in starts_of(text))
    assert {entry for entry in found if entry[:1] == b"n"} or not starts_of(spellings(name)[0])


def test_an_alias_that_goes_on_from_the_name_costs_no_entry_of_its_own() -> None:
    found = entries(EVERY_INDEX, "u1019", "Amina Wekesa", "amina.wekesa12@gmail.com\namina")
    assert not any(entry[:1] == b"t" for entry in found), "only phone numbers have ends"
    assert found == [
        b"uu1019", b"u1019\0u1019", b"naminawekesa12gm\0u1019", b"nwekesa12gmailco\1amina\0u1019", b"agmailcom\0u1019"
    ]  # fmt: skip


def test_the_prefix_of_a_name_is_read_at_the_same_places_as_before() -> None:
    """An index of names serves name_prefix, too: all that it can match begins at a start."""
    for name in ("a b c d e f g h i j", "- foo", "1 2 3 4 5 6 7 - x y", "o'neill sam", "Øre - - b"):
        found = entries(EVERY_INDEX, "u", name, "")
        for text in starts(fold(name)):
            for upto in range(1, len(text) + 1):
                if (piece := name_piece(text[:upto])) != "":
                    assert reaches(found, b"n", piece), (name, text[:upto])


@pytest.mark.parametrize("chosen", [(), ("uid",), ("name",), ("alias",), ("ip",), ("uid", "alias")])
def test_only_the_chosen_indexes_have_entries(chosen: tuple[str, ...]) -> None:
    found = entries(frozenset(chosen), "ada", "Ada", "a@example.org")
    letters = {"uid": b"u", "name": b"n", "alias": b"a"}
    assert {entry[:1] for entry in found} == {letters[letter] for letter in chosen if letter in letters}


# -- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "first", "last"),
    [
        ("192.0.2.7", "192.0.2.7", "192.0.2.7"),
        ("192.0.2.7/32", "192.0.2.7", "192.0.2.7"),
        ("192.0.2.0/24", "192.0.2.0", "192.0.2.255"),
        ("192.0.2.77/24", "192.0.2.0", "192.0.2.255"),
        ("0.0.0.0/0", "0.0.0.0", "255.255.255.255"),
        ("2001:DB8::/32", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2001:db8::7", "2001:db8::7", "2001:db8::7"),
        ("2001:db8::7/127", "2001:db8::6", "2001:db8::7"),
        ("::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("::ffff:192.0.2.7", "192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7/120", "192.0.2.0", "192.0.2.255"),
        ("::ffff:0:0/96", "0.0.0.0", "255.255.255.255"),
        ("::FFFF:c000:207", "192.0.2.7", "192.0.2.7"),
    ],
)
def test_an_address_or_a_network_is_a_range_of_addresses(written: str, first: str, last: str) -> None:
    assert address_range_of(written) == (packed(first), packed(last))


@pytest.mark.parametrize(
    "written",
    ["", " ", "1", "1.2", "1.2.3.4.5", "192.0.2.", "256.1.1.1", "01.2.3.4", "1.2.3.4/33", "1.2.3.4/-1", "1.2.3.4/",
     "/8", "1.2.3.4/255.255.255.0", "::/129", "::g", ":::", "1::2::3", "[::1",
     "a", "dead", "١.1.1.1", "1.2.3.4/٢٤", "1.2.3.4/8/8", "0x7f.1.1.1",
     "\0", "1" * 5000, ":" * 5000, None, 5, 1.5, b"1.2.3.4", ["1.2.3.4"], True],
)  # fmt: skip
def test_an_invalid_address_is_not_a_network(written: Any) -> None:
    assert address_range_of(written) is None


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.", "10.0.0.0/8"),
        ("192.0.", "192.0.0.0/16"),
        ("192.0.2.", "192.0.2.0/24"),
        ("192.0", "192.0.0.0/16"),
        ("192.0.2", "192.0.2.0/24"),
        (" 192.0.2. ", "192.0.2.0/24"),
        ("192.0.2.7", "192.0.2.7/32"),
        ("192.0.2.0/30", "192.0.2.0/30"),
        ("2001:db8::/64", "2001:db8::/64"),
        ("1.2.3.4.", "1.2.3.4/32"),
        ("١٢.", "12.0.0.0/8"),
        ("2001:db8:", "2001:db8::/32"),
        ("2001:db8:2", "2001:db8:2::/48"),
        ("2001:db8::", "2001:db8::/32"),
        ("1:2:3:4:5:6:7:", "1:2:3:4:5:6:7:0/112"),
        ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8/128"),
        ("::", "::/128"),
        ("1:2::3:", "1:2::3/128"),
        *((text, None) for text in ("192", ".", "..", "192.0.256", "192..", ".1.", "256.", "01.", "1.2.3.4.5.", "1x.",
                                    "192.0.2.7 x", "ada:", "1", "1:2:3:4:5:6:7:8:9:10", "12345:")),
    ],
)  # fmt: skip
def test_text_is_searched_as_an_address_if_it_is_written_as_one(text: str, network: str | None) -> None:
    assert SessionFilter(text=text).text_addresses == (network and address_range_of(network))


# -- the filter itself ------------------------------------------------------------------------------------------------


def test_a_filter_refuses_invalid_fields_in_one_sentence() -> None:
    wrong = []
    for field, value, sentence in FILTERS:
        try:
            SessionFilter(**{field: value})
        except InvalidArgument as error:
            if str(error) != f"{sentence}." or error.field not in (field, "attributes"):
                wrong.append(f"{field}={value!r:.60}: {error}")
        except Exception as error:
            wrong.append(f"{field}={value!r:.60}: {error!r}")
        else:
            wrong.append(f"{field}={value!r:.60}: taken")
    assert wrong == []
    assert {field for field, _, _ in FILTERS} == set(SessionFilter.__slots__), "each field has bad values"


def test_a_filter_takes_its_fields_by_name_only_and_is_immutable() -> None:
    with pytest.raises(TypeError):
        SessionFilter("ada")  # type: ignore[call-arg]
    plans = {"plan": "pro"}
    asked = SessionFilter(attributes=plans)
    before = asked.digest
    plans["plan"] = "free"
    assert asked.digest == before
    assert asked.matches(_session(attributes={"plan": "pro"}), NOW)


def test_only_the_given_fields_are_conditions() -> None:
    assert SessionFilter().given == ()
    assert SessionFilter().digest == ""
    empties: list[Any] = [{}, MappingProxyType({})]
    for empty in empties:
        assert SessionFilter(attributes=empty).given == ()
    assert SessionFilter(idle_for=0).given == ()
    assert SessionFilter(idle_for=0).digest == ""
    assert SessionFilter(device="tv", idle_for=0).given == ("device",)
    assert SessionFilter(device="tv", idle_for=1).given == ("device", "idle_for")
    assert SessionFilter(methods=()).given == ()
    assert SessionFilter(mfa=False).given == ("mfa",), "no second factor is a condition, too"
    inner = SessionFilter(device="tv", mfa=True)
    assert SessionFilter(app="shop", mfa=False, without=inner).needs == ("app", "mfa", "without", "device")


ASKED: list[dict[str, Any]] = [
    {},
    {"text": 'a "quoted" \\ näme'},
    {"uid": "ü😀:1", "device": "TV"},
    {"name_prefix": "Ok", "name_contains": "é"},
    {"ip": "2001:db8::/32", "idle_for": 0},
    {"logged_in_after": 1_700_000_000.123, "logged_in_before": 1_800_000_000},
    {"logged_in_after": 0.001, "logged_in_before": 0.002},
    {"logged_in_after": 99_999_999_999.998, "logged_in_before": 99_999_999_999.9991},
    {"logged_in_before": datetime(2026, 5, 4, 3, 2, 1, 987_654, tzinfo=UTC)},
    {"attributes": {"b": [1, {"c": None}], "a": True, "é": 1.5}},
    {"attributes": {"nothing": None}},
    {"app": "a", "app_version": "b", "os": "c", "browser": "d"},
    {"app_version_below": "2.10", "seen_within": 300},
    {"methods": ["pwd", "otp"], "mfa": False},
    {"mfa": True},
    {"without": SessionFilter(device="TV", methods=["pwd"], logged_in_after=1_700_000_000.5, attributes={"a": [1]})},
]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_a_filter_survives_a_round_trip_through_json(asked: dict[str, Any]) -> None:
    session_filter = SessionFilter(**asked)
    again = SessionFilter.from_json(session_filter.to_json())
    assert again.to_json() == session_filter.to_json()
    assert (again.given, again.digest, again.addresses) == (
        session_filter.given,
        session_filter.digest,
        session_filter.addresses,
    )
    assert (again.after, again.before) == (session_filter.after, session_filter.before)


@example(0.0001)
@example(0.0005)
@example(0.00051)
@example(99_999_999_999.9996)
@settings(few, max_examples=400)
@given(st.floats(-1, 2) | st.floats(0, 2e11) | st.datetimes(timezones=st.just(UTC)))
def test_any_time_survives_a_round_trip_through_json(at: Any) -> None:
    try:
        session_filter = SessionFilter(logged_in_after=at)
    except InvalidArgument:
        return
    again = SessionFilter.from_json(session_filter.to_json())
    assert again.after == session_filter.after
    assert again.to_json() == session_filter.to_json()
    assert session_filter.after is not None
    assert SessionFilter(logged_in_after=moment(session_filter.after)).after == session_filter.after


@pytest.mark.parametrize(
    ("after", "before"),
    [(5, 5), (5, 4.999), (5.0001, 5), (moment(5_000), 5), (1_800_000_000, moment(1_700_000_000_000))],
    ids=str,
)
def test_a_period_that_ends_before_it_begins_is_refused(after: Any, before: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^logged_in_after must be earlier than logged_in_before\.$") as caught:
        SessionFilter(logged_in_after=after, logged_in_before=before)
    assert caught.value.field == "logged_in_after"
    assert SessionFilter(logged_in_after=5, logged_in_before=5.001).given == ("logged_in_after", "logged_in_before")


def test_equal_filters_have_the_same_digest_and_different_ones_different_digests() -> None:
    assert len({SessionFilter(**asked).digest for asked in ASKED}) == len(ASKED)
    session_filter = SessionFilter(attributes={"a": 1, "b": [1, 2]}, logged_in_after=1_700_000_000.5)
    same = SessionFilter(attributes={"b": (1, 2), "a": 1}, logged_in_after=moment(1_700_000_000_500))
    assert session_filter.digest == same.digest
    names = [SessionFilter(methods=given).digest for given in (["pwd", "otp"], ("otp", "pwd"), {"otp": 1, "pwd": 2})]
    assert len(set(names)) == 1, "the order of methods does not count"
    assert SessionFilter(without=SessionFilter(app="a")).digest != SessionFilter(app="a").digest
    # Cursors are stored in bookmarks: a new release must still accept them.
    assert SessionFilter(device="phone").digest == "220fd0eb4895"


def _session(**fields: Any) -> Session:
    given: dict[str, Any] = {"uid": "ada", "session_id": "session-1", "login_at": moment(NOW - 60_000),
                             "last_seen": moment(NOW - 5_000),
             "expires_at": moment(NOW + 1), "idle_timeout": 60, "absolute_timeout": 60,
             "authenticated_at": moment(NOW - 60_000)}  # fmt: skip
    return Session(**given | fields)


@pytest.mark.parametrize(
    ("asked", "session", "found"),
    [
        ({"text": "oka"}, {"name": "Emeka Okafor"}, True),
        ({"text": "meka"}, {"name": "Emeka Okafor"}, False),
        ({"text": "emeka o"}, {"name": "Emeka Okafor"}, True),
        ({"text": "OKÁ"}, {"name": "Emeka Okafor"}, True),
        ({"text": "da"}, {}, False),
        ({"text": "ad"}, {"uid": "Ada"}, True),
        ({"text": "ada"}, {"uid": " ada"}, True),
        ({"text": "ada"}, {"uid": "´ada"}, True),
        ({"text": "bob"}, {"uid": "ada bob"}, False),
        ({"text": "bob@ex"}, {"aliases": ("x@example.org", "Bob@example.org")}, True),
        ({"text": "x y"}, {"aliases": ("x", "y")}, False),
        ({"text": "192.0.2.7"}, {"ip": "192.0.2.7"}, True),
        ({"text": "192.0.2."}, {"ip": "192.0.2.7"}, True),
        ({"text": "192.0.2"}, {"ip": "192.0.2.7"}, True),
        ({"text": "192.0.2"}, {"ip": "192.0.20.7"}, False),
        ({"text": "192"}, {"ip": "192.0.2.7"}, False),
        ({"text": "10.0.0.1"}, {"uid": "u10001"}, False),
        ({"text": "10.0.0.1"}, {"name": "Rack 10.0.0.12"}, True),
        ({"text": "sorensen"}, {"name": "Søren Sørensen"}, True),
        ({"text": "Soerensen"}, {"name": "Søren Sørensen"}, True),
        ({"text": "oneill"}, {"name": "Sam O'Neill"}, True),
        ({"text": "o'neill"}, {"name": "Sam O’Neill"}, True),
        ({"text": "neill"}, {"name": "Sam O'Neill"}, True),
        ({"text": "mueller"}, {"name": "Jörg Müller"}, True),
        ({"text": "muller"}, {"name": "Jörg Mu\u0308ller"}, True),
        ({"text": "Müller"}, {"name": "Jo Mueller"}, True),
        ({"text": "Müller, Jörg"}, {"name": "Joerg Mueller"}, True),
        ({"text": "lodz"}, {"name": "Łódź"}, True),
        ({"text": "isik"}, {"name": "Işık"}, True),
        ({"text": "dordic"}, {"name": "Đorđić"}, True),
        ({"text": "aegir thor"}, {"name": "Ægir Þór"}, True),
        ({"text": "gudmundur"}, {"name": "Guðmundur"}, True),
        ({"text": "coeur"}, {"name": "Cœur"}, True),
        ({"text": "joe"}, {"name": "John"}, False),
        ({"text": "wekesa amina"}, {"name": "Amina Wekesa"}, True),
        ({"text": "Wekesa, Amina"}, {"name": "Amina Wekesa"}, True),
        ({"text": "wek ami"}, {"name": "Amina Wekesa"}, True),
        ({"text": "wekesa anna"}, {"name": "Amina Wekesa"}, False),
        ({"text": "wekesa amina"}, {"name": "Amina", "aliases": ("Wekesa",)}, False),
        ({"text": "山田太郎"}, {"name": "山田 太郎"}, True),
        ({"text": "山田　太郎"}, {"name": "山田太郎"}, True),
        ({"text": "太郎 山田"}, {"name": "山田 太郎"}, True),
        ({"text": "太郎"}, {"name": "山田太郎"}, False),
        ({"text": "berg"}, {"name": "Anna Van-den-Berg"}, True),
        ({"text": "wekesa"}, {"aliases": ("amina.wekesa@example.com",)}, True),
        ({"text": "wekesa"}, {"aliases": ("amina_wekesa",)}, True),
        ({"text": "wekesa"}, {"aliases": ("support/wekesa",)}, True),
        ({"text": "@example.com"}, {"aliases": ("amina@example.com",)}, True),
        ({"text": "example.com"}, {"aliases": ("amina@example.com",)}, True),
        ({"text": "com"}, {"aliases": ("amina@example.com",)}, False),
        ({"text": "ab@example.com"}, {"aliases": ("a.b@example.com",)}, False),
        ({"text": "a.b@exam"}, {"aliases": ("A.B@example.com",)}, True),
        ({"text": "example.com"}, {"uid": "amina@example.com"}, True),
        ({"text": "+49 30 1234"}, {"aliases": ("+49301234567",)}, True),
        ({"text": "004930/1234"}, {"aliases": ("+49 (30) 1234-567",)}, True),
        ({"text": "49301234"}, {"aliases": ("0049 30 1234 567",)}, True),
        ({"text": "030 1234567"}, {"aliases": ("+49301234567",)}, True),
        ({"text": "030 1234567"}, {"aliases": ("+49 (0)30 1234567",)}, True),
        ({"text": "(30) 12"}, {"aliases": ("+49 30 1234567",)}, True),
        ({"text": "1019"}, {"uid": "u1019"}, True),
        ({"text": "1019"}, {"uid": "user-1019"}, True),
        ({"text": "19"}, {"uid": "u1019"}, False),
        ({"text": "u-10"}, {"uid": "u1019"}, True),
        ({"text": " session-1 "}, {}, True),
        ({"text": "session-"}, {}, False),
        ({"text": "SESSION-1"}, {}, False),
        ({"text": "'"}, {"name": "Sam O'Neill"}, True),
        ({"text": "'"}, {"name": "Sam Oneill"}, False),
        ({"name_prefix": "oneill"}, {"name": "Sam O'Neill"}, False),
        ({"name_prefix": "sorensen"}, {"name": "Sørensen"}, False),
        ({"name_contains": "muell"}, {"name": "Müller"}, False),
        ({"text": "192.0.2."}, {"name": "Rack 192.0.2.9"}, True),
        ({"text": "2001:db8::/32"}, {"ip": "2001:db8::7"}, True),
        ({"name_prefix": "ninth"}, {"name": "1 2 3 4 5 6 7 8 ninth"}, False),
        ({"name_prefix": "8 ninth"}, {"name": "1 2 3 4 5 6 7 8 ninth"}, True),
        ({"name_contains": "9 n"}, {"name": "1 2 3 4 5 6 7 8 9 ninth"}, True),
        ({"name_prefix": "ada"}, {"uid": "ada", "aliases": ("ada",)}, False),
        ({"name_contains": "ka ok"}, {"name": "Emeka  Okafor"}, True),
        ({"name_contains": "ada"}, {}, False),
        ({"ip": "192.0.2.0/24"}, {"ip": "192.0.3.0"}, False),
        ({"ip": "192.0.2.0/24"}, {"ip": "10.0.0.1", "last_ip": "192.0.2.7"}, True),
        ({"ip": "192.0.2.0/24"}, {"ip": "192.0.2.7", "last_ip": "10.0.0.1"}, True),
        ({"text": "192.0.2."}, {"last_ip": "192.0.2.7"}, True),
        ({"ip": "192.0.2.0/24"}, {"ip": "10.0.0.1", "last_ip": "::1"}, False),
        ({"ip": "::/0"}, {"ip": "192.0.2.7"}, False),
        ({"ip": "0.0.0.0/0"}, {"ip": "::1"}, False),
        ({"ip": "0.0.0.0/0"}, {}, False),
        ({"device": "Phone"}, {"device": "phone"}, False),
        ({"os": "Android"}, {"os": "Android"}, True),
        ({"logged_in_after": NOW / 1000 - 60}, {}, True),
        ({"logged_in_before": NOW / 1000 - 60}, {}, False),
        ({"logged_in_after": NOW / 1000 - 59.999}, {}, False),
        ({"logged_in_before": NOW / 1000 - 59.999}, {}, True),
        ({"idle_for": 5}, {}, True),
        ({"idle_for": 6}, {}, False),
        ({"idle_for": 0}, {"last_seen": moment(NOW + 5)}, True),
        ({"seen_within": 5}, {}, True),
        ({"seen_within": 4}, {}, False),
        ({"seen_within": 1}, {"last_seen": moment(NOW + 5)}, True),
        ({"app_version_below": "2.10"}, {"app_version": "2.9"}, True),
        ({"app_version_below": "2.9"}, {"app_version": "2.10"}, False),
        ({"app_version_below": "2.10"}, {"app_version": "2.10"}, False),
        ({"app_version_below": "2.10"}, {"app_version": "2.10.0"}, False),
        ({"app_version_below": "2.10"}, {}, False),
        ({"app_version_below": "2.10"}, {"app_version": "nightly"}, False),
        ({"app_version_below": "2.10"}, {"app_version": "2.10-beta"}, True),
        ({"app_version_below": "2.10-rc"}, {"app_version": "2.10-beta"}, True),
        ({"app_version_below": "2.10-beta"}, {"app_version": "2.10-rc"}, False),
        ({"methods": ["pwd"]}, {"methods": ("pwd", "otp")}, True),
        ({"methods": ["otp", "pwd"]}, {"methods": ("pwd", "otp")}, True),
        ({"methods": ["pwd", "hwk"]}, {"methods": ("pwd", "otp")}, False),
        ({"methods": ["pwd"]}, {}, False),
        ({"mfa": True}, {"mfa": True}, True),
        ({"mfa": True}, {}, False),
        ({"mfa": False}, {}, True),
        ({"mfa": False}, {"mfa": True}, False),
        ({"without": SessionFilter(device="tv")}, {"device": "tv"}, False),
        ({"without": SessionFilter(device="tv")}, {}, True),
        ({"without": SessionFilter(device="tv", app="a")}, {"device": "tv"}, True),
        ({"device": "tv", "without": SessionFilter(uid="ada")}, {"device": "tv"}, False),
        ({"device": "tv", "without": SessionFilter(idle_for=6)}, {"device": "tv"}, True),
        ({"attributes": {"plan": "pro"}}, {"attributes": {"plan": "Pro"}}, False),
        ({"attributes": {"n": 1}}, {"attributes": {"n": 1.0}}, True),
        ({"attributes": {"n": 1}}, {"attributes": {"n": True}}, False),
        ({"attributes": {"n": [1]}}, {"attributes": {"n": [True]}}, False),
        ({"attributes": {"n": {"m": False}}}, {"attributes": {"n": {"m": 0}}}, False),
        ({"attributes": {"n": (1, 2)}}, {"attributes": {"n": [1, 2]}}, True),
        ({"attributes": {"n": None}}, {"attributes": {"n": None}}, True),
        ({"attributes": {"n": None}}, {"attributes": {}}, False),
        ({"attributes": {"n": "1"}}, {"attributes": {"n": 1}}, False),
        ({"attributes": {}}, {}, True),
    ],
    ids=str,
)  # fmt: skip
def test_a_filter_finds_the_sessions_that_the_design_names(
    asked: dict[str, Any], session: dict[str, Any], found: bool
) -> None:
    made = _session(**session)
    assert SessionFilter(**asked).matches(made, NOW) is found
    if "idle_for" not in asked or asked["idle_for"]:
        assert found_by(made, NOW, asked) is found, "the plain reading of the design agrees"


short = st.text("aA bé´.1@ﬁß山가\u0301", min_size=1, max_size=6).filter(lambda text: folded(text) != "")
ips = st.sampled_from(["10.0.0.1", "10.0.0.2", "10.1.0.1", "192.0.2.7", "::1", "2001:db8::7", "2001:db8::8"])
blocks = ips | st.sampled_from(
    ["10.0.0.0/8", "10.0.0.1/31", "0.0.0.0/0", "::/0", "2001:db8::/32", "::ffff:10.0.0.0/104"]
)
values = st.sampled_from([None, True, 1, 1.0, "1", [1], [True], {"a": 1}])
labels = st.sampled_from(["x", "X", "y"])
sessions = st.fixed_dictionaries(
    {},
    optional={
        "uid": short, "name": short, "aliases": st.lists(short, max_size=2).map(tuple), "ip": ips, "device": labels,
        "os": labels, "attributes": st.dictionaries(st.sampled_from("ab"), values),
        "login_at": st.integers(-3, 0).map(lambda ms: moment(NOW + ms)),
        "last_seen": st.integers(-3000, 0).map(lambda ms: moment(NOW + ms)),
        "methods": st.sampled_from([("pwd",), ("pwd", "otp")]), "mfa": st.booleans(),
        "app_version": st.sampled_from(["2", "2.9", "2.10", "2.10-beta", "x"]),
    },
)  # fmt: skip
questions: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "text": short | blocks | st.sampled_from(["10.", "10.0.", "192.0.2."]), "uid": short, "name_prefix": short,
        "name_contains": short, "ip": blocks, "device": labels, "os": labels,
        "logged_in_after": st.integers(-3, 0).map(lambda ms: (NOW + ms) / 1000),
        "logged_in_before": st.integers(-3, 0).map(lambda ms: (NOW + ms) / 1000),
        "idle_for": st.integers(0, 3), "attributes": st.dictionaries(st.sampled_from("ab"), values, max_size=1),
        "seen_within": st.integers(1, 3), "methods": st.sampled_from([["pwd"], ["otp"], ["otp", "pwd"]]),
        "mfa": st.booleans(), "app_version_below": st.sampled_from(["2.1", "2.10", "3-rc"]),
        "without": st.sampled_from(
            [SessionFilter(device="x"), SessionFilter(mfa=False, os="x"), SessionFilter(idle_for=2)]
        ),
    },
)  # fmt: skip


@settings(few, max_examples=size(200, 400))
@given(st.lists(sessions, min_size=1, max_size=5), questions)
def test_a_filter_agrees_with_a_plain_implementation_of_the_design(
    given: list[dict[str, Any]], asked: dict[str, Any]
) -> None:
    assume(asked.get("logged_in_after", 0) < asked.get("logged_in_before", math.inf))  # otherwise it is refused
    for fields in given:
        made = _session(**fields)
        assert SessionFilter(**asked).matches(made, NOW) is found_by(made, NOW, asked)
        for field, value in asked.items():
            assert SessionFilter(**{field: value}).matches(made, NOW) is found_by(made, NOW, {field: value})


def test_facets_count_the_declared_attributes_that_have_a_value() -> None:
    known = {"plan": "pro\nfree", "seats": 5, "none": None, "other": 1, "list": [1, {"b": 1, "a": 2}]}
    assert facet_members(("plan", "seats", "none", "list", "missing"), known).split("\n") == [
        'plan\0"pro\\nfree"', "seats\0" + "5", 'list\0[1,{"a":2,"b":1}]'
    ]  # fmt: skip
    assert facet_members(("plan",), None) == ""


# -- the same in Lua --------------------------------------------------------------------------------------------------


def _in_lua(servers: Servers, texts: list[str]) -> Iterator[str | None]:
    """The result of include/search/filter_tests.lua; None if it leaves the decision to the client."""
    include = (files("presence_core") / "lua" / "include" / "search" / "filter_tests.lua").read_text("utf-8")
    include = include.replace("LETTER_TABLE", letter_table())
    script = include.replace("FOLD_TABLE", fold_table()) + (
        "\nlocal out = {}\nfor i = 1, #ARGV do out[i] = fold(ARGV[i]) or false end\nreturn out"
    )
    raw = servers.client("valkey")
    for first in range(0, len(texts), 5000):
        for reply in raw.eval(script, 0, *texts[first : first + 5000]):
            yield None if reply is None else reply.decode()


def test_lua_folds_every_letter_of_one_and_two_bytes_like_python(servers: Servers) -> None:
    letters = [chr(code) for code in range(1, 0x800) if unicodedata.category(chr(code)) != "Cc"]
    texts = [f"x{letter}Y{letter}z" for letter in letters]
    assert [
        text
        for text, lua in zip(texts, _in_lua(servers, texts), strict=True)
        if lua is None or " ".join(lua.split()) != fold(text)
    ] == []


def test_lua_is_never_wrong_about_a_longer_letter(servers: Servers) -> None:
    codes = [code for code in range(0x800, 0x20000) if not 0xD800 <= code < 0xE000]
    texts = [f"x{chr(code)}É" for code in [*codes, *range(0x20000, 0x110000, 61)]]
    answers = list(_in_lua(servers, texts))
    wrong = [
        text
        for text, lua in zip(texts, answers, strict=True)
        if lua is not None and " ".join(lua.split()) != fold(text)
    ]
    assert wrong == []
    sure = {text[1] for text, lua in zip(texts, answers, strict=True) if lua is not None}
    assert set("山田太郎") <= sure, "ideographs need no client"


@few
@given(st.lists(st.text("aB éßÅ\u0301\u00a0´山김ễ😀", min_size=1, max_size=12), min_size=1, max_size=40))
def test_lua_folds_texts_like_python_or_leaves_them_to_it(servers: Servers, texts: list[str]) -> None:
    for text, lua in zip(texts, _in_lua(servers, texts), strict=True):
        assert lua is None or " ".join(lua.split()) == fold(text)


def test_a_time_may_be_given_as_a_datetime_or_as_seconds() -> None:
    at = datetime.now(UTC) - timedelta(days=400)
    assert SessionFilter(logged_in_after=at).after == SessionFilter(logged_in_after=at.timestamp()).after


PIECES = [
    *(
        "Müller",
        "O'Neill",
        "Sørensen",
        "Amina",
        "Wekesa",
        "山田",
        "김",
        "Ł",
        "an",
        "·",
        " ",
        ", ",
        "-",
        "u1019",
        "10.0.0.1",
    ),
    *("ليلى", "ليلي", "١٢٣", "たな", "タナ", "0301234567", "234567", "a.b+c@ex.am"),
    *("+49 (0)30 123-456", "004930 1234567", "a.b_c@ex.am", "x-y-1-2-3-4-5-6-7-8", "a b c d e f g h i"),
]
texts = st.lists(st.sampled_from(PIECES) | st.text("aAü' .-@,+049ø", min_size=1, max_size=4), min_size=1, max_size=3)


@settings(few, max_examples=size(150, 300))
@given(st.lists(st.tuples(texts, texts, st.booleans()), min_size=1, max_size=30))
def test_lua_finds_a_text_as_python_does_or_leaves_it_alone(
    servers: Servers, drawn: list[tuple[list[str], list[str], bool]]
) -> None:
    asked = [(" ".join("".join(value).split()), "".join(wanted), is_literal) for value, wanted, is_literal in drawn]
    asked = [(value, wanted[:6], is_literal) for value, wanted, is_literal in asked if fold(wanted[:6])]
    found = [needles(wanted, is_literal) for _, wanted, is_literal in asked]
    script = READ_INDEX.text.partition("-- KEYS")[0] + (
        "\nlocal out = {}\nfor i = 1, #ARGV, 2 do local needles = cjson.decode(ARGV[i + 1])"
        "\nout[#out + 1] = search_line(ARGV[i], needles, true)"
        "\nout[#out + 1] = search_line(ARGV[i], needles)\nout[#out + 1] = search_uid(ARGV[i], needles) end\nreturn out"
    )
    words = [part for (value, _, _), text in zip(asked, found, strict=True) for part in (value, json.dumps(text))]
    reply = servers.client("valkey").eval(script.replace("#!lua flags=no-writes", ""), 1, "fence", *words)
    python = [
        answer
        for (value, _, _), text in zip(asked, found, strict=True)
        for answer in (is_found(text, value, is_name=True), is_found(text, value), is_found_in_uid(text, value))
    ]
    wrong = [
        (asked[place // 3], place % 3, lua, said)
        for place, (lua, said) in enumerate(zip(reply, python, strict=True))
        if lua != 1 and bool(lua) is not said
    ]
    assert wrong == []
