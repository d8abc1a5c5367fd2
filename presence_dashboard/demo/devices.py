"""The devices of the demo's visitors, with their user agents, and their addresses."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from random import Random
from typing import Final


@dataclass(frozen=True, slots=True)
class Device:
    """A device that a visitor signs in on."""

    name: str  #: "iPhone", "Windows PC", …
    app: str  #: "web", "ios", "android" or "desktop"
    app_version: str
    user_agent: str

    @property
    def mobile(self) -> bool:
        """Whether it changes networks."""
        return self.name in ("iPhone", "Android phone")


_WEB = ("2026.46", "2026.46", "2026.46", "2026.45")  # an open tab keeps its version
_IOS = ("7.4.1", "7.4.0", "7.3.2")
_ANDROID = ("7.4.2", "7.4.1", "7.2.0", "6.9.5")
_DESKTOP = ("3.12.0", "3.11.4")

_WINDOWS = "Windows NT 10.0; Win64; x64"
_MAC = "Macintosh; Intel Mac OS X 10_15_7"
_LINUX = "X11; Linux x86_64"
_SAFARI = "AppleWebKit/605.1.15 (KHTML, like Gecko)"


def _chrome(system: str, version: int, *, edge: bool = False, mobile: bool = False) -> str:
    tail = f" Edg/{version}.0.0.0" if edge else ""
    phone = "Mobile " if mobile else ""
    engine = "AppleWebKit/537.36 (KHTML, like Gecko)"
    return f"Mozilla/5.0 ({system}) {engine} Chrome/{version}.0.0.0 {phone}Safari/537.36{tail}"


def _firefox(system: str, version: int) -> str:
    return f"Mozilla/5.0 ({system}; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"


def _safari(version: str) -> str:
    return f"Mozilla/5.0 ({_MAC}) {_SAFARI} Version/{version} Safari/605.1.15"


def _ios_safari(kind: str, system: str, version: str) -> str:
    return f"Mozilla/5.0 ({kind}; CPU {system} like Mac OS X) {_SAFARI} Version/{version} Mobile/15E148 Safari/604.1"


def _electron(system: str, app: str, chrome: str, electron: str) -> str:
    engine = "AppleWebKit/537.36 (KHTML, like Gecko)"
    return f"Mozilla/5.0 ({system}) {engine} Paperboat/{app} Chrome/{chrome} Electron/{electron} Safari/537.36"


_IPHONE_CHROME = _ios_safari("iPhone", "iPhone OS 18_6", "18.6").replace("Version/18.6", "CriOS/154.0.7444.46")
_SAMSUNG = _chrome("Linux; Android 14; SM-S928B", 148, mobile=True).replace("Chrome/", "SamsungBrowser/28.0 Chrome/")
_PIXEL = "Linux; U; Android 16; Pixel 9 Build/BP2A.250805.005"
_GALAXY = "Linux; U; Android 15; SM-A556B Build/AP3A.240905.015"
_REDMI = "Linux; U; Android 13; M2101K6G Build/TKQ1.221013.002"
_LENOVO = "Linux; U; Android 12; Lenovo TB-J606F Build/SKQ1.211006"


def _apple_app(app: str, system: str) -> str:
    return f"Paperboat/{app} (com.example.paperboat; build:{app.replace('.', '')}0; {system}) Alamofire/5.10.2"


# (device, app, versions of the app, user agent)
_KINDS: Final = (
    ("Windows PC", "web", _WEB, _chrome(_WINDOWS, 154)),
    ("Windows PC", "web", _WEB, _chrome(_WINDOWS, 153)),
    ("Windows PC", "web", _WEB, _chrome(_WINDOWS, 148)),
    ("Windows PC", "web", _WEB, _chrome(_WINDOWS, 154, edge=True)),
    ("Windows PC", "web", _WEB, _chrome(_WINDOWS, 152, edge=True)),
    ("Windows PC", "web", _WEB, _firefox(_WINDOWS, 156)),
    ("Windows PC", "web", _WEB, _firefox(_WINDOWS, 140)),
    ("Windows PC", "web", _WEB, _chrome(_WINDOWS, 153) + " OPR/137.0.0.0"),
    ("Mac", "web", _WEB, _safari("26.1")),
    ("Mac", "web", _WEB, _safari("18.6")),
    ("Mac", "web", _WEB, _safari("17.4.1")),
    ("Mac", "web", _WEB, _chrome(_MAC, 154)),
    ("Mac", "web", _WEB, _chrome(_MAC, 153)),
    ("Mac", "web", _WEB, _chrome(_MAC, 154, edge=True)),
    ("Mac", "web", _WEB, _firefox("Macintosh; Intel Mac OS X 10.15", 156)),
    ("Linux PC", "web", _WEB, _chrome(_LINUX, 154)),
    ("Linux PC", "web", _WEB, _firefox(_LINUX, 156)),
    ("Linux PC", "web", _WEB, _firefox("X11; Ubuntu; Linux x86_64", 155)),
    ("Chromebook", "web", _WEB, _chrome("X11; CrOS x86_64 14541.0.0", 152)),
    ("iPhone", "web", _WEB, _ios_safari("iPhone", "iPhone OS 18_7", "26.1")),
    ("iPhone", "web", _WEB, _ios_safari("iPhone", "iPhone OS 17_6_1", "17.6")),
    ("iPhone", "web", _WEB, _IPHONE_CHROME),
    ("iPad", "web", _WEB, _ios_safari("iPad", "OS 16_7_10", "16.6")),
    ("iPad", "web", _WEB, _ios_safari("iPad", "OS 17_7", "17.7")),
    ("Android phone", "web", _WEB, _chrome("Linux; Android 10; K", 154, mobile=True)),
    ("Android phone", "web", _WEB, _chrome("Linux; Android 10; K", 151, mobile=True)),
    ("Android phone", "web", _WEB, _firefox("Android 15; Mobile", 156)),
    ("Android phone", "web", _WEB, _SAMSUNG),
    ("Android tablet", "web", _WEB, _chrome("Linux; Android 13; SM-X710", 153)),
    ("iPhone", "ios", _IOS, _apple_app("7.4.1", "iOS 26.1.0")),
    ("iPhone", "ios", _IOS, _apple_app("7.4.0", "iOS 18.6.2")),
    ("iPhone", "ios", _IOS, _apple_app("7.3.2", "iOS 17.7.1")),
    ("iPad", "ios", _IOS, _apple_app("7.4.1", "iPadOS 26.1.0")),
    ("Android phone", "android", _ANDROID, f"Paperboat/7.4.2 ({_PIXEL}) okhttp/4.12.0"),
    ("Android phone", "android", _ANDROID, f"Paperboat/7.4.1 ({_GALAXY}) okhttp/4.12.0"),
    ("Android phone", "android", _ANDROID, f"Paperboat/7.2.0 ({_REDMI}) okhttp/4.12.0"),
    ("Android tablet", "android", _ANDROID, f"Paperboat/6.9.5 ({_LENOVO}) okhttp/4.9.3"),
    ("Windows PC", "desktop", _DESKTOP, _electron(_WINDOWS, "3.12.0", "146.0.7680.65", "41.0.2")),
    ("Mac", "desktop", _DESKTOP, _electron(_MAC, "3.12.0", "146.0.7680.65", "41.0.2")),
    ("Linux PC", "desktop", _DESKTOP, _electron(_LINUX, "3.11.4", "142.0.7444.59", "39.2.1")),
)


def pick_device(random: Random) -> Device:
    """One of about forty kinds."""
    name, app, versions, user_agent = random.choice(_KINDS)
    version = next((number for number in versions if f"/{number}" in user_agent), None)
    return Device(name, app, version or random.choice(versions), user_agent)


# Reserved for documentation and tests: RFC 5737, RFC 2544, RFC 3849 and RFC 9637.
_IPV4: Final = (("192.0.2.0", 8), ("198.51.100.0", 8), ("203.0.113.0", 8), ("198.18.0.0", 17))
_IPV6: Final = (("2001:db8::", 32), ("3fff::", 20))


def pick_address(random: Random) -> str:
    """An address from a network that is reserved for documentation or tests."""
    if random.random() < 0.3:
        base, prefix = random.choice(_IPV6)
        network = random.getrandbits(64 - prefix) << 64
        return str(IPv6Address(int(IPv6Address(base)) + network + random.getrandbits(64)))
    base, bits = random.choice((*_IPV4, _IPV4[-1], _IPV4[-1]))
    return str(IPv4Address(int(IPv4Address(base)) + random.randrange(1, 2**bits - 1)))
