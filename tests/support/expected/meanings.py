"""What a pasted text means, as plainly as possible, for texts that the properties draw: without labels and links.

Nothing here is taken from ``presence_core.text``.
"""

from __future__ import annotations

import unicodedata

OPENING = "<([{\"'`“”„«»‹›‘’‚「『【〈《,;|>•"
CLOSING = ">)]}\"'`“”„«»‹›‘’‚」』】〉》,;|"
COUNTRIES = [
    str(code)
    for codes in ([1, 7, 20, 27, 36, 39, 98], range(30, 35), [40, 41], range(43, 50), range(51, 59), range(60, 67),
                  [81, 82, 84, 86], range(90, 96))
    for code in codes
]  # fmt: skip
ID_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"


def seen(text: str) -> str:
    """What a reader sees: no format characters, digits and hyphens of ASCII, white space single."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    letters = [letter for letter in text if unicodedata.category(letter) != "Cf"]
    plain = [str(unicodedata.digit(letter)) if letter.isdecimal() else letter for letter in letters]
    return " ".join("".join("-" if unicodedata.category(letter) == "Pd" else letter for letter in plain).split())


def core(text: str) -> str:
    """Without what encloses it."""
    while (inner := seen(text).lstrip(OPENING).rstrip(CLOSING).strip()) != text:
        text = inner
    return text


def emails(text: str) -> list[str]:
    """Words around an @."""
    found = []
    for place, letter in enumerate(text):
        if letter != "@":
            continue
        first, last = place, place + 1
        while first and (text[first - 1].isalnum() or text[first - 1] in "_.+%'!#$*~^-"):
            first -= 1
        while last < len(text) and (text[last].isalnum() or text[last] in "_.-"):
            last += 1
        if first < place and last > place + 1 and text[place + 1] not in ".-":
            found.append(text[first:last].lstrip("'.*").rstrip(".-'"))
    return found


def texts(asked: str) -> list[str]:
    """The texts that a search text stands for."""
    inner = core(asked)
    mentioned = [inner[1:]] if inner[:1] == "@" and "@" not in inner[1:] and "." not in inner[1:] else []
    return [asked, inner, *emails(inner), *mentioned]


def with_and_without_tag(stored: str) -> list[str]:
    """john+news@example.com is john@example.com, too."""
    pieces = stored.split("@")
    for place, piece in enumerate(pieces[:-1]):
        begin = max(piece.rfind(letter) for letter in " \t\n\u00a0\u2028") + 1
        plus = piece.find("+", begin + 1)
        if plus > 0:
            pieces[place] = piece[:plus]
    return [stored, "@".join(pieces)]


def numbers(asked: str) -> list[str]:
    """Other ways to dial a number."""
    for text in (seen(asked), core(asked)):
        number = text[1:] if text[:1] == "+" else text
        if all(letter in "0123456789 ().-/" for letter in number) and len(number) >= 5:
            break
    else:
        return []
    if sum(letter.isdigit() for letter in text) < 5:
        return []
    digits = "".join(letter for letter in text.replace("(0)", "") if letter.isdigit())
    is_abroad = text[:1] == "+" or text[:2] == "00"
    if text[:1] != "+" and is_abroad:
        digits = digits.removeprefix("00")
    found = [digits] if "(0)" in text else []
    if is_abroad:
        country = next((code for code in COUNTRIES if digits.startswith(code)), digits[:3])
        if len(digits) < len(country) or (country not in COUNTRIES and len(digits) < 3):
            country = ""
        home = digits[len(country) :]
        if home[:1] == "0" and len(home) > 3:
            found.append(country + home[1:])
        elif len(home) >= 3:
            found += ["0" + home, *(["8" + home] if country == "7" else [])]
        if len(home) >= 7:
            found.append(home)
    return found


def addresses(asked: str) -> list[str]:
    """What may be written for an address, in the order in which it counts."""
    forms = [asked.strip(), *(form for text in (seen(asked), core(asked)) for form in (text, text.rstrip("/.:!?")))]
    return [*forms, *(form.partition(":")[0] for form in forms if form.count(":") == 1 and form[-1].isdecimal())]


def is_id(text: str) -> bool:
    return 8 <= len(text) <= 128 and all(letter in ID_LETTERS for letter in text)


def session_ids(asked: str) -> list[tuple[str, str | None]]:
    """Session ids, each with its user where the text is a ref."""
    inner = core(asked).rstrip("….")
    uid, colon, session_id = inner.rpartition(":")
    if colon and uid and is_id(session_id):
        return [(session_id, uid), (session_id, asked.strip().rpartition(":")[0])]
    return [(text, None) for text in (asked.strip(), inner) if is_id(text)]
