"""Known secrets are used in every part of the product, and then searched in every place that stores or prints data."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64decode
from pathlib import Path

import pytest

from tests.support.programs.canary import MARK, PLANTED, WAITS, CanarySite, everything, forms
from tests.support.servers import KEEPS_ALL, Server, missing, redis_binary, valkey_binary

pytestmark = pytest.mark.xdist_group("canary")

KNOWN = {
    "metrics": b"presence_up 1",
    "log of the service": WAITS,
    "log of the dashboard": b"A sign-in cannot be checked",
    "log of the other dashboard": b"view your Streamlit app",
    "log of Redis": b"eady to accept connections",
}
"""Places without any data of users, and the text that shows that they were searched."""


@pytest.fixture(scope="module")
def canary_site(tmp_path_factory: pytest.TempPathFactory) -> CanarySite:
    directory = tmp_path_factory.mktemp("canary")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    kept = (*KEEPS_ALL, "--rdbcompression", "no")
    with Server.start(binary, directory / "redis", *kept, port=True) as server:
        return everything(server, directory)


def test_no_secret_is_stored_or_printed_anywhere(canary_site: CanarySite) -> None:
    assert len(canary_site.secrets) >= 12
    assert canary_site.found() == set()


def test_a_canary_is_found_in_every_searched_place(canary_site: CanarySite) -> None:
    assert set(canary_site.places) >= {
        "RDB file", "append-only file", "MONITOR", "keys and values", "log of this process", "log of the service",
        "log of the dashboard", "log of the other dashboard", "log of Redis", "tracebacks", "reprs", "frames",
        "exports", "exports of the dashboard", "audit", "metrics", "command", "answers of the service", "middleware",
        "password file",
    }  # fmt: skip
    for place, said in canary_site.places.items():
        assert KNOWN.get(place, MARK.encode()) in said, place
    planted = CanarySite(canary_site.server, "", Path(), canary_site.presence, {"planted": PLANTED}, canary_site.places)
    assert {place for _, place in planted.found()} == {"RDB file", "append-only file", "MONITOR", "keys and values"}


def test_a_secret_is_found_in_every_encoding(canary_site: CanarySite) -> None:
    token = canary_site.secrets["token"]
    bits = urlsafe_b64decode(token[-43:] + "=")
    for shape in (token.encode(), token[-43:].encode(), bits, bits[:16], bits.hex().encode(), b64encode(bits)):
        holds = CanarySite(
            canary_site.server, "", Path(), canary_site.presence, {"token": token}, {"here": b"<" + shape + b">"}
        )
        assert holds.found() == {("token", "here")}
    assert len(forms(token)) > 10
