"""``python -m benchmarks commuters [--server valkey|redis] [--sessions 10000]``

How often ``moved`` is wrong: one simulated day of people who change networks all day, and how often it finds a stolen
cookie. The rule is in docs/use/moves.md. Nothing here is measured in time, and each run draws the same day.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from benchmarks.data import SEED
from benchmarks.stage import Stage, binaries
from presence_core import Place, Presence

DAY: Final = 86_400
BEGIN: Final = 1_900_000_000

_CHROME: Final = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0"
CHROME: Final = f"Mozilla/5.0 (Linux; Android 14; K) {_CHROME} Mobile Safari/537.36"
DESKTOP: Final = f"Mozilla/5.0 (X11; Linux x86_64) {_CHROME} Safari/537.36"
FIREFOX: Final = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 Firefox/127.0"
NEXT_CHROME: Final = CHROME.replace("126", "127")


class Network(NamedTuple):
    """A provider, the cities that a place file has for its addresses, and the first byte of these."""

    country: str
    asn: int
    first: int
    cities: Sequence[tuple[str, int, int]]


_FRANCE: Final = [("Paris", 49, 2), ("Lyon", 46, 5), ("Marseille", 43, 5), ("Lille", 51, 3), ("Brest", 48, -4)]
HOMES: Final = [Network("FR", 64500 + n, 20 + n, _FRANCE) for n in range(4)]
MOBILE: Final = [Network("FR", 64510 + n, 30 + n, _FRANCE[:3]) for n in range(3)]  # where its gateways are
OFFICES: Final = [Network("FR", 64520 + n, 40 + n, _FRANCE) for n in range(8)]
CAFES: Final = [Network("FR", 64530 + n, 50 + n, _FRANCE) for n in range(8)]
GENEVA: Final = Network("CH", 64540, 60, [("Genève", 46, 6)])
ANNECY: Final = Network("FR", 64541, 61, [("Annecy", 46, 6)])
TOKYO: Final = Network("JP", 64550, 62, [("Tokyo", 36, 140)])
FRANKFURT: Final = Network("DE", 64551, 63, [("Frankfurt", 50, 9)])
EVERY: Final = {n.first: n for n in (*HOMES, *MOBILE, *OFFICES, *CAFES, GENEVA, ANNECY, TOKYO, FRANKFURT)}

Request = tuple[float, str, str]
"""Seconds since the request before, address, user agent."""


def place_of(address: bytes) -> bytes:
    network = EVERY[address[0]]
    city, latitude, longitude = network.cities[address[1] % len(network.cities)]
    place = Place(country=network.country, asn=network.asn, city=city, latitude=latitude, longitude=longitude)
    return place.packed()


def address(rng: random.Random, network: Network, city: int | None = None) -> str:
    second = rng.randrange(len(network.cities)) if city is None else city
    return f"{network.first}.{second}.{rng.randrange(256)}.{rng.randrange(1, 255)}"


# -- people -----------------------------------------------------------------------------------------------------------


def _on_the_way(rng: random.Random, carrier: Network, minutes: int) -> Iterator[str]:
    """A new address every few minutes, each by any gateway of the carrier."""
    for _ in range(max(1, minutes // rng.randint(4, 20))):
        yield address(rng, carrier)


def _day(rng: random.Random, home: Network, office: Network) -> Iterator[str]:
    carrier, city = rng.choice(MOBILE), rng.randrange(5)
    own, work = address(rng, home, city % len(home.cities)), address(rng, office, city % len(office.cities))
    yield own
    yield from _on_the_way(rng, carrier, rng.randint(10, 90))
    for _ in range(rng.randint(1, 4)):
        yield work
        yield from _on_the_way(rng, carrier, rng.randint(5, 60))
        yield address(rng, rng.choice(CAFES), 1 if office is GENEVA else city)
    yield from _on_the_way(rng, carrier, rng.randint(10, 90))
    yield own


def office_worker(rng: random.Random) -> list[Request]:
    addresses = [*_day(rng, rng.choice(HOMES), rng.choice(OFFICES))]
    return _with_agents(rng, addresses)


def border_commuter(rng: random.Random) -> list[Request]:
    """Lives in Annecy and works in Geneva."""
    return _with_agents(rng, [*_day(rng, ANNECY, GENEVA)])


def always_mobile(rng: random.Random) -> list[Request]:
    carrier = rng.choice(MOBILE)
    return _with_agents(rng, [address(rng, carrier), *_on_the_way(rng, carrier, 16 * 60)])


def _with_agents(rng: random.Random, addresses: list[str]) -> list[Request]:
    """The browser is updated once in a tenth of the days. In 3 of 1,000 the visitor asks for the desktop site once; one
    in five of them leaves the network before they go back."""
    update = rng.randrange(len(addresses)) if rng.random() < 0.1 else len(addresses)
    desktop = rng.randrange(len(addresses)) if rng.random() < 0.003 else len(addresses)
    leaves = desktop + 1 if rng.random() < 0.2 else len(addresses)
    requests = []
    for number, ip in enumerate(addresses):
        agent = CHROME if number < update else NEXT_CHROME
        pause = DAY / 1.5 / len(addresses) * rng.uniform(0.2, 1.5)
        requests.append((pause, ip, DESKTOP if number == leaves else agent))
        if number == desktop:
            requests.append((rng.uniform(5, 60), ip, DESKTOP))
            requests.append((rng.uniform(60, 600), ip, DESKTOP if number + 1 == leaves else agent))
    return requests


def traveller(rng: random.Random) -> list[Request]:
    home, away = address(rng, rng.choice(HOMES)), address(rng, TOKYO)
    return [(0, home, CHROME), (14 * 3600, away, CHROME), (3600, away, CHROME)]


def foreign_vpn(rng: random.Random) -> list[Request]:
    """Switches a VPN with its exit in another country on and off, all day."""
    home, exit_ = address(rng, HOMES[1], 2), address(rng, FRANKFURT)
    return [(900, ip, CHROME) for ip in [home, exit_] * 20]


def _stolen(rng: random.Random, network: Network, agent: str) -> list[Request]:
    own, theirs = office_worker(rng), address(rng, network)
    return [*own[:5], (rng.uniform(10, 3600), theirs, agent), *own[5:]]


def stolen_abroad(rng: random.Random) -> list[Request]:
    return _stolen(rng, TOKYO, CHROME)


def stolen_other_browser(rng: random.Random) -> list[Request]:
    return _stolen(rng, HOMES[3], FIREFOX)


def stolen_same_browser(rng: random.Random) -> list[Request]:
    return _stolen(rng, HOMES[3], CHROME)


COMMUTERS: Final[dict[Callable[[random.Random], list[Request]], float]] = {
    office_worker: 0.75, border_commuter: 0.05, always_mobile: 0.2
}  # fmt: skip
OTHERS: Final = (traveller, foreign_vpn, stolen_abroad, stolen_other_browser, stolen_same_browser)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks commuters", description=__doc__)
    parser.add_argument("--server", default="valkey", choices=("valkey", "redis"))
    parser.add_argument("--sessions", default=10_000, type=int)
    arguments = parser.parse_args(words)
    if arguments.server not in binaries():
        parser.error(f"{arguments.server} was not found")
    with TemporaryDirectory(prefix="bench-") as directory, Stage(arguments.server, 0, Path(directory)) as stage:
        stage.presence.internal.context.place_of = place_of
        report(stage.presence, arguments.sessions)
    return 0


def report(presence: Presence, sessions: int) -> None:
    rng, flagged, counted, requests = random.Random(SEED), Counter[str](), Counter[str](), Counter[str]()
    kinds = rng.choices([*COMMUTERS], [*COMMUTERS.values()], k=sessions)
    for number, kind in enumerate([*kinds, *(kind for kind in OTHERS for _ in range(200))]):
        day = kind(rng)
        moves = live(presence, f"user-{number}", day)
        counted[kind.__name__] += 1
        requests[kind.__name__] += len(day)
        flagged[kind.__name__] += moves > 0
    for name, count in counted.items():
        print(f"{name:22} {count:7,} sessions, {requests[name] / count:5.1f} requests each, {flagged[name]:6,} flagged")
    wrong = sum(flagged[kind.__name__] for kind in COMMUTERS)
    print(f"{'commuters':22} {sessions:7,} sessions: {1000 * wrong / sessions:.2f} flagged in 1,000")


def live(presence: Presence, uid: str, day: list[Request]) -> int:
    """One session and its requests; returns how often it moved."""
    context, now, token, moves = presence.internal.context, float(BEGIN), "", 0
    for pause, ip, agent in day:
        now += pause
        context.now = str(int(now * 1000))
        if token:
            moves += presence.validate(token, ip=ip, user_agent=agent).moved
        else:
            token = presence.login(uid, ip=ip, user_agent=agent, idle_timeout=2 * DAY, absolute_timeout=2 * DAY).token
    context.now = ""
    return moves
