"""How text is compared, and what the index of words holds of a user.

``fold`` serves ``name_prefix`` and ``name_contains``: case, accents and white space do not count. The search of
``SessionFilter.text`` and ``people`` compares more loosely: ``ø`` is ``o``, separators do not count, and ``ü`` is ``u``
or ``ue``. A *spelling* is a text so folded, with its separators. Its *starts* are the places where a search may begin,
without separators: "o'neill-berg, anna" → "oneillberganna", "neillberganna", "berganna", "anna".
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

FOLD: Final = 5
"""The version of what the index of words holds. Raise it with every change of an entry: data that an older version
has indexed are then found by a scan until ``reindex`` has finished."""

MAX_WORDS: Final = 8
"""Words of a name or an alias at which a search may begin."""

MAX_PARTS: Final = 8
"""Further parts of these words, behind a separator, at which a search may begin; and the beginning of a domain."""

CUT: Final = 15
"""Bytes of a search text that an index is asked for, and that it keeps of a uid or an alias. A longer text finds some
sessions too many, which the test of their records removes. With a uid of 10 bytes, an entry stays in the allocator's
class of 64 bytes; 20 bytes cost 15 B a session more."""

NAME_CUT: Final = 30
"""Bytes that the index keeps of a name: nearly all names are whole, and entries can be searched for parts of a name."""

BEFORE_CUT: Final = 46
"""Bytes of a start of a name and of what stands before it, behind BEFORE: so one entry shows all words of the name."""

BEFORE: Final = b"\1"
MORE: Final = b"\2"
"""At the end of the text of an entry that lacks a part of the name."""

TAIL: Final = 6
"""The last digits of a phone number that the index keeps: a search for so many or more of them finds it."""

ID_START: Final = 10
"""Characters of a session id by which the index knows it if the library made it: so its start is found, too."""

MADE_LENGTH: Final = 22
"""Characters of an id that the library makes."""

ID_BUCKETS: Final = 16_384
"""Buckets of session ids, of all shards together. A login copies its bucket: 500 bytes at a million sessions."""

_LETTERS: Final = {"ø": "o", "ł": "l", "ı": "i", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "þ": "th", "ħ": "h",
                   "ŧ": "t", "ŋ": "n", "ĸ": "k", "ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه", "ہ": "ه", "ە": "ه",
                   "ٱ": "ا"}  # fmt: skip
"""Letters that NFKD leaves whole, and letters of Arabic that people write for each other."""

_EXPANDED: Final = str.maketrans({"ä": "ae", "Ä": "ae", "ö": "oe", "Ö": "oe", "ü": "ue", "Ü": "ue", "å": "aa",
                                  "Å": "aa", "ø": "oe", "Ø": "oe"})  # fmt: skip
"""The other spelling of these letters."""

_IGNORED: Final = frozenset("ʹʺʻʼʽʾʿـ")
"""Letters that count as separators: apostrophes, and the line that stretches an Arabic word."""

FILLERS: Final = frozenset(map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164,
                                     0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))  # fmt: skip
"""Characters without a picture that are no format characters (Cf)."""

_SEPARATORS: Final = ("P", "Z", "Cc", "Cf", "Sc", "Sk", "Sm")  # not "So": an emoji is searched for
_PART: Final = re.compile(r"[^\x00-/:-@\[-`{-\x7f]+")
_BETWEEN_WORDS: Final = re.compile(r"[ ,;]+")
_NUMBER: Final = re.compile(r"[+0-9 ().\-/]+")
_PHONE: Final = re.compile(r"(?:\+|00)[0-9 ().\-/]{6,}")
_COUNTRY: Final = re.compile(
    r"1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|[0-9]{3}"
)  # country codes, ITU-T E.164
_TAG: Final = re.compile(r"(?<=[^\s@])\+[^\s@]*(?=@)")
_MADE: Final = re.compile(r"(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9_-]{22}")
_DIGITS_BEHIND: Final = re.compile(r"[^0-9]+([0-9]+)")


# -- folding ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16384)
def fold(value: str) -> str:
    """Text as it is compared: compatibility forms and accents taken off, case folded, white space single.

    NFKD and casefold of the Unicode Standard, chapters 3.11 and 3.13.
    """
    return " ".join(bare(value).split())


def bare(value: str) -> str:
    """The same, with white space as it is."""
    if value.isascii():
        return value.lower()
    return "".join(char for char in unicodedata.normalize("NFKD", value) if not unicodedata.combining(char)).casefold()


def starts(folded: str) -> Iterator[str]:
    """A folded text from each of its first words on: "emeka okafor", "okafor"."""
    at = 0
    for _ in range(MAX_WORDS):
        yield folded[at:]
        at = folded.find(" ", at) + 1
        if not at:
            return


class _Letters(dict[int, str]):
    """A folded character as a spelling has it; separators beyond ASCII become a hyphen, digits those of ASCII, and
    hiragana katakana."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        kind = unicodedata.category(char) if char > "\x7f" else ""
        if char in _LETTERS:
            self[code] = _LETTERS[char]
        elif char in _IGNORED or kind.startswith(_SEPARATORS):
            self[code] = "-"
        elif kind == "Nd":
            self[code] = str(unicodedata.decimal(char))
        else:
            is_hiragana = 0x3041 <= code <= 0x3096 or code in (0x309D, 0x309E)
            self[code] = chr(code + 0x60) if is_hiragana else char
        return self[code]


_letters: Final = _Letters()


def _spell(value: str) -> str:
    folded = " ".join(bare(value).split())
    return folded if folded.isascii() else folded.translate(_letters)


@lru_cache(maxsize=16384)
def spellings(value: str) -> tuple[str, ...]:
    """The spelling of a text; of "Müller" two, "muller" and "mueller"."""
    return _spellings(value)


def _spellings(value: str) -> tuple[str, ...]:
    first = _spell(value)
    if value.isascii():
        return (first,)
    second = _spell(unicodedata.normalize("NFC", value).translate(_EXPANDED))
    return (first,) if second == first else (first, second)


def stored_spellings(value: str) -> tuple[str, ...]:
    """The spellings of a stored text: an email address is found without its tag, too (john+news@…: john@…)."""
    return _with_tagless(value, spellings(value))


def _with_tagless(value: str, found: tuple[str, ...]) -> tuple[str, ...]:
    if "+" not in value or "@" not in value:
        return found
    return tuple(dict.fromkeys((*found, *spellings(_TAG.sub("", value)))))


def compact(spelling: str) -> str:
    """A spelling without its separators."""
    return spelling if spelling.isalnum() else "".join(_PART.findall(spelling))


def has_letters(value: str) -> bool:
    """Whether a text is more than separators."""
    return compact(_spell(value)) != ""


def has_picture(value: str) -> bool:
    """Whether there is something to see in a text. Characters of private use count, and those that this Python does
    not know yet."""
    return any(
        char not in FILLERS
        and not char.isspace()
        and (char.isprintable() or unicodedata.category(char) in ("Co", "Cn"))
        for char in value
    )


def country_code(digits: str) -> str:
    """The country code with which the digits of an international number begin; "" if there is none."""
    found = _COUNTRY.match(digits)
    return found[0] if found else ""


# -- where a search may begin -----------------------------------------------------------------------------------------


@lru_cache(maxsize=16384)
def starts_of(spelling: str) -> tuple[str, ...]:
    """The starts of a name or an alias: of its first words, of the first parts of each, and of an email domain.

    A phone number is also found behind its country code.
    """
    return _starts_of(spelling)


def _starts_of(spelling: str) -> tuple[str, ...]:
    parts: list[tuple[str, bool]] = []
    is_due, left = False, MAX_PARTS
    for number, word in enumerate(spelling.split(" ")):
        counts = number < MAX_WORDS
        is_due = is_due or counts  # a word without a letter begins with the next one
        front, at, domain = word.rpartition("@")
        for part in (word,) if word.isalnum() else _PART.findall(front if at else word):
            parts.append((part, is_due or (counts and left > 0)))
            left -= counts and not is_due
            is_due = False
        for place, part in enumerate(_PART.findall(domain) if at else ()):
            parts.append((part, is_due or (counts and place == 0)))
            is_due = False
    found, behind = [], ""
    for part, begins in reversed(parts):
        behind = part + behind
        if begins:
            found.append(behind)
    found.reverse()
    if spelling.startswith(("+", "00")) and _PHONE.fullmatch(spelling):
        digits = compact(spelling.replace("(0)", "")).removeprefix("00")
        found += filter(None, (digits, digits[len(country_code(digits)) :]))
    return tuple(dict.fromkeys(found))


def phone_digits(spelling: str, *, is_uid: bool = False) -> str:
    """The digits of a phone number, whose last ones are found; "" of other texts. A number that is a uid counts only as
    an international one."""
    if spelling[:1].isalpha() or not (_PHONE if is_uid else _NUMBER).fullmatch(spelling):
        return ""
    digits = compact(spelling.replace("(0)", ""))
    return digits if len(digits) > TAIL else ""


@lru_cache(maxsize=16384)
def starts_of_uid(spelling: str) -> tuple[str, ...]:
    """The starts of a uid: its beginning, and the digits behind a prefix ("u1019" → "1019"). Of an email address or a
    phone number, those of an alias."""
    return _starts_of_uid(spelling)


def _starts_of_uid(spelling: str) -> tuple[str, ...]:
    whole = compact(spelling)
    found = [whole] if whole else []
    if "@" in spelling or (spelling.startswith(("+", "00")) and _PHONE.fullmatch(spelling)):
        found += _starts_of(spelling)
    if digits := _DIGITS_BEHIND.fullmatch(whole):
        found.append(digits[1])
    return tuple(dict.fromkeys(found))


# -- what is searched for ---------------------------------------------------------------------------------------------


class Needle(NamedTuple):
    """One way to read a search text. A text has it if some start begins with ``text``, and ``literal`` is in it."""

    text: str  #: without separators; empty where the search text is nothing but separators
    literal: str  #: with separators, for email addresses, IP addresses and plain separators; else empty
    words: tuple[str, ...]  #: of a search text of several words: a name may have them in any order
    tail: str = ""  #: at least TAIL digits: a phone number may end with them

    def is_in(self, spelling: str, places: tuple[str, ...], phone: str) -> bool:
        """Whether a text has it. ``places``: its starts; ``phone``: its ``phone_digits``."""
        if self.literal in spelling and (not self.text or any(start.startswith(self.text) for start in places)):
            return True
        return self.tail != "" and phone.endswith(self.tail)

    def has_words(self, places: tuple[str, ...]) -> bool:
        """Whether a name has all the words, in any order."""
        return bool(self.words) and all(any(start.startswith(word) for start in places) for word in self.words)


@lru_cache(maxsize=1024)
def needles(value: str, is_literal: bool) -> tuple[Needle, ...]:
    """The ways to read a search text. ``is_literal``: it is an IP address, whose dots count."""
    found = []
    for spelling in spellings(value):
        text = compact(spelling)
        literal = spelling if is_literal or "@" in spelling or not text else ""
        words = [word for word in map(compact, _BETWEEN_WORDS.split(spelling)) if word]
        is_tail = len(text) >= TAIL and not literal and _NUMBER.fullmatch(spelling) and not _PHONE.match(spelling)
        several = tuple(dict.fromkeys(words)) if len(words) > 1 and not literal else ()
        found.append(Needle(text, literal, several, text if is_tail else ""))
        digits = text.lstrip("0")
        if len(digits) >= 5 and digits != text and not literal and _NUMBER.fullmatch(spelling):
            found.append(Needle(digits, "", ()))  # as dialled from elsewhere: 0049 30 …, 030 …
    return tuple(found)


def is_found(found: tuple[Needle, ...], value: str, *, is_name: bool = False) -> bool:
    """Whether a name or an alias has one of these needles."""
    for spelling in stored_spellings(value):
        places, phone = starts_of(spelling), phone_digits(spelling)
        if any(needle.is_in(spelling, places, phone) or (is_name and needle.has_words(places)) for needle in found):
            return True
    return False


def is_found_in_uid(found: tuple[Needle, ...], uid: str) -> bool:
    """Whether a uid has one of these needles."""
    return any(
        needle.is_in(spelling, starts_of_uid(spelling), phone_digits(spelling, is_uid=True))
        for spelling in stored_spellings(uid)
        for needle in found
    )


# -- the index of words -----------------------------------------------------------------------------------------------


# What is stored is read once, so nothing of it is kept for the next call but the entries.


def _whole_starts(spelling: str) -> list[tuple[str, str | None]]:
    """The starts of a name, each with the text before it; None where that is not known."""
    words = spelling.split(" ")
    if len(words) <= MAX_WORDS and "".join(words).isalnum() and words[0][0] != "0":  # nearly every name
        whole, at = "".join(words), 0
        found: list[tuple[str, str | None]] = []
        for word in words:
            found.append((whole[at:], whole[:at]))
            at += len(word)
        return found
    whole = compact(spelling)
    return [(start, whole.removesuffix(start) if whole.endswith(start) else None) for start in _starts_of(spelling)]


def _name_piece(text: bytes, before: list[str | None], *, is_whole: bool) -> bytes:
    """A start of a name in the index, with what stands before it in each spelling."""
    if is_whole and before == [""]:
        return b"n" + text
    piece = text
    for part in before:
        longer = piece + BEFORE + part.encode() if part else piece
        is_whole = is_whole and part is not None and len(longer) <= BEFORE_CUT
        piece = longer[:BEFORE_CUT]
    return b"n" + piece + (b"" if is_whole else MORE)


@lru_cache(maxsize=16384)
def _pieces(name: str, aliases: str) -> tuple[bytes, ...]:
    """The starts of a name and of aliases, one a line: "n" or "a" and the text, cut; "t" and the end of a phone number.

    Behind a start of a name stands what is before it, so that a search for several words reads the entries of one. A
    start of an alias that begins with a start of the name takes its place, as "amina.wekesa12@…" usually does with
    "Amina Wekesa": an entry costs 85 bytes.
    """
    named = _with_tagless(name, _spellings(name))
    known = [_with_tagless(alias, _spellings(alias)) for alias in aliases.split("\n")]
    others = sorted({start for texts in known for spelling in texts for start in _starts_of(spelling)})
    others.sort(key=len, reverse=True)
    found: dict[bytes, None] = {}
    before: dict[str, list[str | None]] = {}
    for spelling in named:
        for start, part in _whole_starts(spelling):
            before.setdefault(start, []).append(part)
    for start, parts in before.items():
        raw = start.encode()
        piece = raw[:NAME_CUT]
        for other in others:
            if other.startswith(start):
                piece = max(piece, other.encode()[:CUT], key=len)
                break
        found[_name_piece(piece, parts, is_whole=len(raw) <= NAME_CUT)] = None
    for other in others:
        piece = other.encode()[:CUT]
        for entry in found:
            if entry.startswith(piece, 1):
                break
        else:
            found[b"a" + piece] = None
    for spelling, *_ in (named, *known):
        if digits := phone_digits(spelling):
            found[b"t" + digits[-TAIL:].encode()] = None
    return tuple(found)


def entries(indexes: frozenset[str], uid: str, name: str, aliases: str) -> list[bytes]:
    """The entries of a user with this name and these aliases (one a line) in the index of words."""
    raw = uid.encode()
    tail = b"\0" + raw
    found: list[bytes] = []
    if "uid" in indexes:
        texts = _with_tagless(uid, _spellings(uid))
        for spelling in texts:
            starts = _starts_of_uid(spelling)
            found += [b"u" + (raw if start == uid else start.encode()[:CUT] + tail) for start in starts]
        if digits := phone_digits(texts[0], is_uid=True):
            found.append(b"t" + digits[-TAIL:].encode() + tail)
    pieces = _pieces(name if "name" in indexes else "", aliases if "alias" in indexes else "")
    found += [piece + tail for piece in pieces]
    return list(dict.fromkeys(found))


def entries_of_person(indexes: frozenset[str], uid: str, name: str, aliases: str) -> list[bytes]:
    """The entries that a person who is kept may have: the name and the aliases may be of two sessions."""
    parts = ((name, aliases), (name, ""), ("", aliases))
    return list(dict.fromkeys(entry for part in parts for entry in entries(indexes, uid, *part)))


def raw_uid_of(entry: bytes) -> bytes:
    """The user of an entry of the index of words."""
    _, zero, uid = entry.partition(b"\0")
    return uid if zero else entry[1:]


def uid_of(entry: bytes) -> str:
    """The same as text."""
    return raw_uid_of(entry).decode("utf-8", "replace")


def is_made(session_id: str) -> bool:
    """Whether the library may have made a session id: 22 random characters. Those of sites may begin alike."""
    return _MADE.fullmatch(session_id) is not None


@lru_cache(maxsize=4096)
def id_digest(session_id: str, shards: int) -> bytes:
    """What the index of session ids has of an id, of one that the library made by its start: its bucket and its mark,
    two bytes each. Two ids with one digest cost a look at another session."""
    if is_made(session_id):
        session_id = session_id[:ID_START]
    number, mark = struct.unpack(">H2s", blake2b(session_id.encode(), digest_size=4).digest())
    return struct.pack(">H2s", number % max(1, ID_BUCKETS // shards), mark)


# -- the same in Lua --------------------------------------------------------------------------------------------------


@cache
def fold_table() -> str:
    """The folded form of each letter of two UTF-8 bytes, as a Lua table; letters that ``fold`` leaves are not in it."""
    return _table({chr(code): bare(chr(code)) for code in range(0x80, 0x800)})


@cache
def letter_table() -> str:
    """What a spelling has for each folded letter of two UTF-8 bytes, as a Lua table."""
    return _table({chr(code): _letters[code] for code in range(0x80, 0x800) if bare(chr(code)) == chr(code)})


def _table(letters: dict[str, str]) -> str:
    rows = [f"[{_lua(char)}]={_lua(text)}" for char, text in letters.items() if text != char]
    return "{" + ",".join(rows) + "}"


def _lua(value: str) -> str:
    return '"' + "".join(f"\\{byte:03d}" for byte in value.encode()) + '"'
