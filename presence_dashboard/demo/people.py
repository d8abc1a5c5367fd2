"""The directory of the demo site: six hundred invented users, the same ones in every run."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from random import Random
from typing import Final

from presence_dashboard.demo.devices import Device, pick_address, pick_device
from presence_dashboard.demo.names import CULTURES, Culture

OF_LATIN_SCRIPT: Final = 33
OF_ANOTHER: Final = 15
"""Users of each culture: 600 in all, a sixth of them with names in other scripts."""

# Number ranges that are reserved for fiction, or else the country's code and zeros.
_PHONES: Final = {
    "GB": "+44 7700 900{:03d}",
    "US": "+1 312 555 01{:02d}",
    "IE": "+353 20 910 0{:03d}",
    "FR": "+33 1 99 00 1{:03d}",
    "DE": "+49 30 23125 {:03d}",
    "SE": "+46 8 465 004 {:02d}",
    "AU": "+61 491 570 {:03d}",
}
_NO_FICTION: Final = {"ES": 34, "BR": 55, "IT": 39, "KE": 254, "VN": 84, "JP": 81, "KR": 82, "IN": 91}

# Letters that NFKD does not decompose.
_PLAIN: Final = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ß": "ss", "ı": "i", "æ": "ae", "þ": "th", "'": "", "’": "", " ": "-"}
)


@dataclass(frozen=True, slots=True)
class Member:
    """A user in the directory."""

    uid: str
    name: str
    latin_name: str  #: equal to ``name`` if that is in Latin letters
    email: str
    phone: str
    devices: tuple[Device, ...]  #: one to four
    addresses: tuple[str, ...]  #: at home, and on the road

    def device_id(self, device: Device) -> str:
        """What the storage of one of their devices has."""
        return f"demo-{self.uid}-{self.devices.index(device)}"

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other texts by which staff may find the user."""
        other = () if self.latin_name == self.name else (self.latin_name,)
        return (self.email, self.phone, *other)


def _ascii(name: str) -> str:
    """A name as part of an email address."""
    bare = unicodedata.normalize("NFKD", name.lower().translate(_PLAIN))
    return "".join(char for char in bare if char.isascii() and (char.isalnum() or char == "-"))


def _split(names: str) -> list[tuple[str, str]]:
    """Pairs of a name and its Latin form."""
    pairs = (name.partition("=") for name in names.split(","))
    return [(native, latin or native) for native, _, latin in pairs]


def _phone(country: str, random: Random) -> str:
    if country in _PHONES:
        form = _PHONES[country]
        return form.format(random.randrange(100 if ":02d" in form else 1000))
    return f"+{_NO_FICTION[country]} 000 000 {random.randrange(10_000):04d}"


def _names(culture: Culture, random: Random) -> list[tuple[str, str, str]]:
    """Name, Latin name, and the part of an email address before the @."""
    pairs = [(given, family) for given in _split(culture.given) for family in _split(culture.family)]
    chosen = []
    for given, family in random.sample(pairs, OF_ANOTHER if "=" in culture.given else OF_LATIN_SCRIPT):
        first, last = (family, given) if culture.family_first else (given, family)
        name = f"{first[0]}{culture.joint}{last[0]}"
        # In Latin letters every name has a space; the order is that of the culture.
        latin = f"{first[1]} {last[1]}"
        chosen.append((name, latin, f"{_ascii(given[1])}.{_ascii(family[1])}"))
    return chosen


def _directory() -> tuple[Member, ...]:
    random = Random("the same people every time")
    drawn = [(*names, culture.country) for culture in CULTURES for names in _names(culture, random)]
    random.shuffle(drawn)
    members = []
    for number, (name, latin_name, mailbox, country) in enumerate(drawn):
        devices = tuple(pick_device(random) for _ in range(random.choices((1, 2, 3, 4), (50, 32, 13, 5))[0]))
        members.append(
            Member(
                uid=f"u{1001 + number}",
                name=name,
                latin_name=latin_name,
                email=f"{mailbox}@example.{random.choice(('com', 'com', 'org'))}",
                phone=_phone(country, random),
                devices=devices,
                addresses=(pick_address(random), pick_address(random)),
            )
        )
    return tuple(members)


MEMBERS: Final = _directory()

GUESTS: Final = tuple(member for member in MEMBERS if member.name == member.latin_name)[:25]
"""Users for people who try the demo: the site suggests them, and no simulated visitor uses them."""

VISITORS: Final = tuple(member for member in MEMBERS if member not in GUESTS)


def _folded(text: str) -> str:
    """Without accents and capitals."""
    bare = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(char for char in bare if not unicodedata.combining(char))
    return " ".join(bare.replace("ı", "i").split())


_BY_TEXT: Final = {
    _folded(text): member for member in MEMBERS for text in (member.latin_name, member.name, member.email, member.uid)
}


def find(text: str) -> Member | None:
    """The user with this name (in either script), email or uid."""
    return _BY_TEXT.get(_folded(text))
