"""The text of a mail, with values that no login should be able to bring so far."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from presence_core.models import Place
from presence_core.web.notices.mail import ascii_address, family_words, plain_words, write_mail
from tests.conftest import on
from tests.support.facade import P
from tests.support.notices import queue_notice
from tests.web.notices.mail_server import SENDER

HOSTILE = (
    "http://evil.example/", "www.evil.example", "evil。example", "evil．example", "mallory@evil.example",
    "+1 (555) 010-9999", "\u202eelpmaxe.live\u202c", "<a href=//evil.example>x</a>", "x\r\nBcc: all@mail.example",
    "evil\u2024example", "&lt;b&gt;", "evil\u3002example/\u200bx", "javascript:alert(1)",
)  # fmt: skip
"""Links, addresses and numbers to call; marks that turn text round; markup; a header."""


@pytest.mark.parametrize("value", HOSTILE)
@on("valkey-sync")
def test_a_hostile_value_is_words_at_most(p: P, value: str) -> None:
    session = p.login("ada").session
    place = Place(country=value, city=value, asn=None, network=value, latitude=None, longitude=None)
    record = replace(session, browser=value, os=value, place=place, device=value, name=value)
    link = "https://shop.example/devices/notice?t=x"
    mail = write_mail(queue_notice(p, session), record, "ada@mail.example", "en", "Shop", link, 7)
    message = mail.message(SENDER)
    assert message.keys().count("Bcc") == 0
    seen = mail.subject + mail.text.replace(link, "") + re.sub(r"<[^>]*>|https://shop\.example\S*", " ", mail.html)
    facts = mail.text.partition("Device:")[2].partition("If this was you")[0]
    assert (
        re.search(r"[.:/@<>&]|\d{4}|[\u200b-\u200f\u2024\u202a-\u202e\u2066-\u2069]", facts.replace("Place:", ""))
        is None
    )
    assert "Bcc:" not in seen
    assert re.findall(r"<a [^>]*>", mail.html) == re.findall(r'<a href="https://shop\.example[^>]*>', mail.html)
    assert len(re.findall("<a ", mail.html)) == 1


@pytest.mark.parametrize(
    "agent",
    [
        "Your account is closed, call our staff today at the number below/1.0 CFNetwork/1410.0.3 Darwin/22.6.0",
        "Paperboat's staff (Ada) needs your password/1 CFNetwork/1410 Darwin/22.6.0",
        "Wearesafepleaseignorethismailandsendusyourpassword/1 CFNetwork/1410 Darwin/22.6.0",
    ],
)
@on("valkey-sync")
def test_no_visitor_writes_a_sentence_into_a_mail(p: P, agent: str) -> None:
    """The family of such a user agent is the text before the slash."""
    session = p.login("ada", user_agent=agent).session
    mail = write_mail(queue_notice(p, session), session, "ada@mail.example", "en", "Shop", "https://shop.example/", 7)
    [device] = re.findall(r"Device: (.*)", mail.text)
    software = device.removesuffix(" on iOS").removesuffix(" on Mac OS X")
    assert len(software) <= 20
    assert len(software.split()) <= 2
    assert re.search("[,'()]", software) is None


def test_the_usual_families_stay() -> None:
    for words in ("Chrome", "Mobile Safari", "Samsung Internet", "Mac OS X", "Windows", "Chrome OS", "Firefox iOS"):
        assert family_words(words, 3) == words
    assert family_words("Chrome Mobile WebView") == "Chrome Mobile"
    assert family_words(None) == ""


def test_words_of_every_script_stay() -> None:
    for words in ("Chrome Mobile", "Saint-Étienne, FR", "東京", "مدينة", "Windows 11", "Côte d'Ivoire"):
        assert plain_words(words) == words
    assert plain_words(None) == plain_words("...") == ""
    assert len(plain_words("x" * 5000)) == 60


def test_only_one_plain_address_is_mailed() -> None:
    assert ascii_address("ada@mail.example") == "ada@mail.example"
    assert ascii_address("a.b+c@bücher.example") == "a.b+c@xn--bcher-kva.example"
    for dots in ("a..b@docomo.example", "ab.@docomo.example"):  # old addresses of mobile phones in Japan
        assert ascii_address(dots) == dots
    for wrong in (
        "", "ada", "@mail.example", "ada@", "a@b@c", "a b@c.example", "ada@mail.example\n", "a@b.example,c@d.example",
        "Ada <ada@mail.example>", "ädä@mail.example", "ada@" + "x" * 300, "ada@mail..example", None, 5,
        "a@b＞.com", "v@good＠evil.com", "a@℀.com", "a@-b.com", "a@b-.com",
    ):  # fmt: skip
        assert ascii_address(wrong) is None, wrong
