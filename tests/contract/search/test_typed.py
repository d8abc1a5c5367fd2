"""Pasted text: what support staff copy from mails, tickets, logs and links finds the person, address or session that it
means, by an index as without one, and nothing that is found without cleaning is lost."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from presence_core import InvalidArgument, Session
from presence_core.filters import SessionFilter
from presence_core.models import moment
from presence_core.settings import INDEXES
from presence_core.text.typed_text import MAX_BYTES, as_one_line, read_typed
from tests.conftest import Bed, on
from tests.support.expected.oracle import folded, is_found_as_written
from tests.support.soak import size

SESSION: Final = "jW1kYVb6cT2m0xZ3aQ9f_A"
OTHER: Final = "jW1kYVb6cX2m0xZ3aQ9f_B"

# uid, and the other fields of a login
PEOPLE: Final[list[tuple[str, dict[str, Any]]]] = [
    ("u1019", {"session_id": SESSION, "name": "Ada Lovelace", "aliases": ["ada@example.com"], "ip": "203.0.113.7"}),
    ("u1020", {"session_id": OTHER, "name": "Grace Hopper", "aliases": ["grace@example.com"], "ip": "203.0.114.7"}),
    ("smith", {"session_id": "own-id-0001", "name": "John Smith", "aliases": ["+442079460958"],
               "ip": "2001:db8:0:12::9"}),
    ("berlin", {"session_id": "own-id-0002", "aliases": ["0171 1234567"], "ip": "2001:db8:2::1"}),
    ("boston", {"session_id": "own-id-0003", "aliases": ["(202) 555-0143"], "ip": "10.20.30.40"}),
    ("tanaka", {"session_id": "own-id-0004", "name": "田中 葵", "ip": "fe80::1"}),
    ("aoi", {"session_id": "own-id-0005", "name": "たなか あおい", "aliases": ["+12025550144"]}),
    ("layla", {"session_id": "own-id-0006", "name": "ليلى أحمد", "aliases": ["٠١٠٠١٢٣٤٥"]}),
    ("jim", {"session_id": "own-id-0007", "aliases": ["jim.jones+news@example.com"]}),
    ("ivan", {"session_id": "own-id-0008", "aliases": ["+7 912 345-67-80"]}),
]  # fmt: skip

# what is typed, and the uids that it finds
CASES: Final[dict[str, list[tuple[str, list[str]]]]] = {
    "characters that have no picture": [
        ("\u200bada@example.com", ["u1019"]),
        ("ada@exam\u200dple.com\u200b", ["u1019"]),
        ("\ufeffada@example.com", ["u1019"]),
        ("\u202aada@example.com\u202c", ["u1019"]),
        ("\u2066203.0.113.7\u2069", ["u1019"]),
        ("ada\u00ad@example.com", ["u1019"]),
        (f"\u2060{SESSION}\u200e", ["u1019"]),
        ("\u200fAda\u200b Lovelace\ufe0f", ["u1019"]),
        ("\u061cu1019", ["u1019"]),
        ("ada@example.com\r\n", ["u1019"]),
        ("\tada@example.com\x00", ["u1019"]),
        ("Ada\tLovelace", ["u1019"]),
        ("\x1b[1mada@example.com\x1b[0m", ["u1019"]),
    ],
    "quotes, brackets and ends of sentences": [
        ("<ada@example.com>", ["u1019"]),
        ("ada@example.com;", ["u1019"]),
        ("ada@example.com.", ["u1019"]),
        ("'ada@example.com',", ["u1019"]),
        ("„ada@example.com“", ["u1019"]),
        ("(ada@example.com)", ["u1019"]),
        ("[u1019]", ["u1019"]),
        (f'"{SESSION}"', ["u1019"]),
        (f"({SESSION}).", ["u1019"]),
        ("「田中 葵」", ["tanaka"]),
    ],
    "mails": [
        ("mailto:ada@example.com", ["u1019"]),
        ("MAILTO:ada%40example.com?subject=Hello", ["u1019"]),
        ('"Ada" <ada@example.com>,', ["u1019"]),
        ("Ada L. <ada@example.com>", ["u1019"]),
        ("ada@example.com; grace@example.com", ["u1019", "u1020"]),
        ("To: Ada <ada@example.com>", ["u1019"]),
        ("Email: ada@example.com", ["u1019"]),
        ("ada＠example.com", ["u1019"]),
        ("ada(at)example.com", ["u1019"]),
        ("ada [at] example [dot] com", ["u1019"]),
        ("ada%40example.com", ["u1019"]),
        ("ada @ example.com", ["u1019"]),
        ("_ada@example.com_", ["u1019"]),
        ("ada@example.com\ngrace@example.com", ["u1019", "u1020"]),
        ('"Ada" <ada@example.org>', []),
    ],
    "addresses": [
        ("203.0.113.7:443", ["u1019"]),
        ("203.0.113.7 port 51008", ["u1019"]),
        ("http://203.0.113.7:8080/x", ["u1019"]),
        ("203.0.113.*", ["u1019"]),
        ("203.0.*.*", ["u1019", "u1020"]),
        ("203.0.113.x", ["u1019"]),
        ("(203.0.113.7)", ["u1019"]),
        ("203.0.113.7,", ["u1019"]),
        ("203.0.113.7.", ["u1019"]),
        ("ip=203.0.113.7", ["u1019"]),
        ("２０３.０.１１３.７", ["u1019"]),
        ("[2001:db8:0:12::9]", ["smith"]),
        ("[2001:db8:0:12::9]:443", ["smith"]),
        ("2001:db8:0:12:", ["smith"]),
        ("2001:db8:0:12", ["smith"]),
        ("2001:db8:2", ["berlin"]),
        ("2001:DB8:2::", ["berlin"]),
        ("2001:db8::", ["smith", "berlin"]),
        ("2001:db8:*", ["smith", "berlin"]),
        ("2001:db8:1", []),
        ("fe80::1%eth0", ["tanaka"]),
        ("[fe80::1%25]:80", ["tanaka"]),
        ("tcp://203.0.113.7:443", ["u1019"]),
        ("203.0.113.7#53", ["u1019"]),
        ("203.0.113.0 / 24", ["u1019"]),
        ('for="203.0.113.7:443"', ["u1019"]),
        ('Forwarded: for="[2001:db8:0:12::9]"', ["smith"]),
        ('203.0.113.7 - - [26/Nov/2026] "GET /"', ["u1019"]),
        ("client: 203.0.113.7, server: example", ["u1019"]),
        ("203.0.113.7, 10.0.0.1", ["u1019"]),
        ("X-Forwarded-For: 203.0.113.7, 10.0.0.1", ["u1019"]),
        ("from 203.0.113.7:51008", ["u1019"]),
        ("203.0.113.7:51008 -> 10.0.0.5:443", ["u1019"]),
        ("203.0.113.7 (Paris, FR)", ["u1019"]),
        ("/203.0.113.7:443", ["u1019"]),
        ("203[.]0[.]113[.]7", ["u1019"]),
        ("203.0.113.xxx", ["u1019"]),
        ("203.0.113.%", ["u1019"]),
        ("203.0.113.0/255.255.255.0", ["u1019"]),
        ("203.0.113.0 - 203.0.113.99", ["u1019"]),
        ("2001:db8:2::-2001:db8:2::ff", ["berlin"]),
        ("203.0.114.99-203.0.113.0", []),
        ("ec2-203-0-113-7.example.com", ["u1019"]),
        ("7.113.0.203.in-addr.arpa", ["u1019"]),
        ('2001:db8:0:12::9 - - [26/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1"', ["smith"]),
        ("2001:db8:0:12::9#443", ["smith"]),
        ("12:34:56 std::string", []),
        ("203.0.113.8:443", []),
    ],
    "sessions": [
        (f"u1019:{SESSION}", ["u1019"]),
        (f"u1020:{SESSION}", []),
        ("smith:own-id-0001", ["smith"]),
        (f"session={SESSION}", ["u1019"]),
        (f"session_id: {SESSION},", ["u1019"]),
        ("sid=own-id-0001", ["smith"]),
        (f"2026-11-26T15:31:02Z INFO signed in uid=u1020 session={SESSION} ip=203.0.114.7", ["u1019"]),
        (f"[26/Nov/2026] INFO kicked u1019:{SESSION}: spam", ["u1019"]),
        (f"WARNING {SESSION} is unknown", ["u1019"]),
        (f'{{"uid": "u1019", "session_id": "{SESSION}"}}', ["u1019"]),
        (f"u1019\t{SESSION}\n", ["u1019"]),
    ],
    "users and links": [
        ("uid=u1019", ["u1019"]),
        ("uid: u1019", ["u1019"]),
        ('"uid": "u1019"', ["u1019"]),
        ("name=Ada Lovelace", ["u1019"]),
        ("INFO login uid=u1019 app=shop", ["u1019"]),
        ("user u1019", ["u1019"]),
        ("customer #1019", ["u1019"]),
        ('"sub": "u1019"', ["u1019"]),
        ("Ada Lovelace (u1019)", ["u1019"]),
        ("u1019 - Ada L.", ["u1019"]),
        ("u1019,Ada Lovelace,Paris", ["u1019"]),
        ("u1019\tAda Lovelace\tParis\t2026-11-26", ["u1019"]),
        (" u1019 | Ada Lovelace | 2026-11-26", ["u1019"]),
        ("u1019\nu1020", ["u1019", "u1020"]),
        ("Ada Lovelace\r\nGrace Hopper", ["u1019", "u1020"]),
        ("Lovelace\tAda", ["u1019"]),
        ("Ada\tGrace", []),
        ("https://presence.example.com/?q=lovelace&device=iPhone", ["u1019"]),
        ("https://presence.example.com/person?q=ada%40example.com", ["u1019"]),
        ("http://localhost:8501/?q=Ada+Lovelace", ["u1019"]),
        (f"https://presence.example.com/?q={SESSION}", ["u1019"]),
    ],
    "courtesy titles": [
        ("Mr John Smith", ["smith"]),
        ("Mr. Smith", ["smith"]),
        ("Smith, Dr. John", ["smith"]),
        ("Prof. Dr. Lovelace", ["u1019"]),
        ("Frau Lovelace", ["u1019"]),
        ("Grace Hopper, PhD", ["u1020"]),
        ("田中様", ["tanaka"]),
        ("田中さん", ["tanaka"]),
        ("Mr.John Smith", ["smith"]),
        ("M. Smith", ["smith"]),
        ("John Smith (Mr)", ["smith"]),
        ("Capt. John Smith Jr.", ["smith"]),
        ("@smith", ["smith"]),
        ("Dear Ada Lovelace,", ["u1019"]),
        ("Mr", []),
        ("Mr Grace Smith", []),
    ],
    "phone numbers": [
        ("+44 (0)20 7946 0958", ["smith"]),
        ("0044(0)20 7946 0958", ["smith"]),
        ("+44 020 7946 0958", ["smith"]),
        ("tel:+44-20-7946-0958", ["smith"]),
        ("Tel.: +44 20 7946 0958", ["smith"]),
        ("Phone +44 20 7946 0958", ["smith"]),
        ("+44 20 7946‑0958", ["smith"]),
        ("+44 20 7946 0958 ext. 12", ["smith"]),
        ("+49 171 1234567", ["berlin"]),
        ("0049 (0)171 1234567", ["berlin"]),
        ("+49 171 12", ["berlin"]),
        ("+1 202 555 0143", ["boston"]),
        ("+44 (0)20 7946 0959", []),
        ("460958", ["smith"]),
        ("7946 0958", ["smith"]),
        ("46-0958", ["smith"]),
        ("234567", ["berlin"]),
        ("550143", ["boston"]),
        ("***460958", ["smith"]),
        ("+44 •••• 460958", ["smith"]),
        ("ends in 460958", ["smith"]),
        ("tel:+44-20-7946-0958;phone-context=example.com", ["smith"]),
        ("☎ +44 20 7946 0958", ["smith"]),
        ("020 7946 0958 (office)", ["smith"]),
        ("Tél : 020 7946 0958", ["smith"]),
        ("電話: 020 7946 0958", ["smith"]),
        ("call +44 20 7946 0958 after six", ["smith"]),
        ("+44 20 7946 0958, ext 5", ["smith"]),
        ("011 44 20 7946 0958", ["smith"]),
        ("https://wa.me/442079460958", ["smith"]),
        ("ending 460958", ["smith"]),
        ("8 (912) 345-67-80", ["ivan"]),
        ("+44 20 7946 0958 / +7 912 345-67-80", ["smith", "ivan"]),
        ("020 7946 0958\n0171 1234567", ["smith", "berlin"]),
        ("60958", []),
        ("460959", []),
        ("4609", []),
    ],
    "starts of session ids": [
        (SESSION[:10], ["u1019"]),
        (SESSION[:21], ["u1019"]),
        (f"{SESSION[:12]}…", ["u1019"]),
        (f"{SESSION[:12]}*", ["u1019"]),
        (f"u1019:{SESSION[:10]}", ["u1019"]),
        (f"u1020:{SESSION[:10]}", []),
        (f"session={SESSION[:10]}...", ["u1019"]),
        (f"session {SESSION[:10]} is unknown", ["u1019"]),
        (SESSION[:9], []),
        (SESSION[:10].lower(), []),
        (SESSION[1:11], []),
        ("own-id-000", []),
    ],
    "kana": [
        ("タナカ", ["aoi"]),
        ("たなか", ["aoi"]),
        ("ﾀﾅｶ", ["aoi"]),
        ("アオイ たなか", ["aoi"]),
        ("あおい", ["aoi"]),
        ("あい", []),
    ],
    "Arabic letters and digits": [
        ("ليلي", ["layla"]),
        ("لیلی", ["layla"]),
        ("لـيـلى", ["layla"]),
        ("احمد ليلي", ["layla"]),
        ("١٢٠٢٥٥٥٠١٤٤", ["aoi"]),
        ("+۱۲۰۲۵۵۵۰۱۴۴", ["aoi"]),
        ("01001234", ["layla"]),
        ("٢٠٣.٠.١١٣.٧", ["u1019"]),
        ("u١٠١٩", ["u1019"]),
    ],
    "email addresses with a tag": [
        ("jim.jones@example.com", ["jim"]),
        ("jim.jones@ex", ["jim"]),
        ("jim.jones+news@example.com", ["jim"]),
        ("jones@example.com", ["jim"]),
        ("jim.jones+ads@example.com", []),
        ("jim@example.com", []),
    ],
}
ALL: Final = [(kind, typed, found) for kind, cases in CASES.items() for typed, found in cases]


def _session(uid: str = "u", **fields: Any) -> Session:
    now = moment(1_800_000_000_000)
    given = {"session_id": "session-1", "aliases": (), **fields}
    given["aliases"] = tuple(given["aliases"])
    return Session(uid=uid, login_at=now, last_seen=now, expires_at=now, idle_timeout=60, absolute_timeout=60,
                   authenticated_at=now, **given)  # fmt: skip


@pytest.mark.parametrize(("typed", "found"), [case[1:] for case in ALL], ids=[f"{kind}: {t!a}" for kind, t, _ in ALL])
def test_a_pasted_text_finds_what_it_means(typed: str, found: list[str]) -> None:
    asked = SessionFilter(text=typed)
    assert [uid for uid, fields in PEOPLE if asked.matches(_session(uid, **fields), 0)] == found


@pytest.mark.parametrize("indexes", [INDEXES, ()], ids=["by index", "by scan"])
@on("valkey-sync", "cluster-async", soak=("redis7-sync",))
def test_a_pasted_text_finds_the_same_with_an_index_and_without(bed: Bed, indexes: tuple[str, ...]) -> None:
    p = bed.connect(indexes=indexes)
    p.freeze()
    for uid, fields in PEOPLE:
        p.login(uid, **fields)
    wrong = []
    for kind, typed, found in ALL:
        asked = SessionFilter(text=typed)
        page = p.list_sessions(asked)
        if sorted(session.uid for session in page) != sorted(found) or p.count_sessions(asked) != len(found):
            wrong.append((kind, typed, [session.uid for session in page]))
    assert wrong == []


@on("valkey-sync", "cluster-async")
def test_with_an_index_of_the_version_before_a_scan_finds_the_same_until_reindex(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    for uid, fields in PEOPLE:
        p.login(uid, **fields)
    [layout] = bed.families()["layout"]
    for key in (layout, *(shard.meta for shard in p.context.keys.shards)):
        bed.raw.hset(key, "indexes", "uid.3,name.3,alias.3,ip.2")
    for shard in p.context.keys.shards:  # what that version does not write
        for entry in bed.raw.zrange(shard.words, 0, -1):
            if entry[:1] == b"t" or "タナカ".encode() in entry or b"jonesexample" in entry:
                bed.raw.zrem(shard.words, entry)
        bed.raw.delete(shard.ids)
    fresh = bed.connect()
    fresh.set_now(p.clock.ms)
    asked = SessionFilter(text=SESSION[:10])
    for index in ("list", "text"):
        assert fresh.explain(asked).index == index
        for kind, typed, found in ALL:
            assert sorted(session.uid for session in fresh.list_sessions(SessionFilter(text=typed))) == sorted(found), (
                kind, typed, index
            )  # fmt: skip
        fresh.reindex()


@on("valkey-sync", "cluster-async")
def test_people_are_found_by_a_pasted_text_too(bed: Bed) -> None:
    p = bed.connect()
    for uid, fields in PEOPLE:
        p.login(uid, **fields)
    p.kick("smith", by="staff", reason="test")
    for kind in CASES.keys() - {"addresses", "sessions", "starts of session ids"}:
        for typed, found in CASES[kind]:
            if SESSION not in typed and "٢٠٣" not in typed and "203" not in typed:
                assert {person.uid for person in p.people(typed)} == set(found), typed
    assert [person.uid for person in p.people(f"u1019:{SESSION}")] == ["u1019"]


# -- long texts -------------------------------------------------------------------------------------------------------

MAIL: Final = """Return-Path: <bounces+123@mail.example.net>
Received: from mx.example.net (mx.example.net [192.0.2.1]) by mail.example.org; Thu, 26 Nov 2026 10:00:00 +0000 (UTC)
DKIM-Signature: v=1; a=rsa-sha256; d=example.com; s=s1; h=from:to:subject; b=AbCdEfGhIjKlMnOpQrStUv0123456789
Message-ID: <CAB+x7Zq1234@mail.example.com>
From: "Ada Lovelace" <ada@example.com>
To: Support <support@example.org>
Subject: I cannot sign in
"""
AGENT: Final = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)
WORDS: Final = "The customer says that nothing works. " * 8

LONG: Final[list[tuple[str, list[str]]]] = [
    (MAIL, ["u1019"]),
    (MAIL.replace("\n", " "), ["u1019"]),
    (f'{{"time":"2026-11-26T15:31:02Z","level":"INFO","message":"signed in","uid":"u1019","session_id":"{OTHER}","ip":'
     f'"203.0.113.7","request_id":"7f0d9a3e1c2b4d5e","path":"/account/orders","user_agent":"{AGENT}"}}', ["u1020"]),
    (f'203.0.113.7 - - [26/Nov/2026:10:00:00 +0000] "GET /account/orders?page=2&sort=date HTTP/1.1" 200 5123 '
     f'"https://shop.example.com/account/orders?page=1&sort=date&filter=all" "{AGENT}" 0.031', ["u1019"]),
    (f"u1019\tAda Lovelace\tParis\t{AGENT}\t{AGENT}", ["u1019"]),
    (WORDS + SESSION, ["u1019"]),
    (f"{WORDS}It is session=own-id-0001.", ["smith"]),
    (WORDS + "uid=u1019", ["u1019"]),
    (WORDS + "Call +44 20 7946 0958.", ["smith"]),
    (f"{WORDS}{SESSION} grace@example.com", ["u1019", "u1020"]),
    ("é" * 200 + " 2001:db8:0:12::9", ["smith"]),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "found"), LONG)
def test_a_long_text_is_looked_through_for_what_can_be_found(typed: str, found: list[str]) -> None:
    asked = SessionFilter(text=typed)
    assert [uid for uid, fields in PEOPLE if asked.matches(_session(uid, **fields), 0)] == found
    assert len((asked.text or "").encode()) <= MAX_BYTES, "stored with a job, and in the address of a page"
    assert SessionFilter(text=asked.text) == asked


@pytest.mark.parametrize(
    "typed", [WORDS, "x" * 257, "名" * 86, WORDS.replace(" ", "\n"), "ada@example.com " + "x" * 20_000]
)
def test_a_long_text_without_anything_to_find_is_refused_with_the_limit(typed: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^text must be text of 1 to 256 bytes, or of up to 20000 characters"):
        SessionFilter(text=typed)


@pytest.mark.parametrize(
    "part", ["a", "a.", "a@", "1:", "::", "+1 ", "id= ", "x-i", "from: ", "message-id: <", "[at]", "é", "%40"]
)
def test_a_long_text_is_read_in_a_time_that_grows_with_its_length(part: str) -> None:
    """20,000 characters may take half a second, where an expression that begins again at each takes ten."""
    began = time.process_time()
    as_one_line(part * (20_000 // len(part)))
    assert time.process_time() - began < 3


# -- nothing is lost --------------------------------------------------------------------------------------------------

PIECES: Final = ["Ada", "Mr", "Dr.", "Müller", "O'Neill", "a.b@ex.am", "ada+x@ex.am", "@ex", "<", ">", '"', ";", ",",
                 ":", "=", "uid=", "id:", "tel:", "+49", "(0)", "0171", "0049", "20 7946", "10.0.", ".*", "2001:db8",
                 "::", "[", "]", "\u200b", "\u200f", "١٢", "さん", "様", "田中", "タ", "た", "ى", "ي", "-", " ",
                 "own-id-0001", "https://", "/?q=", "%40", "u10", "#"]  # fmt: skip
parts = st.sampled_from(PIECES) | st.text("aAdé.@-+0123 ,", min_size=1, max_size=3)
texts = st.lists(parts, min_size=1, max_size=5).map(lambda some: "".join(some))


@settings(max_examples=size(400, 4000), deadline=None, database=None, derandomize=True)
@given(texts, texts, st.integers(0, 12), st.integers(1, 12))
@example("Müller", "mueller", 0, 12)
@example("ada@ex.am,", "ada@ex.am,", 0, 12)
def test_what_is_found_without_cleaning_is_still_found(stored: str, typed: str, first: int, length: int) -> None:
    """Typed is an independent text, or a part of the stored one."""
    for text in (typed, stored[first : first + length], stored):
        if not folded(text):
            continue
        asked = SessionFilter(text=text)
        for kind, fields in (("uid", {"uid": stored}), ("name", {"name": stored}), ("alias", {"aliases": (stored,)})):
            if kind == "uid" and any(char > "\x7f" and char.isdecimal() for char in stored):
                continue  # digits of two scripts in one uid are one number now
            if is_found_as_written(stored, text, kind, earlier=True):
                assert asked.matches(_session(**fields), 0), (kind, stored, text)


@settings(max_examples=size(300, 3000), deadline=None, database=None, derandomize=True)
@given(texts)
def test_cleaning_fails_for_no_text_and_keeps_the_text_itself(typed: str) -> None:
    assume(folded(typed))
    assert read_typed(typed).texts[0] == typed
    assert read_typed(typed) == read_typed(typed)
    for needle in SessionFilter(text=typed).needles[1:]:
        assert needle.text or needle.literal, "no further meaning matches everything"
