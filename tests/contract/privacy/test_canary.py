"""Secrets that we know go through everything there is, and are then looked for wherever anything is kept or said."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64decode
from pathlib import Path

import pytest

from tests.canary import MARK, PLANTED, WAITS, House, everything, forms
from tests.servers import Server, missing, redis_binary, valkey_binary

KNOWN = {
    "metrics": b"presence_up 1",
    "log of the service": WAITS,
    "log of the dashboard": b"Nobody can be let in",
    "log of the other dashboard": b"view your Streamlit app",
    "log of Redis": b"eady to accept connections",
}
"""Places that hold nothing of anybody: what stands in them instead."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    directory = tmp_path_factory.mktemp("canary")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    kept = ("--appendonly", "yes", "--appendfsync", "always", "--rdbcompression", "no")
    with Server.start(binary, directory / "redis", *kept, port=True) as server:
        return everything(server, directory)


def test_no_secret_is_kept_or_said_anywhere(house: House) -> None:
    assert len(house.secrets) >= 12
    assert house.found() == set()


def test_a_canary_is_found_in_every_place_that_is_searched(house: House) -> None:
    assert set(house.places) >= {
        "RDB file", "append-only file", "MONITOR", "keys and values", "log of this process", "log of the service",
        "log of the dashboard", "log of the other dashboard", "log of Redis", "tracebacks", "reprs", "frames",
        "exports", "exports of the dashboard", "audit", "metrics", "command", "answers of the service", "middleware",
        "password file",
    }  # fmt: skip
    for place, said in house.places.items():
        assert KNOWN.get(place, MARK.encode()) in said, place
    planted = House(house.server, "", Path(), house.presence, {"planted": PLANTED}, house.places)
    assert {place for _, place in planted.found()} == {"RDB file", "append-only file", "MONITOR", "keys and values"}


def test_a_secret_is_found_in_whatever_shape(house: House) -> None:
    token = house.secrets["token"]
    bits = urlsafe_b64decode(token[-43:] + "=")
    for shape in (token.encode(), token[-43:].encode(), bits, bits[:16], bits.hex().encode(), b64encode(bits)):
        holds = House(house.server, "", Path(), house.presence, {"token": token}, {"here": b"<" + shape + b">"})
        assert holds.found() == {("token", "here")}
    assert len(forms(token)) > 10
