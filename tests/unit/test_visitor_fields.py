"""What describes a visitor is made to fit. The values are of kinds that other projects' users have reported."""

from __future__ import annotations

import itertools
import logging
import time
from ipaddress import ip_address
from typing import Any

import pytest

from presence_core import InvalidArgument
from presence_core import validation as check
from presence_core.logs import VisitorLog
from presence_core.operations.visitor_fields import VisitorFields
from presence_core.text.addresses import forwarded_for, parse_address, parse_network
from presence_core.web.proxies import Proxies

ADDRESSES = {
    "203.0.113.9": "203.0.113.9",
    "203.0.113.9:51008": "203.0.113.9",
    "203.0.113.9:": "203.0.113.9",
    " 203.0.113.9\t": "203.0.113.9",
    '"203.0.113.9:443"': "203.0.113.9",
    "203.0.113.9:_gazonk": "203.0.113.9",
    "[2001:db8::9]:51008": "2001:db8::9",
    "[2001:db8::9]": "2001:db8::9",
    "2001:DB8:0:0::9": "2001:db8::9",
    "2001:db8:0:0:0:0:0:9:443": "2001:db8::9",
    "fe80::1%eth0": "fe80::1",
    "[fe80::1%eth0]:443": "fe80::1",
    "::ffff:192.0.2.1": "192.0.2.1",
    "::ffff:c000:201": "192.0.2.1",
    "[::ffff:192.0.2.1]:80": "192.0.2.1",
    "::ffff:192.0.2.1:8080": "192.0.2.1",
    "::ffff:192.0.2.1%0": "192.0.2.1",
    "/203.0.113.9:51008": "203.0.113.9",
    "/[2001:db8::9]:51008": "2001:db8::9",
    "/2001:db8:0:0:0:0:0:9:51008": "2001:db8::9",
    "2001:db8::9:51008": "2001:db8::9",
    "203.0.113.9/32": "203.0.113.9",
    "2001:db8::9/128": "2001:db8::9",
    "'203.0.113.9'": "203.0.113.9",
}
NO_ADDRESSES = (
    "", " ", "unknown", "_hidden", "-", "localhost", "testclient", "unix:", "/run/site.sock", "192.0.2.300", "192.0.2",
    "192.0.2.1/24", "192.0.2.1:port", "192.0.2.1:123456", "[::1", "[::1]x", "::1]", "203.0.113.9, 10.0.0.6",
    "1.2.3.4\0", "0x7f.0.0.1", "127.1", "3405803785", "١.1.1.1", "\ud800", "1" * 10_000, ":::", ":" * 100,
    "%", "[", '"', "[]:80",
)  # fmt: skip


def fit(unfit: list[str] | None = None) -> VisitorFields:
    return VisitorFields(unfit=(unfit if unfit is not None else []).append)


@pytest.mark.parametrize("written", ADDRESSES)
def test_an_address_is_read_as_it_is_written(written: str) -> None:
    assert str(parse_address(written)) == ADDRESSES[written]
    assert fit().address(written) == ip_address(ADDRESSES[written]).packed


def test_what_is_no_address_is_none() -> None:
    unfit: list[str] = []
    values: tuple[Any, ...] = (*NO_ADDRESSES, 5, b"1.2.3.4", ["1.2.3.4"], object())
    assert [value for value in values if fit(unfit).address(value) != b""] == []
    assert set(unfit) == {"ip"}


def test_a_mapped_network_is_ipv4_and_a_mask_is_no_network() -> None:
    assert str(parse_network("::ffff:10.0.0.0/104")) == "10.0.0.0/8"
    assert str(parse_network("10.1.2.3/8")) == "10.0.0.0/8"
    assert str(parse_network("203.0.113.9:443")) == "203.0.113.9/32"
    assert [
        parse_network(text) for text in ("10.0.0.0/255.0.0.0", "10.0.0.0/", "/8", "10.0.0.0/-1", "::/129", "x")
    ] == [None] * 6


@pytest.mark.parametrize(
    ("header", "value", "peer", "trusted", "address"),
    [
        ("X-Forwarded-For", "198.51.100.139:17085, 10.0.0.6", "10.0.0.5", "10.0.0.0/8", "198.51.100.139"),
        ("X-Forwarded-For", "203.0.113.9, ", "10.0.0.6", "10.0.0.0/8", "203.0.113.9"),
        ("X-Forwarded-For", " ,, ", "10.0.0.6", "10.0.0.0/8", "10.0.0.6"),
        ("X-Forwarded-For", "203.0.113.9, unknown", "10.0.0.6", "10.0.0.0/8", None),
        ("X-Forwarded-For", "203.0.113.9, unknown, 10.0.0.7", "10.0.0.6", "10.0.0.0/8", None),
        ("X-Forwarded-For", "203.0.113.9", "10.0.0.6", "::ffff:10.0.0.0/104", "203.0.113.9"),
        ("X-Forwarded-For", '"[2001:db8::9]:4711"', "10.0.0.6", "10.0.0.0/8", "2001:db8::9"),
        ("X-Forwarded-For", "203.0.113.9", "198.51.100.7", "10.0.0.0/8", "198.51.100.7"),
        ("Forwarded", "for=203.0.113.9", "198.51.100.7", "10.0.0.0/8", "198.51.100.7"),
        ("Forwarded", 'For="[2001:db8:cafe::17]:4711";proto=https', "10.0.0.6", "10.0.0.0/8", "2001:db8:cafe::17"),
        ("Forwarded", 'for=192.0.2.43,for="10.0.0.7";by=10.0.0.6', "10.0.0.6", "10.0.0.0/8", "192.0.2.43"),
        ("Forwarded", "for=192.0.2.43;host=shop.example, for=unknown", "10.0.0.6", "10.0.0.0/8", None),
        ("Forwarded", "for=_hidden", "10.0.0.6", "10.0.0.0/8", None),
        ("Forwarded", "proto=https", "10.0.0.6", "10.0.0.0/8", None),
        ("Forwarded", 'for="192.0.2.1, for="203.0.113.9"', "10.0.0.6", "10.0.0.0/8", "203.0.113.9"),
        ("Forwarded", r'for="x\", for="[2001:db8::9]:443"', "10.0.0.6", "10.0.0.0/8", "2001:db8::9"),
        ("X-Real-IP", "203.0.113.9", "10.0.0.6", "10.0.0.0/8", "203.0.113.9"),
        ("X-Real-IP", "203.0.113.9", "198.51.100.7", "10.0.0.0/8", "198.51.100.7"),
        ("CloudFront-Viewer-Address", "2001:db8::9:46532", "10.0.0.6", "10.0.0.0/8", "2001:db8::9"),
        ("X-Forwarded-For", "203.0.113.9", "unix:", "unix", "203.0.113.9"),
        ("X-Forwarded-For", "203.0.113.9", "@", "unix", "203.0.113.9"),
        ("X-Forwarded-For", "203.0.113.9, unix:", "", "unix", "203.0.113.9"),
        ("X-Forwarded-For", "203.0.113.9, unix:", "10.0.0.6", "10.0.0.0/8", None),
        ("X-Forwarded-For", "198.51.100.1, unix:, 203.0.113.9", "", "unix", "203.0.113.9"),
        ("X-Forwarded-For", "203.0.113.9", "testclient", "unix", None),
        ("Forwarded", "for=203.0.113.9, proto=https", "", "unix", None),
    ],
)
def test_a_trusted_proxy_reports_the_visitor(
    header: str, value: str, peer: str, trusted: str, address: str | None
) -> None:
    assert Proxies([trusted], header).client(peer, value) == address


def test_a_comma_in_quotes_separates_nothing() -> None:
    assert forwarded_for('for=192.0.2.1;x="a,b", for="[::1]"') == ["192.0.2.1", '"[::1]"']


@pytest.mark.parametrize("text", ["a", '"\\', '"a\\', '\\"', 'for="', "a =", ","])
def test_the_time_for_a_header_that_anyone_may_write_grows_only_with_its_length(text: str) -> None:
    began = time.thread_time()  # of the processor: a regular expression holds the lock of the interpreter
    assert set(forwarded_for(text * (40_000 // len(text)))) <= {"", '"for="'}
    assert time.thread_time() - began < 2, "some milliseconds, or half a minute"


def test_too_long_text_is_cut_at_a_character_and_no_text_is_left_out() -> None:
    unfit: list[str] = []
    read = fit(unfit)
    assert read.name("名" * 100) == "名" * 85
    assert read.name("é" * 300) == "é" * 128
    assert read.name("Ada\0Byron") == "AdaByron"
    assert read.name("Ada\nByron\x1b[2J") == "Ada Byron[2J"
    assert read.name("Ada \ud83d") == "Ada"
    assert read.label("device", "d" * 65) == "d" * 64
    assert read.label("app_version", "v" * 65) == "v" * 64
    assert unfit == ["name"] * 5 + ["device", "app_version"]
    invisible = ("\u200b", "\ufeff\u200e", "\u3164", "\u2800")
    nothing: tuple[Any, ...] = ("", " ", "\n", "\0", "\ud800", "\u3000", *invisible, None, 5, True, b"x", ["x"], {})
    assert [value for value in nothing if read.label("app", value) != ""] == []


def test_an_alias_is_a_key_of_searches_so_it_is_left_out_and_never_cut() -> None:
    read = fit()
    assert read.aliases(["bob@example.com", "", None, "y" * 400, "a\nb", 5, "bob@example.com"]) == "bob@example.com"
    assert read.aliases([f"a{number}" for number in range(9)]).split("\n") == [f"a{number}" for number in range(8)]
    assert read.aliases("bob@example.com") == "bob@example.com"
    nothing: tuple[Any, ...] = ((), [], None, "", 5, b"bob", {}, [[]], ["\u200b"])
    assert [value for value in nothing if read.aliases(value) != ""] == []


def test_a_user_agent_fits_and_is_not_shown_as_latin_1() -> None:
    read, sent = fit(), "Магазин/2.0 ◀"
    assert read.user_agent(sent.encode().decode("latin-1")) == sent
    assert read.user_agent("Caf\xe9/1.0") == "Café/1.0"
    assert len(read.user_agent("Mozilla/5.0 " + "◀" * 10_000)) == 512
    nothing: tuple[Any, ...] = ("\ud800", "", "  ", "\u200b", None, 5, b"curl", [])
    assert [value for value in nothing if read.user_agent(value) != ""] == []


def test_values_that_do_not_fit_are_logged_once_a_minute_by_field(caplog: pytest.LogCaptureFixture) -> None:
    noted = VisitorLog(iter((0.0, 1.0, 59.0, 60.0, 61.0, 130.0, 130.0)).__next__)
    with caplog.at_level(logging.WARNING):
        for field in (*["name"] * 6, "device"):
            noted.unfit(field)
    assert [(record.presence_field, record.presence_count) for record in caplog.records] == [  # type: ignore[attr-defined]
        ("name", 1), ("name", 3), ("name", 2), ("device", 1)
    ]  # fmt: skip


def test_aliases_without_an_end_are_looked_at_for_a_while() -> None:
    assert fit().aliases(itertools.count()) == ""
    assert fit().aliases(f"a{n % 3}" for n in itertools.count()) == "a0\na1\na2"
    with pytest.raises(InvalidArgument, match="at most 8 texts"):
        check.aliases(itertools.count())
