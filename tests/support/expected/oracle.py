"""The meaning of a filter, implemented again from the design, as plainly as possible.

Nothing here is taken from ``presence_core.filters``: where the two differ, one of them is wrong.
"""

from __future__ import annotations

import ipaddress
import unicodedata
from functools import lru_cache
from typing import Any

from presence_core import Session
from tests.support.expected import meanings
from tests.support.expected.meanings import COUNTRIES

once = lru_cache(20_000)
"""Tests ask for the same texts again and again: plain code is slow, and without this was nine tenths of their time."""


@once
def folded(text: str) -> str:
    """NFKD, marks dropped, case folded, white space single."""
    letters = [letter for letter in unicodedata.normalize("NFKD", text) if unicodedata.combining(letter) == 0]
    return " ".join("".join(letters).casefold().split())


def some_word_starts_with(text: str, start: str) -> bool:
    """One of the first eight words, with the text after it."""
    words = folded(text).split(" ")
    return any(" ".join(words[place:]).startswith(folded(start)) for place in range(min(8, len(words))))


LETTERS = {"ø": "o", "ł": "l", "ı": "i", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "þ": "th", "ħ": "h", "ŧ": "t",
           "ŋ": "n", "ĸ": "k"}  # fmt: skip
ARABIC = {"ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه", "ہ": "ه", "ە": "ه", "ٱ": "ا", "ـ": "-"}
UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"}


@once
def separates(letter: str) -> bool:
    """Whether a letter is nothing but a separator: punctuation, space, a sign; not an emoji."""
    if letter in "ʹʺʻʼʽʾʿ":
        return True
    kind = unicodedata.category(letter)
    return kind[0] in "PZ" or kind in ("Cc", "Cf", "Sc", "Sk", "Sm")


@once
def plain_letter(letter: str) -> str:
    """Letters that people write for each other: of Arabic, digits of any script, hiragana."""
    if letter.isdecimal():
        return str(unicodedata.digit(letter))
    is_hiragana = unicodedata.name(letter, "").startswith("HIRAGANA") and "\u3041" <= letter <= "\u309e"
    return ARABIC.get(letter) or (chr(ord(letter) + 96) if is_hiragana else letter)


@once
def readings(text: str, *, earlier: bool = False) -> list[str]:
    """The text as a search reads it, its separators kept (others than ASCII as a hyphen): once with ü as u, once as
    ue. earlier: as before letters of Arabic, digits and hiragana were read alike."""
    twice = "".join(UMLAUTS.get(letter.lower(), letter) for letter in unicodedata.normalize("NFC", text))
    out = []
    for version in (text, twice):
        letters = [LETTERS.get(letter, letter if earlier else plain_letter(letter)) for letter in folded(version)]
        out.append("".join("-" if mark > "\x7f" and len(mark) == 1 and separates(mark) else mark for mark in letters))
    return out


@once
def bare(text: str) -> str:
    return "".join(letter for letter in text if not separates(letter))


@once
def beginnings(read: str, whole_uid: bool = False) -> list[str]:
    """From where on a search may begin in a name or an alias, or in a uid; separators left out."""
    is_phone = read[:1] == "+" or read[:2] == "00"
    is_phone = is_phone and all(letter in "0123456789 ().-/" for letter in read.removeprefix("+"))
    is_phone = is_phone and len(read) - (1 if read[:1] == "+" else 2) >= 6
    out = []
    if not whole_uid or "@" in read or is_phone:
        further, at = 8, 0
        for word in read.split(" ")[:8]:
            out.append(bare(read[at:]))
            name, _, domain = word.rpartition("@")
            local = name if "@" in word else word
            first = next((place for place, letter in enumerate(local) if not separates(letter)), len(local))
            for place in range(first + 1, len(local)):
                if separates(local[place - 1]) and not separates(local[place]) and further:
                    out.append(bare(read[at + place :]))
                    further -= 1
            if "@" in word:
                out.append(bare(read[at + len(local) :]) if bare(domain) else "")
            at += len(word) + 1
    if whole_uid:
        out.append(bare(read))
        letters = bare(read).rstrip("0123456789")
        if letters and not any(letter in "0123456789" for letter in letters):
            out.append(bare(read)[len(letters) :])
    if is_phone:
        digits = bare(read.replace("(0)", "")).removeprefix("00")
        code = next((code for code in COUNTRIES if digits.startswith(code)), digits[:3])
        out += [digits, digits[len(code) :]]
    return [number for number in out if number]


@once
def is_an_address(written: str) -> bool:
    try:
        ipaddress.ip_network(written, strict=False)
    except ValueError:
        return has_octets("0.0.0.0", written, only_form=True)
    return True


@once
def text_is_in(text: str, asked: str, kind: str) -> bool:
    """Whether one of the meanings of a search text finds a uid, a name or an alias. An email address counts without its
    tag, too."""
    meant = [each for each in meanings.texts(asked) if each == asked or bare(readings(each)[0])]
    return any(
        any(is_found_as_written(stored, each, kind) or ends_with(stored, each, kind) for each in meant)
        or any(
            start.startswith(number)
            for number in meanings.numbers(asked)
            for read in readings(stored)
            for start in beginnings(read, whole_uid=kind == "uid")
        )
        for stored in meanings.with_and_without_tag(text)
    )


def ends_with(text: str, asked: str, kind: str) -> bool:
    """Whether a phone number of seven digits or more ends with these six or more."""
    read, wanted = readings(text)[0], readings(asked)[0]
    if is_an_address(asked.strip()) or not all(letter in "+0123456789 ().-/" for letter in read + wanted):
        return False
    is_abroad = [number[:1] == "+" or number[:2] == "00" for number in (read, wanted)]
    lengths = [len(number) - (1 if number[:1] == "+" else 2) for number in (read, wanted)]
    if (is_abroad[1] and lengths[1] >= 6) or (kind == "uid" and not (is_abroad[0] and lengths[0] >= 6)):
        return False
    if "+" in read[1:] and kind == "uid":
        return False
    digits = bare(read.replace("(0)", ""))
    return len(digits) >= 7 and len(bare(wanted)) >= 6 and digits.endswith(bare(wanted))


@once
def is_found_as_written(text: str, asked: str, kind: str, *, earlier: bool = False) -> bool:
    """Whether a search text finds a uid, a name or an alias without any cleaning. earlier: see ``readings``."""
    literally = is_an_address(asked.strip()) or "@" in folded(asked) or not bare(folded(asked))
    for read in readings(text, earlier=earlier):
        begins = beginnings(read, whole_uid=kind == "uid")
        for wanted in readings(asked, earlier=earlier):
            needle = bare(wanted)
            has = not needle or any(start.startswith(needle) for start in begins)
            if has and (wanted in read or not literally):
                return True
            short = needle.lstrip("0")
            is_number = not literally and all(letter in "+0123456789 ().-/" for letter in wanted)
            if is_number and short != needle and len(short) >= 5 and any(start.startswith(short) for start in begins):
                return True
            words = [bare(word) for word in wanted.replace(",", " ").replace(";", " ").split(" ") if bare(word)]
            is_of_words = kind == "name" and len(words) > 1 and not literally
            if is_of_words and all(any(start.startswith(word) for start in begins) for word in words):
                return True
    return False


@once
def lies_in(ip: str | None, written: str) -> bool:
    """An address, or a network in CIDR notation. An IPv4 address mapped to IPv6 is the IPv4 address."""
    try:
        block = ipaddress.ip_network(written, strict=False)
    except ValueError:
        return False
    if ip is None:
        return False
    address = ipaddress.ip_address(ip)
    if block.version == 6 and address.version == 4:
        dressed = ipaddress.IPv6Network("::ffff:0:0/96")
        assert isinstance(block, ipaddress.IPv6Network)
        return block.subnet_of(dressed) and ipaddress.ip_address(f"::ffff:{ip}") in block
    return address.version == block.version and address in block


def has_octets(ip: str | None, written: str, *, only_form: bool = False) -> bool:
    """Complete octets and a dot, or two or three octets."""
    octets = written.removesuffix(".").split(".")
    is_octet = [
        octet.isascii() and octet.isdigit() and len(octet) <= 3 and str(int(octet)) == octet for octet in octets
    ]
    if not all(is_octet) or not all(int(octet) <= 255 for octet in octets) or len(octets) > 3:
        return False
    if len(octets) == 1 and written[-1:] != ".":
        return False
    return only_form or (ip is not None and ":" not in ip and ip.startswith(written.removesuffix(".") + "."))


@once
def is_one_of(ip: str | None, asked: str) -> bool:
    """Whether an address is one that a search text means: the first of its forms that is an address counts."""
    for written in meanings.addresses(asked):
        groups = written.removesuffix(":").removesuffix(":").split(":")
        are_groups = ":" in written and all(1 <= len(group) <= 4 and is_hex(group) for group in groups)
        if are_groups and len(groups) < 8 and any(letter in "0123456789" for letter in written):
            return lies_in(ip, ":".join(groups) + f"::/{16 * len(groups)}")
        if is_an_address(written):
            return lies_in(ip, written) or has_octets(ip, written)
    return False


def is_hex(text: str) -> bool:
    return all(letter in "0123456789abcdefABCDEF" for letter in text)


def same(ours: Any, wanted: Any) -> bool:
    """Equal, as in JSON: true is not 1, a tuple is a list."""
    if isinstance(wanted, list | tuple):
        return isinstance(ours, list) and len(ours) == len(wanted) and all(map(same, ours, wanted))
    if isinstance(wanted, dict):
        return isinstance(ours, dict) and ours.keys() == wanted.keys() and all(same(ours[k], wanted[k]) for k in wanted)
    return isinstance(ours, bool) == isinstance(wanted, bool) and bool(ours == wanted)


def is_earlier(version: str | None, limit: str) -> bool:
    """Whether a version of digits, dots and a last part such as -beta is before another. Without such a part it is
    after all that have one."""

    def compared(text: str) -> list[tuple[bool, int, str]]:
        numbers, _, stage = text.partition("-")
        known = [(True, int(number), "") for number in numbers.split(".")]
        known += [(True, 0, "")] * (9 - len(known))  # as long as any: a missing number is 0
        return [*known, (not stage, 0, stage)]

    return version is not None and version[:1].isdecimal() and compared(version) < compared(limit)


def found_by(session: Session, now_ms: int, asked: dict[str, Any]) -> bool:
    """Whether a session matches ``SessionFilter(**asked)``. Times are Unix seconds."""

    def holds(field: str, value: Any) -> bool:
        name, both = session.name or "", (session.ip, session.last_ip)
        if field == "text":
            return (
                text_is_in(session.uid, value, "uid")
                or text_is_in(name, value, "name")
                or any(text_is_in(text, value, "alias") for text in session.aliases)
                or any(
                    session.session_id == known and owner in (None, session.uid)
                    for known, owner in meanings.session_ids(value)
                )
                or any(is_one_of(ip, value) for ip in both)
            )
        if field == "name_prefix":
            return some_word_starts_with(name, value)
        if field == "name_contains":
            return folded(value) in folded(name)
        if field == "ip":
            return any(lies_in(ip, value) for ip in both)
        if field == "logged_in_after":
            return bool(round(session.login_at.timestamp() * 1000) >= round(value * 1000))
        if field == "logged_in_before":
            return bool(round(session.login_at.timestamp() * 1000) < round(value * 1000))
        if field == "idle_for":
            return bool(now_ms - round(session.last_seen.timestamp() * 1000) >= value * 1000)
        if field == "seen_within":
            return bool(now_ms - round(session.last_seen.timestamp() * 1000) <= value * 1000)
        if field == "app_version_below":
            return is_earlier(session.app_version, value)
        if field == "methods":
            return all(name in session.methods for name in value)
        if field == "without":
            return not found_by(session, now_ms, {name: getattr(value, name) for name in value.given})
        if field == "on_behalf":
            return session.on_behalf_by is not None
        if field == "sign_in_required":
            return session.sign_in_required_at is not None
        if field in ("country", "network", "city"):
            place = session.place
            if field == "city":
                return place is not None and folded(place.city or "") == folded(value)
            return place is not None and value == (place.country if field == "country" else f"AS{place.asn}")
        if claim := {"idp_issuer": "iss", "idp_subject": "sub", "idp_session": "sid"}.get(field):
            return bool((session.idp or {}).get(claim) == value)
        if field == "attributes":
            return all(
                key in session.attributes and same(session.attributes[key], wanted) for key, wanted in value.items()
            )
        return bool(getattr(session, field) == value)

    return all(holds(field, value) for field, value in asked.items())
