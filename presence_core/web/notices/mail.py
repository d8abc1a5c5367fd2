"""The mail of a notice, as text and as HTML.

The name of the device, the user's name and the user agent are not in it. The families of browser and system are two or
three words of at most 20 letters together; they, and the place, lose all characters that could make a link, a header or
markup.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from gettext import NullTranslations
from html import escape as e
from pathlib import Path
from typing import Final

from presence_core.models import Ended, Notice, Session
from presence_core.text.languages import match, tag_of, translations
from presence_core.web.notices.kinds import moved_to, sentences

__all__ = ["NotSent", "NoticeMail", "Refused"]

LOCALE: Final = Path(__file__).with_name("locale")
DOMAIN: Final = "notices"

MAX_ADDRESS: Final = 254
MAX_WORDS: Final = 60
MAX_FAMILY: Final = 20

_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[^\s@\x00-\x2c\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]{1,253}"
)
_HOST: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.(?!$)|$))+")
"""IDNA maps some signs to ASCII ones: ＞ to >, ℀ to a/c."""
_KEPT: Final = frozenset(" '(),+-")
_FAMILY_WORD: Final = re.compile(r"[A-Za-z0-9+-]+")
_LONG_NUMBER: Final = re.compile(r"\d[\d ()+-]{5,}\d")
"""Mail programs turn it into a link that calls it."""


class NotSent(Exception):
    """Nothing was sent, and it may be tried again. ``only_this``: only this mail was refused, others need not wait."""

    def __init__(self, reason: str, *, only_this: bool = False) -> None:
        super().__init__(reason)
        self.only_this = only_this


class Refused(Exception):
    """Nothing was sent, and it need not be tried again: there is no such address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeMail:
    """A mail, for the site's own sender. ``message`` makes it ready for SMTP."""

    to: str = field(repr=False)  #: the address, as ``address_of`` returned it
    language: str  #: of the text: "de", "zh_Hans"
    subject: str
    text: str = field(repr=False)
    html: str = field(repr=False)
    link: str = field(repr=False)  #: to the page on which the user answers
    notice: Notice

    def message(self, sender: str) -> EmailMessage:
        """The mail with its headers. sender: "no-reply@shop.example" or "Shop <no-reply@shop.example>"."""
        message = EmailMessage(policy=SMTP)
        message["From"] = sender
        message["To"] = self.to  # Address refuses local parts with dots in a row
        message["Subject"] = self.subject
        message["Date"] = format_datetime(datetime.now(UTC))
        message["Message-ID"] = f"<{self.notice.id}@{domain_of(sender)}>"
        message["Content-Language"] = tag_of(self.language)
        message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no answers by programs
        message["X-Auto-Response-Suppress"] = "All"
        message.set_content(self.text)
        message.add_alternative(self.html, subtype="html")
        return message


def ascii_address(address: object) -> str | None:
    """One plain mail address, with its domain in ASCII (IDNA); None for anything else."""
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        return None
    name, _, domain = address.rpartition("@")
    try:
        host = domain.encode("idna").decode()
    except UnicodeError:
        return None
    found = f"{name}@{host}"
    return found if _HOST.fullmatch(host) and len(found) <= MAX_ADDRESS else None


def domain_of(sender: str) -> str:
    """The domain of "Shop <no-reply@shop.example>"."""
    return sender.rpartition("@")[2].rstrip("> ")


def plain_words(text: str | None) -> str:
    """Letters and digits of a text, in any script, without what could make a link, a number to call, or markup."""
    kept = "".join(
        char if char in _KEPT or unicodedata.category(char)[0] in "LM" or unicodedata.category(char) == "Nd" else " "
        for char in unicodedata.normalize("NFC", text or "")[:1000]
    )
    return " ".join(_LONG_NUMBER.sub(" ", kept).split())[:MAX_WORDS].strip()


def family_words(text: str | None, most: int = 2) -> str:
    """The family of a browser or system, in a few plain words. Of an unusual user agent it is what the visitor wrote:
    too short for a sentence."""
    return " ".join(_FAMILY_WORD.findall(plain_words(text))[:most])[:MAX_FAMILY].strip()


def write_mail(
    notice: Notice, record: Session | Ended | None, to: str, language: str | None, site: str, link: str, days: int
) -> NoticeMail:
    """The mail about a login. record: None if nothing is kept of the session. site: the name of the site."""
    chosen = match(language) or "en"
    t = translations(LOCALE, DOMAIN, chosen)
    greeting, subject = (text % {"site": site} for text in _opening(t, notice))
    odd = sentences(t, notice.kinds)
    facts = [(label, value) for label, value in _facts(t, notice, record) if value]
    below = [
        t.gettext("If this was you, you need not do anything."),
        t.ngettext(
            "If this was not you, or you are not sure, open this page. It is valid for %(count)d day, and asks "
            "before it does anything:",
            "If this was not you, or you are not sure, open this page. It is valid for %(count)d days, and asks "
            "before it does anything:",
            days,
        )
        % {"count": days},
    ]
    lines = [greeting, *odd, "", *(f"{label}: {value}" for label, value in facts), "", *below, "", link]
    text = "\n".join(lines) + "\n"
    button = (t.gettext("Check this sign-in"), link)
    html = _html(tag_of(chosen), subject, [greeting, *odd], facts, below, button)
    return NoticeMail(to=to, language=chosen, subject=subject, text=text, html=html, link=link, notice=notice)


def _opening(t: NullTranslations, notice: Notice) -> tuple[str, str]:
    """The first sentence and the subject, with a place for the name of the site."""
    if "moved" in notice.kinds:
        return (
            t.gettext("Your account at %(site)s is used from somewhere else than before."),
            t.gettext("Was this you? Your account at %(site)s is used from elsewhere"),
        )
    return (
        t.gettext("Someone signed in to your account at %(site)s."),
        t.gettext("Was this you? A sign-in to your account at %(site)s"),
    )


def _facts(t: NullTranslations, notice: Notice, record: Session | Ended | None) -> list[tuple[str, str]]:
    """What the mail says of the login. Of a move only what is known of where the session is used now: the device of its
    login is the user's own."""
    has_moved = "moved" in notice.kinds
    source = moved_to(notice, record, notice.at) if has_moved or record is None else record
    browser, system = family_words(source.browser), family_words(source.os, 3)  # Mac OS X
    software = browser or system
    if browser and system:
        software = t.gettext("%(browser)s on %(system)s") % {"browser": browser, "system": system}
    return [
        (t.gettext("Time"), f"{notice.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"),
        (t.gettext("Device"), software or ("" if has_moved else t.gettext("Unknown device"))),
        (t.gettext("Place"), plain_words(source.place.words if source.place else None)),
    ]


_FONT: Final = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;font-size:16px;line-height:1.5"
_BUTTON: Final = (
    "display:inline-block;padding:12px 20px;border-radius:8px;background:#1f5f8b;color:#ffffff;"
    "font-weight:600;text-decoration:none"
)


def _html(
    language: str,
    title: str,
    above: list[str],
    facts: list[tuple[str, str]],
    below: list[str],
    button: tuple[str, str],
) -> str:
    """Styles stand in the tags: many mail programs drop a style sheet. Tables draw the layout in all of them."""
    rows = "".join(
        f'<tr><td style="padding:4px 16px 4px 0;color:#4d5b69;vertical-align:top;white-space:nowrap">{e(label)}</td>'
        f'<td style="padding:4px 0"><strong><bdi>{e(value)}</bdi></strong></td></tr>'
        for label, value in facts
    )
    action = f'<p style="margin:24px 0 8px"><a href="{e(button[1])}" style="{_BUTTON}">{e(button[0])}</a></p>'
    return (
        f'<!doctype html>\n<html lang="{e(language)}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n<meta name="color-scheme" content="light">\n'
        '<meta name="format-detection" content="telephone=no, date=no, address=no, email=no, url=no">\n'
        f"<title>{e(title)}</title>\n</head>\n"
        '<body style="margin:0;padding:16px;background:#f4f6f8">\n'
        '<table role="presentation" align="center" width="100%" cellspacing="0" cellpadding="0" '
        'style="max-width:560px;margin:0 auto;background:#ffffff;border:1px solid #d5dbe1;border-radius:8px">\n'
        f'<tr><td style="padding:24px;color:#111a23;{_FONT}">\n'
        f"{''.join(_paragraph(text) for text in above)}"
        f'<table role="presentation" cellspacing="0" cellpadding="0" style="margin:16px 0;{_FONT}">{rows}</table>\n'
        f"{''.join(_paragraph(text) for text in below)}{action}\n"
        "</td></tr>\n</table>\n</body>\n</html>\n"
    )


def _paragraph(text: str) -> str:
    return f'<p style="margin:0 0 8px">{e(text)}</p>\n'
