"""The meaning of a filter, implemented again from the design, as plainly as possible.

Nothing here is taken from ``presence_core.filters``: where the two differ, one of them is wrong.
"""

from __future__ import annotations

import ipaddress
import unicodedata
from typing import Any

from presence_core import Session


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
UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"}
COUNTRIES = [
    str(code)
    for codes in ([1, 7, 20, 27, 36, 39, 98], range(30, 35), [40, 41], range(43, 50), range(51, 59), range(60, 67),
                  [81, 82, 84, 86], range(90, 96))
    for code in codes
]  # fmt: skip


def separates(letter: str) -> bool:
    """Whether a letter is nothing but a separator: punctuation, space, a sign; not an emoji."""
    if letter in "ʹʺʻʼʽʾʿ":
        return True
    kind = unicodedata.category(letter)
    return kind[0] in "PZ" or kind in ("Cc", "Cf", "Sc", "Sk", "Sm")


def readings(text: str) -> list[str]:
    """The text as a search reads it, its separators kept (others than ASCII as a hyphen): once with ü as u, once as
    ue."""
    twice = "".join(UMLAUTS.get(letter.lower(), letter) for letter in unicodedata.normalize("NFC", text))
    out = []
    for version in (text, twice):
        letters = [LETTERS.get(letter, letter) for letter in folded(version)]
        out.append("".join("-" if mark > "\x7f" and len(mark) == 1 and separates(mark) else mark for mark in letters))
    return out


def bare(text: str) -> str:
    return "".join(letter for letter in text if not separates(letter))


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


def is_an_address(written: str) -> bool:
    try:
        ipaddress.ip_network(written, strict=False)
    except ValueError:
        return has_octets("0.0.0.0", written, only_form=True)
    return True


def text_is_in(text: str, asked: str, kind: str) -> bool:
    """Whether a search text finds a uid, a name or an alias."""
    literally = is_an_address(asked.strip()) or "@" in folded(asked) or not bare(folded(asked))
    for read in readings(text):
        begins = beginnings(read, whole_uid=kind == "uid")
        for wanted in readings(asked):
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


def same(ours: Any, wanted: Any) -> bool:
    """Equal, as in JSON: true is not 1, a tuple is a list."""
    if isinstance(wanted, list | tuple):
        return isinstance(ours, list) and len(ours) == len(wanted) and all(map(same, ours, wanted))
    if isinstance(wanted, dict):
        return isinstance(ours, dict) and ours.keys() == wanted.keys() and all(same(ours[k], wanted[k]) for k in wanted)
    return isinstance(ours, bool) == isinstance(wanted, bool) and bool(ours == wanted)


def found_by(session: Session, now_ms: int, asked: dict[str, Any]) -> bool:
    """Whether a session matches ``SessionFilter(**asked)``. Times are Unix seconds."""

    def holds(field: str, value: Any) -> bool:
        name, both = session.name or "", (session.ip, session.last_ip)
        if field == "text":
            return (
                text_is_in(session.uid, value, "uid")
                or text_is_in(name, value, "name")
                or any(text_is_in(text, value, "alias") for text in session.aliases)
                or session.session_id == value.strip()
                or any(lies_in(ip, value.strip()) or has_octets(ip, value.strip()) for ip in both)
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
        if field == "on_behalf":
            return session.on_behalf_by is not None
        if field == "sign_in_required":
            return session.sign_in_required_at is not None
        if field in ("country", "network"):
            place = session.place
            return place is not None and value == (place.country if field == "country" else f"AS{place.asn}")
        if field == "attributes":
            return all(
                key in session.attributes and same(session.attributes[key], wanted) for key, wanted in value.items()
            )
        return bool(getattr(session, field) == value)

    return all(holds(field, value) for field, value in asked.items())
