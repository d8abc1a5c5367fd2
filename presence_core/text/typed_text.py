"""What a search text means: staff paste it from mails, tickets, logs and links.

This is the one place that cleans what is typed, for the library, HTTP and the dashboard: ``as_one_line`` makes the text
that a filter keeps, and ``read_typed`` says what it means. The text as it stands always counts. Cleaning adds meanings
and takes none away, so nothing that is found without it is lost.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from presence_core.text.addresses import parse_address
from presence_core.text.search_text import FILLERS, ID_START, MADE_LENGTH, country_code, has_letters, is_made

MAX_BYTES: Final = 256
"""Length of a search text."""

MAX_PASTED: Final = 20_000
"""Characters of a longer text that is looked through for an email address, a user, an address or a session."""

MAX_MEANINGS: Final = 4
"""Email addresses, users, names, phone numbers or session ids that one text may name: each is searched for."""

BETWEEN_CELLS: Final = " | "
"""Between the lines, or the cells of a table, of a text that was pasted: a full name in a cell is searched for."""

_LINES: Final = re.compile(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_COLORS: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # of a terminal
_CELLS: Final = re.compile(r"[|;]")
_DEFANGED: Final = re.compile(r" ?[\[({<](?:(at|@)|dot|\.)[\])}>] ?", re.IGNORECASE)  # ada[at]example[.]com

_BEFORE: Final = "<([{\"'`“”„«»‹›‘’‚「『【〈《,;|>•☎✆📞📱✉📧"
_BEHIND: Final = ">)]}\"'`“”„«»‹›‘’‚」』】〉》,;|"
_AT_THE_END: Final = ".:!?"

_SESSION_ID: Final = re.compile(r"[A-Za-z0-9_-]{8,128}")
_TOKEN: Final = re.compile(r"(?<![\w@+-])(?<!\w\.)[A-Za-z0-9_-]{16,128}(?![\w@+-])(?!\.\w)")
_SHORT: Final = re.compile(r"(?<![\w@+.-])[A-Za-z0-9_-]{10,21}(?![\w@+-])(?!\.\w)")
_MIXED: Final = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])")
_EMAIL: Final = re.compile(r"(?<![\w.+%'!#$*~^-])[\w.+%'!#$*~^-]+@\w[\w.-]*")
_SENDER: Final = re.compile(r"\b(?:from|reply-to): [^<@|]{0,100}<?([^\s<>@]{1,64}@[\w.-]+)", re.IGNORECASE)
_MESSAGE_ID: Final = re.compile(r"\b(?:message-id|in-reply-to|references): *(?:<[^<>]*> *)+", re.IGNORECASE)
_SPACED_AT: Final = re.compile(r"([\w.+-]+) ?@ ?(\w[\w-]*(?:\.[\w-]+)+)")
_SCHEME: Final = re.compile(r"(mailto|tel|callto|sms|sip|sips|xmpp|skype|whatsapp|urn:uuid):(?://)?", re.IGNORECASE)
_LINK: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)

_OF_USER: Final = (
    r"uid|sub|user|user[ _-]?(?:id|name)|login|account|customer(?:[ _-]?id)?|id|name|alias|e?-?mail|q|text"
)
_OF_SESSION: Final = r"session|session[ _-]?id|sid|ref"
_OF_ADDRESS: Final = (
    r"ip|ip[ _-]?address|addr|address|client[ _-]?ip|remote[ _-]?(?:addr|address|ip)|host|from|client|for|"
    r"(?:x|cf|true)-[a-z-]*(?:ip|for)"
)
_OF_PHONE: Final = r"tel|telephone|telefon|phone|mobile|mobil|cell|fax|handy|whatsapp"
_LABEL: Final = re.compile(
    rf"""["']?(?:(?:{_OF_USER}|{_OF_SESSION}|{_OF_ADDRESS}|{_OF_PHONE})["']?\s*[=:]|(?:{_OF_PHONE})[.:]*(?=\s*[+(\d]))\s*""",
    re.IGNORECASE,
)
_PAIR: Final = re.compile(
    rf"""(?<![\w-])["']?(?:(?P<user>{_OF_USER})|(?P<session>{_OF_SESSION})|(?P<address>{_OF_ADDRESS}))["']?\s*[=:]\s*"""
    r"""["']?(?P<value>[^\s"'<>(){},;&|]+)""",
    re.IGNORECASE,
)

_NAMED: Final = re.compile(
    r"(?:uid|user(?:[ _-]?(?:id|name))?|login|account|customer(?:[ _-]?id)?|(?:id|no\.?|nr\.?)(?=.*\d)) [#№]?([^\s@]+)",
    re.IGNORECASE,
)
_ID: Final = re.compile(
    r"(?<![\w@.:+/=-])(?:(?=[\w.-]*[A-Za-z])(?=[\w.-]*\d)(?!\d{4}-\d\d)[A-Za-z\d][\w.-]{3,63}|\d{5,20})"
    r"(?<![.-])(?![\w@:/=-])"
)

_IPV4_PORT: Final = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3})(?:[:#]| port )\d{1,5}")
_IPV6_PORT: Final = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\](?::\d{0,5})?")
_WILDCARD: Final = re.compile(
    r"(\d{1,3}(?:\.\d{1,3}){0,2}\.|(?:[0-9A-Fa-f]{1,4}:){1,7}:?)[*xX%?]{1,4}(?:[.:][*xX%?]{1,4})*"
)
_IPV4_IN_LINE: Final = re.compile(r"(?<![\w.:])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]|-\w)")
_IPV6_IN_LINE: Final = re.compile(
    r"(?<![\w.:])(?=[0-9A-Fa-f:]*[0-9A-Fa-f])(?=[0-9A-Fa-f:]*::|(?:[0-9A-Fa-f]+:){7})"
    r"[0-9A-Fa-f:]+(?:\.\d+){0,3}(?![\w:])"
)
_NAME_WITH_ADDRESS: Final = re.compile(r"\S+ \w+")
_IPV4_MASK: Final = re.compile(r"(\d[\d.]+) ?/ ?(255\.\d+\.\d+\.\d+)")
_IPV4_HOST: Final = re.compile(r"(?=.*[A-Za-z])(?:[A-Za-z][\w.-]*[.-])?(\d{1,3}(?:-\d{1,3}){3})(?:\.[\w.-]+)?")
_IPV4_NAME: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)\.(\d+)\.in-addr\.arpa\.?")
_ZONE: Final = re.compile(r"([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)%[\w.-]+")

_PHONE: Final = re.compile(
    r"(?:[^\W\d_]{1,15}[.: ]+(?=[+(\d][\d ().\-/]{6}))?"  # a label, in any language
    r"(?P<number>(?:\+|00)?[\d ().\-/]{5,})(?:[,;]? ?(?:ext(?:ension)?[.=: ]*|x|#)\d{1,6}|\([^\W\d][^)]*\))?",
    re.IGNORECASE,
)
_PHONE_IN_LINE: Final = re.compile(r"(?<![\w.+-])(?:\+|00)\d[\d ().\-/]{5,18}\d(?!\w)")
_DATE: Final = re.compile(r"\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{4}")
_MASKED: Final = re.compile(r"[+\d ()*xX•·.…-]*[*xX•·.…] ?(\d{6,})|end(?:s|ing)?(?: in| with)? (\d{6,})", re.IGNORECASE)

_TITLES: Final = (
    " dear hello hi mr mrs ms miss mx mister dr prof professor sir madam rev herr frau fräulein hr mme mlle monsieur "
    "madame mademoiselle sr sra srta señor señora señorita signor signora signorina sig dhr mevrouw mevr pan pani san "
    "sama "
    "phd md esq jr mag ing dipl captain capt lady lord dame hon rabbi imam sheikh doña "
    "г-н г-жа господин госпожа 様 さん さま 氏 先生 殿 女士 小姐 "
)
_TITLE_BEHIND: Final = re.compile(r"(.+?)(?:さん|さま|様|氏|先生|殿|女士|小姐|씨|님|-(?:san|sama))", re.IGNORECASE)
_NO_SPACE: Final = re.compile(r"\b(mrs?|ms|dr|prof|m)\.(?=\w)", re.IGNORECASE)


class Typed(NamedTuple):
    """What a search text means. A session that has one of the meanings is found."""

    texts: tuple[str, ...]  #: as it is typed, then what it also means
    numbers: tuple[str, ...]  #: other ways to dial the phone number, as digits
    addresses: tuple[str, ...]  #: may be an address, a network or its start: the first that is one counts
    sessions: tuple[str, ...]  #: session ids
    starts: tuple[str, ...]  #: may be starts of session ids that the library made
    uids: tuple[str, ...]  #: of a ref ("uid:session id"): only sessions of this user


def as_one_line(value: str) -> str:
    """A search text as a filter keeps it, of what was typed or pasted. Lines and cells of a table stand in one line; of
    a longer text stands there what can be found in it. The text itself if that is nothing, which checks then refuse.
    """
    line = value
    if _CONTROL.search(value):
        cells = [_CONTROL.sub(" ", cell).strip() for cell in _LINES.split(_COLORS.sub("", value))]
        line = BETWEEN_CELLS.join(filter(None, cells))
        if size(line) > MAX_BYTES >= size(spaced := " ".join(filter(None, cells))):
            line = spaced
    if size(line) > MAX_BYTES and len(line) <= MAX_PASTED:
        line = _findable(line)
    return line or value


def size(text: str) -> int:
    """Bytes of a text."""
    return len(text.encode("utf-8", "replace"))


@lru_cache(maxsize=1024)
def read_typed(value: str) -> Typed:
    """All meanings of a search text."""
    plain = _visible(value.replace("|", " "))
    core = _without_label(plain)
    cells = [_without_label(_visible(cell)) for cell in _CELLS.split(value)] if _CELLS.search(value) else []
    pairs = list(_PAIR.finditer(plain))
    emails = _emails(core)
    refs = [ref for ref in (_ref(value.strip()), _ref(core)) if ref]
    sessions, starts, is_sure = _sessions(value.strip(), core, pairs, refs, is_mail=bool(emails))
    phones: list[str] = []
    texts = [core]
    addresses = [plain, *_addresses(plain), core, *_addresses(core)]
    if not (is_sure and " " in plain):  # a line with a session id means this session
        phones = _phones(plain, core, cells)
        texts += [*emails, *_without_titles(core), *_users(core, pairs)]
        texts += [] if emails else _full_names(cells)
        texts += [] if phones or refs else _ids(core)
        for pair in pairs:
            if pair["address"]:
                addresses += [pair["value"], *_addresses(pair["value"])]
        addresses += [] if _NAME_WITH_ADDRESS.fullmatch(plain) else _in_line(plain)
    if masked := _MASKED.fullmatch(core):
        texts.append(masked[1] or masked[2])
    texts += phones
    return Typed(
        (value, *dict.fromkeys(text for text in texts if text != value and has_letters(text))),
        tuple(dict.fromkeys(number for phone in phones for number in _numbers(phone))),
        tuple(dict.fromkeys((value.strip(), *addresses))),
        sessions,
        starts,
        tuple(dict.fromkeys(uid for uid, _ in refs)) if _ref(core) else (),
    )


def _findable(text: str) -> str:
    """What can be found in a long text, as a text that fits: sessions, or else people and an address; "" if nothing."""
    plain = _visible(_MESSAGE_ID.sub(" ", text.replace("|", " ")))
    pairs = list(_PAIR.finditer(plain))
    emails = _some([*_SENDER.findall(plain), *_emails(plain)])
    ids = [pair["value"].rpartition(":")[2].rstrip(_AT_THE_END) for pair in pairs if pair["session"]]
    named = [session_id for session_id in ids if _SESSION_ID.fullmatch(session_id)]
    made = [token for token in _TOKEN.findall(plain) if is_made(token)]
    if named or (made and not emails):
        found = [f"session={session_id}" for session_id in _some([*named, *made])]
    else:
        users = [pair["value"] for pair in pairs if pair["user"] and "@" not in pair["value"]]
        written = [pair["value"] for pair in pairs if pair["address"]]
        written += [] if emails else _in_line(plain)
        addresses = [text for text in written if parse_address(text)]
        found = [*emails, *(f"uid={uid}" for uid in _some(users)), *(f"ip={address}" for address in addresses[:1])]
        found += _some([*_PHONE_IN_LINE.findall(plain), *made])
        found += _some([cell for cell in map(str.strip, text.split("|")) if _ID.fullmatch(cell)])
    line = ""
    for part in found:
        longer = f"{line}{BETWEEN_CELLS}{part}" if line else part
        line = longer if size(longer) <= MAX_BYTES else line
    return line


# -- what does not belong to it ---------------------------------------------------------------------------------------


def _visible(value: str) -> str:
    """A text without characters that have no picture; digits, hyphens and full stops of ASCII, white space single."""
    if value.isascii():
        return _fanged(" ".join(value.split()))
    out = []
    for char in unicodedata.normalize("NFKC", value):
        kind = unicodedata.category(char)
        if kind == "Cf" or char in FILLERS:
            continue
        out.append(str(unicodedata.decimal(char)) if kind == "Nd" else "-" if kind == "Pd" else char)
    return _fanged(" ".join("".join(out).replace("。", ".").split()))


def _fanged(text: str) -> str:
    """A text with the "@" and "." that people write as [at] and [.] to make no link of it."""
    return _DEFANGED.sub(lambda found: "@" if found[1] else ".", text)


def _unwrapped(text: str) -> str:
    return text.lstrip(_BEFORE).rstrip(_BEHIND).strip()


def _without_label(text: str) -> str:
    """A text without quotes and brackets around it, "mailto:", "uid=", and the address of a page of the dashboard."""
    for _ in range(3):
        before, text = text, _unwrapped(text)
        if scheme := _SCHEME.match(text):
            text = _visible(unquote(text[scheme.end() :]).partition("?")[0])
            if "@" not in text:
                text = text.partition(";")[0]  # tel:…;phone-context=…
        elif _LINK.match(text):
            text = _visible(_search_of_link(text))
        elif label := _LABEL.match(text):
            text = text[label.end() :]
        if text == before:
            break
    return text


def _search_of_link(link: str) -> str:
    """What a page of the dashboard searches for; of another link the host, if it is an address."""
    try:
        parts = urlsplit(link)
        searched = parse_qs(parts.query).get("q")
        host = parts.hostname or ""
    except ValueError:
        return link
    if searched:
        return searched[0]
    if host == "wa.me":
        return f"+{parts.path.strip('/')}"
    return host if re.fullmatch(r"[\d.]+|[0-9a-f:.]*:[0-9a-f:.]*", host) else link


# -- people -----------------------------------------------------------------------------------------------------------


def _emails(text: str) -> list[str]:
    """The email addresses in a text."""
    if "@" not in text:
        text = unquote(text) if "%40" in text else ""
    found = [match[0].lstrip("'.*").rstrip(".-'") for match in _EMAIL.finditer(text)]
    found += [email.strip("_") for email in found if email.endswith("_")]
    if spaced := _SPACED_AT.fullmatch(text):
        found.append(f"{spaced[1]}@{spaced[2]}")
    return list(_some(found))


def _users(core: str, pairs: list[re.Match[str]]) -> Iterator[str]:
    """The users that a text names: uid=…, user …, or @… as people mention each other."""
    if len(pairs) > 1 or (pairs and pairs[0].start() > 0):
        yield from [pair["value"] for pair in pairs if pair["user"]][:MAX_MEANINGS]
    if core.startswith("@") and not {"@", "."} & set(core[1:]):
        yield core[1:]
    if named := _NAMED.fullmatch(core):
        yield named[1]


def _ids(core: str) -> tuple[str, ...]:
    """What looks like a user id among a few words: letters and digits."""
    return _some(_ID.findall(core)) if 0 < core.count(" ") < 12 or "," in core or ";" in core else ()


def _full_names(cells: list[str]) -> list[str]:
    """The cells that may be full names."""
    names = [cell for cell in cells if 0 < cell.count(" ") < 6 and not any(map(str.isdigit, cell))]
    return [form for name in names[:MAX_MEANINGS] for form in (name, *_without_titles(name))]


def _phones(plain: str, core: str, cells: list[str]) -> list[str]:
    """The phone numbers of a text, as they are written."""
    whole = [number for cell in cells if (number := _phone(cell))]
    if len(whole) < 2 and (number := _phone(plain) or _phone(core)):
        return [number]
    return list(_some([*_PHONE_IN_LINE.findall(plain), *whole]))


def _phone(text: str) -> str:
    found = _PHONE.fullmatch(text)
    return found["number"] if found and not _DATE.fullmatch(text) else ""


def _without_titles(text: str) -> Iterator[str]:
    """A name without "Mr" and "Dr."."""
    if "@" in text or any(char.isdigit() for char in text):
        return
    words = _NO_SPACE.sub(r"\1. ", text).split()
    kept = [word for word in words if word != "M." and f" {word.strip('.,()').casefold()} " not in _TITLES]
    if kept and len(kept) < len(words):
        yield " ".join(kept)
    elif found := _TITLE_BEHIND.fullmatch(text):
        yield found[1]


def _numbers(written: str) -> Iterator[str]:
    """Other ways to dial a number: +44 (0)20 … is +44 20 …, and +49 171 … is 0171 … in its country."""
    digits = re.sub(r"\D", "", written.replace("(0)", ""))
    if sum(char.isdigit() for char in written) < 5:
        return
    is_international = written.strip().startswith(("+", "00"))
    if is_international:
        digits = digits if written.strip().startswith("+") else digits.removeprefix("00")
    elif digits.startswith("011") and len(digits) > 10:  # as dialled from North America
        digits, is_international = digits[3:], True
        yield digits
    elif digits.startswith("8") and len(digits) == 11:  # within Russia and Kazakhstan
        yield "7" + digits[1:]
    if "(0)" in written:
        yield digits
    if not is_international:
        return
    country = country_code(digits)
    national = digits[len(country) :]
    if national.startswith("0") and len(national) > 3:  # +44 020 …
        yield country + national[1:]
    elif len(national) >= 3:
        yield "0" + national
        if country == "7":
            yield "8" + national
    if len(national) >= 7:
        yield national


# -- addresses --------------------------------------------------------------------------------------------------------


def _addresses(text: str) -> Iterator[str]:
    """What may be an address in a text: without brackets, port, zone, and with a start for an asterisk."""
    for pattern in (_IPV6_PORT, _IPV4_PORT, _WILDCARD, _ZONE):
        if found := pattern.fullmatch(text.lstrip("/")):
            yield found[1]
            if zone := _ZONE.fullmatch(found[1]):
                yield zone[1]
    if found := _IPV4_HOST.fullmatch(text):
        yield found[1].replace("-", ".")
    if found := _IPV4_NAME.fullmatch(text):
        yield ".".join(reversed(found.groups()))
    if found := _IPV4_MASK.fullmatch(text):
        yield f"{found[1]}/{sum(int(octet).bit_count() for octet in found[2].split('.'))}"
    if text != (bare := text.strip("/").rstrip("/" + _AT_THE_END)):
        yield bare
    if text != (joined := text.replace(" /", "/").replace("/ ", "/")):
        yield joined


def _in_line(text: str) -> list[str]:
    """The whole addresses in a text."""
    return [*_IPV4_IN_LINE.findall(text), *_IPV6_IN_LINE.findall(text)]


# -- sessions ---------------------------------------------------------------------------------------------------------


def _ref(text: str) -> tuple[str, str] | None:
    """A ref, or one whose session id was cut."""
    uid, _, session_id = text.rpartition(":")
    session_id = session_id.rstrip(".…*")
    return (uid, session_id) if uid and _SESSION_ID.fullmatch(session_id) else None


def _sessions(
    typed: str, core: str, pairs: list[re.Match[str]], refs: list[tuple[str, str]], *, is_mail: bool
) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """The session ids that a text names, the starts of session ids, and whether it certainly means them."""
    named = [session_id for _, session_id in refs]
    named += [pair["value"].rpartition(":")[2] for pair in pairs if pair["session"]]
    whole = [text.rstrip(".…*") for text in (*named, core)]
    known = [text for text in (typed, *whole) if _SESSION_ID.fullmatch(text)]
    starts = [text for text in known if ID_START <= len(text) < MADE_LENGTH]
    starts += [token for token in _SHORT.findall(core) if _MIXED.match(token)] if " " in core else []
    tokens = _TOKEN.findall(core)
    made = [token for token in tokens if is_made(token)]
    known += [*made, *(token for token in tokens if any(map(str.isdigit, token)))]
    return _some(known), _some(starts), bool(named or (made and not is_mail))


def _some(texts: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))[:MAX_MEANINGS]
