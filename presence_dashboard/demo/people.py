"""The directory of the demo site: five hundred invented users with their devices, the same ones in every run."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from itertools import product
from random import Random
from typing import Any, Final

# Given names, family names, telephone number; Japanese names have the family name first. A name in another script has
# its Latin form after "=": the email address is made from it, and staff can search by it. Numbers are reserved for
# fiction, or the country's code and zeros.
_CULTURES: Final = (
    ("Olivia,Jack,Amelia,Harry,Isla,George,Poppy,Alfie,Freya,Theo",
     "Hartley,Whitcombe,Ashdown,Pemberton,Loxley,Braithwaite,McAllister,O'Neill", "+44 7700 900{:03d}"),
    ("Jürgen,Anneliese,Lukas,Käthe,Sören,Mathilda,Björn,Friederike,Moritz,Jördis",
     "Groß,Müller-Lüdenscheid,Schäfer,Weiß,Brandt,Köhler,von Arnim,Vogelsang", "+49 30 23125 {:03d}"),
    ("Lucía,Álvaro,Ximena,Joaquín,Inés,Íñigo,Belén,Andrés,Sofía,Nicolás",
     "García Márquez,Muñoz,Echeverría,Ibáñez,Peña,Castaño Ruiz,Güell,Zubizarreta", "+34 000 000 {:03d}"),
    ("Åsa,Håkon,Øystein,Sigrún,Astrid,Björk,Søren,Ingrid,Leif,Ægir",
     "Lindström,Sørensen,Þórsdóttir,Bjørnstad,Åkesson,Nygård,Højgaard,Virtanen", "+46 8 465 0{:03d}"),
    ("Ngozi,Chukwuemeka,Adébáyọ̀,Folasadé,Ifeanyi,Tèmítọ́pẹ́,Amina,Oluwaseun,Wanjiru,Barasa",
     "Okafor,Adéyẹmí,Nwosu,Balogun,Mwangi,Ọlátúnjí,Wekesa,Onwuachi", "+254 000 000 {:03d}"),
    ("Анастасія=Anastasiia,Дмитро=Dmytro,Олена=Olena,Богдан=Bohdan,Соломія=Solomiia,Тарас=Taras,Юлія=Yuliia",
     "Шевченко=Shevchenko,Коваленко=Kovalenko,Бондар=Bondar,Мельник=Melnyk,Лисенко=Lysenko", "+380 000 000 {:03d}"),
    ("ليلى=Layla,يوسف=Yusuf,مريم=Maryam,عمر=Omar,نور=Nour,خالد=Khalid,هدى=Huda,طارق=Tariq,سلمى=Salma",
     "الحداد=Al-Haddad,منصور=Mansour,خوري=Khoury,المصري=Al-Masri,حبيب=Habib", "+961 000 000 {:03d}"),
    ("さくら=Sakura,陽翔=Haruto,美咲=Misaki,蓮=Ren,結衣=Yui,大輔=Daisuke,葵=Aoi,健太=Kenta,千尋=Chihiro,翼=Tsubasa",
     "佐藤=Sato,高橋=Takahashi,田中=Tanaka,渡辺=Watanabe,小林=Kobayashi,清水=Shimizu", "+81 000 000 {:03d}"),
)  # fmt: skip

_PLAIN: Final = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ß": "ss", "ı": "i", "æ": "ae", "þ": "th", "'": "", " ": "-"}
)
"""Letters that NFKD does not decompose."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that a visitor signs in on."""

    name: str  #: "iPhone", "Windows PC", …
    app: str  #: "web", "ios" or "android"
    app_version: str
    user_agent: str


_GECKO: Final = "(KHTML, like Gecko)"


def _chrome(system: str, version: int, end: str = "") -> str:
    return f"Mozilla/5.0 ({system}) AppleWebKit/537.36 {_GECKO} Chrome/{version}.0.0.0 Safari/537.36{end}"


def _safari(system: str, version: str, mobile: str = "") -> str:
    return f"Mozilla/5.0 ({system}) AppleWebKit/605.1.15 {_GECKO} Version/{version} {mobile}Safari/604.1"


_WINDOWS: Final = "Windows NT 10.0; Win64; x64"
_MAC: Final = "Macintosh; Intel Mac OS X 10_15_7"
_WEB: Final = (
    ("Windows PC", _chrome(_WINDOWS, 154)),
    ("Windows PC", _chrome(_WINDOWS, 152, " Edg/152.0.0.0")),
    ("Windows PC", f"Mozilla/5.0 ({_WINDOWS}; rv:156.0) Gecko/20100101 Firefox/156.0"),
    ("Mac", _safari(_MAC, "26.1")),
    ("Mac", _chrome(_MAC, 153)),
    ("Linux PC", "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:155.0) Gecko/20100101 Firefox/155.0"),
    ("iPhone", _safari("iPhone; CPU iPhone OS 18_7 like Mac OS X", "26.1", "Mobile/15E148 ")),
    ("iPad", _safari("iPad; CPU OS 17_7 like Mac OS X", "17.7", "Mobile/15E148 ")),
    ("Android phone", _chrome("Linux; Android 10; K", 154).replace(" Safari", " Mobile Safari")),
)
DEVICES: Final = (
    *(Device(name, "web", version, agent) for name, agent in _WEB for version in ("2026.46", "2026.45")),
    Device("iPhone", "ios", "7.4.1", "Paperboat/7.4.1 (com.example.paperboat; iOS 26.1.0) Alamofire/5.10.2"),
    Device("iPad", "ios", "7.3.2", "Paperboat/7.3.2 (com.example.paperboat; iPadOS 17.7.1) Alamofire/5.10.2"),
    Device("Android phone", "android", "7.4.2", "Paperboat/7.4.2 (Linux; U; Android 16; Pixel 9) okhttp/4.12.0"),
    Device("Android phone", "android", "7.2.0", "Paperboat/7.2.0 (Linux; U; Android 13; M2101K6G) okhttp/4.12.0"),
)


def _address(random: Random) -> str:
    """An address that is reserved for documentation or tests: RFC 2544 and RFC 3849."""
    if random.random() < 0.3:
        return str(IPv6Address((0x20010DB8 << 96) + random.getrandbits(96)))
    return str(IPv4Address(int(IPv4Address("198.18.0.0")) + random.randrange(1, 2**17 - 1)))


@dataclass(frozen=True, slots=True)
class Member:
    uid: str
    name: str
    latin_name: str  #: equal to ``name`` if that is in Latin letters
    email: str
    phone: str
    devices: tuple[Device, ...]  #: one to three
    addresses: tuple[str, ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other texts by which staff may find the user."""
        other = () if self.latin_name == self.name else (self.latin_name,)
        return (self.email, self.phone, *other)

    def login(self, device: Device) -> dict[str, Any]:
        """The arguments of a login on one of their devices."""
        return {
            "uid": self.uid, "name": self.name, "aliases": self.aliases, "device": device.name, "app": device.app,
            "app_version": device.app_version, "user_agent": device.user_agent, "ip": self.addresses[0],
            "device_id": f"demo-{self.uid}-{self.devices.index(device)}",
        }  # fmt: skip


def _ascii(name: str) -> str:
    bare = unicodedata.normalize("NFKD", name.lower().translate(_PLAIN))
    return "".join(char for char in bare if char.isascii() and (char.isalnum() or char == "-"))


def _names() -> Iterator[tuple[str, str, str, str]]:
    """Name, Latin name, the part of an email address before the @, and the form of telephone numbers."""
    for given_names, family_names, phone in _CULTURES:
        for given, family in product(given_names.split(","), family_names.split(",")):
            (first, _, first_latin), (last, _, last_latin) = given.partition("="), family.partition("=")
            words, latin = [first, last], [first_latin or first, last_latin or last]
            mailbox = ".".join(map(_ascii, latin))
            if phone.startswith("+81"):
                words.reverse()
                latin.reverse()
            yield " ".join(words), " ".join(latin), mailbox, phone


def _directory() -> tuple[Member, ...]:
    random = Random("the same people every time")
    drawn = list(_names())
    random.shuffle(drawn)
    return tuple(
        Member(
            uid=f"u{1001 + number}",
            name=name,
            latin_name=latin_name,
            email=f"{mailbox}@example.{random.choice(('com', 'com', 'org'))}",
            phone=phone.format(number % 1000),
            devices=tuple(random.sample(DEVICES, random.choices((1, 2, 3), (55, 33, 12))[0])),
            addresses=(_address(random), _address(random)),
        )
        for number, (name, latin_name, mailbox, phone) in enumerate(drawn)
    )


MEMBERS: Final = _directory()

GUESTS: Final = tuple(member for member in MEMBERS if member.name == member.latin_name)[:25]
"""Users for people who try the demo: no simulated visitor uses them."""

VISITORS: Final = tuple(member for member in MEMBERS if member not in GUESTS)

BY_UID: Final = {member.uid: member for member in MEMBERS}
