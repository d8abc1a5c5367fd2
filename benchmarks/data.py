"""Realistic logins: people with a name and an email, on some 300 user agents. Always the same, by a fixed seed.

The memory figures depend on these lengths: a uid of 10 bytes, a name of 7 to 24, one email alias of 20 to 40, one
session in seven over IPv6, and a session id made by the library (22 characters).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

SEED: Final = 20_261_120

USERS_PER_SESSION: Final = 0.7
"""A million sessions belong to 700,000 users: most have one, some have several devices."""

Row = dict[str, Any]
"""Arguments of login."""

_GIVEN_NAMES: Final = """
Amélie Amina Anna Ben Carlos Chen Chloé Daniel David Elena Emma Fatima Felix Finn Grace Hana Hannah Hugo Ines Ivan
Jack Jakob Jana Jonas José Julia Karim Kofi Lars Laura Lea Leila Leon Liam Lina Lucía Luka Maja Marek Maria Mateo
Maya Mehmet Mia Mohammed Nadia Noah Nora Olga Oliver Omar Paula Pedro Petra Priya Rosa Ryan Samuel Sara Sofia Theo
Thomas Tom Valentina Wei William Yara Yuki Zoë Иван Мария 健太
"""
_FAMILY_NAMES: Final = """
Adams Ahmed Almeida Andersson Bauer Becker Bianchi Brown Carvalho Chen Costa Dąbrowski Demir Dubois Evans Fischer
Fernández García Gonzalez Green Haddad Hansen Hoffmann Horvat Ibrahim Ivanova Jansen Johnson Jones Kaya Kelly Khan
Kim Kovács Kowalski Larsen Laurent Lee Lopez Martin Martínez Mbeki Meyer Moreau Müller Murphy Nakamura Nguyen
Nielsen Novák O'Brien Okafor Papadopoulos Patel Pereira Petrov Popescu Rossi Ruiz Sánchez Santos Schmidt Silva Singh
Smith Suzuki Svensson Tanaka Taylor Thompson Torres Van-den-Berg Virtanen Wagner Walker Weber Williams Wong Yılmaz
Zhang
"""
_DOMAINS: Final = ("gmail.com", "outlook.com", "icloud.com", "yahoo.com", "example.org", "mail.example.net", "web.de")

_GIVEN: Final = tuple(_GIVEN_NAMES.split())
_FAMILY: Final = tuple(_FAMILY_NAMES.split())

_CHROME: Final = "Mozilla/5.0 ({}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 {}Safari/537.36"
_FIREFOX: Final = "Mozilla/5.0 ({}; rv:{}.0) Gecko/20100101 Firefox/{}.0"
_SAFARI: Final = "Mozilla/5.0 ({}) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/{} {}Safari/{}"
_DESKTOPS: Final = (
    ("Windows PC", "Windows NT 10.0; Win64; x64"),
    ("Mac", "Macintosh; Intel Mac OS X 10_15_7"),
    ("Linux PC", "X11; Linux x86_64"),
    ("Chromebook", "X11; CrOS x86_64 14541.0.0"),
)
_ANDROIDS: Final = ("SM-S928B", "SM-A546E", "Pixel 8", "Pixel 9 Pro", "2201117TY", "CPH2581", "moto g84 5G", "K")


class _Agents:
    """Clients of the logins: device, app, version and user agent that belong together; few are common, many are
    rare."""

    def __init__(self) -> None:
        self.kinds = list(_kinds())
        random.Random(SEED).shuffle(self.kinds)
        self.weights = list(accumulate(1 / (place + 8) for place in range(len(self.kinds))))


def _kinds() -> Iterator[tuple[str, str, str, str]]:
    for device, system in _DESKTOPS:
        for version in range(118, 143):
            yield device, "web", f"2026.{version % 6 + 40}", _CHROME.format(system, version, "")
    for version in range(118, 143, 2):
        yield "Windows PC", "web", "2026.46", _CHROME.format(_DESKTOPS[0][1], version, "") + f" Edg/{version}.0.0.0"
    for device, system in _DESKTOPS[:3]:
        for version in range(115, 145, 2):
            yield device, "web", "2026.46", _FIREFOX.format(system, version, version)
    for minor in range(8):
        yield "Mac", "web", "2026.46", _SAFARI.format(_DESKTOPS[1][1], f"18.{minor}", "", "605.1.15")
        phone = f"iPhone; CPU iPhone OS 18_{minor} like Mac OS X"
        yield "iPhone", "web", "2026.46", _SAFARI.format(phone, f"18.{minor}", "Mobile/15E148 ", "604.1")
        for patch in range(4):
            yield (
                "iPhone",
                "ios",
                f"7.{minor}.{patch}",
                f"Example/7.{minor}.{patch} (iPhone; iOS 18.{minor}; Scale/3.00)",
            )
    for model in _ANDROIDS:
        for version in range(132, 142):
            agent = _CHROME.format(f"Linux; Android 15; {model}", version, "Mobile ")
            yield model, "android", f"7.{version % 8}.0", agent


_AGENTS: Final = _Agents()


def uid_of(user: int) -> str:
    """Ten bytes, in random order, so that a sorted set gains nothing from it."""
    return f"u{user * 7_368_787 % 1_000_000_007 % 1_000_000_000:09d}"


def _ip(rng: random.Random) -> str:
    bits = rng.getrandbits(40)
    if bits >> 32 < 37:
        return f"2a02:{bits & 0xFFFF:x}:{bits >> 16 & 0xFFFF:x}:1::{bits >> 8 & 0xFFFF:x}"
    return f"{1 + (bits >> 24 & 0xFF) % 223}.{bits >> 16 & 0xFF}.{bits >> 8 & 0xFF}.{bits & 0xFF}"


def _owners(rng: random.Random, count: int, first_user: int) -> list[int]:
    users = max(1, round(count * USERS_PER_SESSION))
    owners = list(range(users))
    owners += [int(users * rng.random() ** 1.5) for _ in range(count - users)]
    rng.shuffle(owners)
    return [first_user + owner for owner in owners]


def logins(count: int, *, first_user: int = 0, seed: int = SEED) -> Iterator[Row]:
    """``count`` logins in order of time, of users numbered from ``first_user``."""
    rng = random.Random(seed + first_user)
    owners = _owners(rng, count, first_user)
    kinds = rng.choices(_AGENTS.kinds, cum_weights=_AGENTS.weights, k=count)
    given_count, family_count, domain_count = len(_GIVEN), len(_FAMILY), len(_DOMAINS)
    for owner, (device, app, version, agent) in zip(owners, kinds, strict=True):
        family = owner // given_count % family_count
        given = _GIVEN[owner % given_count]
        yield {
            "uid": uid_of(owner),
            "name": f"{given} {_FAMILY[family]}",
            "aliases": (f"{given.lower()}.{_FAMILY[family].lower()}{owner % 997}@{_DOMAINS[owner % domain_count]}",),
            "device": device,
            "app": app,
            "app_version": version,
            "ip": _ip(rng),
            "user_agent": agent,
        }


def imported_logins(count: int, now: float, span: float) -> Iterator[Row]:
    """The same, with login times spread evenly over the last ``span`` seconds, and a last-seen time after each
    login."""
    rng = random.Random(SEED)
    for place, row in enumerate(logins(count)):
        ago = span * (1 - place / count)
        row["login_at"] = now - ago
        row["last_seen"] = now - ago * rng.random()
        yield row
