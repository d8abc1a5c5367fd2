"""Places: what is read of an entry, how it is cut, and what becomes of a file that is wrong, replaced or broken."""

from __future__ import annotations

import logging
import os
import threading
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from presence_core import InvalidArgument, Place, Settings
from presence_core.files import place_files
from presence_core.files.place_files import open_places, open_time_zones, place_of
from presence_core.models.places import MAX_BYTES, cut, read_place
from tests.support.place_file import LYON, PARIS, TOKYO, city, write_place_file
from tests.support.servers import wait_for

IP = ip_address("192.0.2.7").packed


def _found(setting: str, address: str = "192.0.2.7") -> Place | None:
    return read_place(open_places(setting)(ip_address(address).packed))


@pytest.mark.parametrize(
    "place",
    [
        Place(country="FR", city="Lyon", network="Example", asn=64500, latitude=46, longitude=5),
        Place(country="FR"), Place(asn=1), Place(latitude=0, longitude=-180), Place(city="Île"), Place(network="N"),
    ],
)  # fmt: skip
def test_a_place_is_read_as_it_was_packed(place: Place) -> None:
    assert read_place(place.packed()) == place


def test_the_time_zone_of_an_address_is_what_the_first_file_with_one_says(tmp_path: Path) -> None:
    networks = {
        "192.0.2.0/24": LYON,
        "198.51.100.0/25": {"timezone": "America/Bogota"},  # a flat file
        "198.51.100.128/25": {"location": {"time_zone": 7}},
        "203.0.113.0/24": PARIS,
    }
    first = write_place_file(tmp_path / "first.mmdb", networks)
    second = write_place_file(tmp_path / "second.mmdb", {"203.0.113.0/24": TOKYO, "192.0.2.0/24": TOKYO})
    find = open_time_zones(f"{first}:{second}")
    for address, zone in (
        ("192.0.2.7", "Europe/Paris"), ("198.51.100.7", "America/Bogota"), ("203.0.113.7", "Asia/Tokyo"),
        ("198.51.100.200", None), ("2001:db8::9", None), ("10.0.0.1", None), ("no address", None),
    ):  # fmt: skip
        assert find(address) == zone
    assert open_time_zones(None)("192.0.2.7") is None


@pytest.mark.parametrize("letter", ["a", "é", "山", "🏔"])
@pytest.mark.parametrize("lengths", [(100, 100), (100, 3), (3, 100), (100, 0), (0, 100)])
def test_long_names_are_cut_between_characters(letter: str, lengths: tuple[int, int]) -> None:
    of_city, of_network = (letter * length or None for length in lengths)
    full: dict[str, Any] = {"country": "FR", "asn": 2**32 - 1, "latitude": -90, "longitude": -180}
    packed = Place(city=of_city, network=of_network, **full).packed()
    place = read_place(packed)
    assert place is not None
    assert MAX_BYTES - 9 - 4 < len(packed) <= MAX_BYTES, "no room is wasted, but for what a city leaves free"
    for shown, given in ((place.city, of_city), (place.network, of_network)):
        assert (shown is None) == (given is None)
        assert set(shown or letter) == {letter}
    assert {name: getattr(place, name) for name in full} == full


def test_the_last_place_of_a_distant_login_has_room_in_its_field() -> None:
    place = Place(country="FR", city="x" * 200, network="AB", asn=4294967295, latitude=-90, longitude=-180)
    country, asn, _network, at, city = place.packed().split(b"\n")
    assert len(b"\n".join((country, asn, b"", at, city))) <= MAX_BYTES - 9  # flags and a time: lua odd_login


def test_a_cut_leaves_no_space_at_the_end() -> None:
    assert [cut(b"Ab cd", most) for most in (5, 4, 3, 2, 0)] == [b"Ab cd", b"Ab c", b"Ab", b"Ab", b""]


@pytest.mark.parametrize(
    "packed", [None, b"", b"FR", b"FR\n1\n\n1,2", b"\n" * 5, b"\xff" * 64, b"FR\n" * 20, bytes(range(64))]
)
def test_what_is_no_place_is_read_as_none(packed: bytes | None) -> None:
    assert read_place(packed) is None


def test_parts_that_are_wrong_are_left_out() -> None:
    assert read_place("FR\n١\nNet\n1;2\nLyon".encode()) == Place(country="FR", network="Net", city="Lyon")
    assert read_place(b"\n12345678901\n\n1,\n") == Place()


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (LYON, Place(country="FR", city="Lyon", network="Example Telecom", asn=64500, latitude=46, longitude=5)),
        (
            {"country_code": "fr", "city": "Lyon", "lat": "45.7", "lng": 4.8, "asn": "AS64500", "as_name": "Net"},
            Place(country="FR", city="Lyon", network="Net", asn=64500, latitude=46, longitude=5),
        ),
        ({"traits": {"autonomous_system_number": 7, "autonomous_system_organization": "N"}}, Place(network="N", asn=7)),
        ({"country": "France", "city": 5, "location": [1, 2], "asn": "ASX"}, Place()),
        ({"country": {"iso_code": "F\n"}, "city": {"names": ["Lyon"]}}, Place()),
        ({"location": {"latitude": 91.0, "longitude": 4.0}}, Place()),
        ({"location": {"latitude": float("nan"), "longitude": 4.0}}, Place()),
        ({"location": {"latitude": 45.0}}, Place()),
        ({"latitude": True, "longitude": 4, "asn": True, "autonomous_system_number": -1}, Place()),
        ({"autonomous_system_number": 2**32}, Place()),
    ],
)  # fmt: skip
def test_an_entry_is_read_in_each_known_form_and_what_is_unknown_is_left_out(entry: Any, expected: Place) -> None:
    assert place_of([entry]) == expected


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Ly\non\t", "Ly on"), ("\u202eLyon\u2066", "Lyon"), ("\0\x1b[31mLyon", "[31mLyon"), (" \u2028\u200b ", None),
        ("<b>**Lyon**</b>", "<b>**Lyon**</b>"), ("L" * 5000, "L" * 256),
    ],
)  # fmt: skip
def test_a_label_has_no_control_characters(name: str, shown: str | None) -> None:
    assert place_of([city("FR", name, (1, 2), 5, name)]).city == shown
    assert place_of([city("FR", name, (1, 2), 5, name)]).network == shown


# -- files ------------------------------------------------------------------------------------------------------------


def test_two_files_complete_each_other_and_the_first_comes_first(tmp_path: Path) -> None:
    asn = {"autonomous_system_number": 64509, "autonomous_system_organization": "Other"}
    cities = write_place_file(tmp_path / "city.mmdb", {"192.0.2.0/24": {"country": {"iso_code": "FR"}}})
    networks = write_place_file(tmp_path / "asn.mmdb", {"192.0.2.0/24": asn | {"country": {"iso_code": "DE"}}})
    assert _found(f"{cities}:{networks}") == Place(country="FR", network="Other", asn=64509)


@pytest.mark.parametrize(
    ("address", "expected"),
    [("192.0.2.0", "Lyon"), ("192.0.2.255", "Lyon"), ("192.0.3.0", None), ("2001:db8::1", "Tokyo"), ("::1", None),
     ("127.0.0.1", None), ("10.1.2.3", None)],
)  # fmt: skip
def test_an_address_that_is_not_in_the_file_has_no_place(tmp_path: Path, address: str, expected: str | None) -> None:
    place = _found(str(write_place_file(tmp_path / "places.mmdb")), address)
    assert (place.city if place else None) == expected


def _no_database(path: Path) -> None:
    path.write_bytes(b"\0" * 5000)


def _cut_off(path: Path) -> None:
    whole = write_place_file(path).read_bytes()
    path.write_bytes(whole[:-20])


def _wrong_metadata(path: Path) -> None:
    whole = write_place_file(path).read_bytes()
    path.write_bytes(whole.replace(b"record_size", b"record_sizf"))


@pytest.mark.parametrize("make", [_no_database, _cut_off, _wrong_metadata, Path.mkdir, os.mkfifo, lambda path: None])
def test_a_file_that_cannot_be_used_is_named_in_one_sentence(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "places.mmdb"
    make(path)
    with pytest.raises(InvalidArgument) as caught:
        open_places(str(path))
    assert str(caught.value).startswith(f"place_file must name MaxMind DB files that can be read: {path} cannot (")
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_without_the_package_the_setting_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "maxminddb", None)
    with pytest.raises(InvalidArgument, match=r"place_file needs the extra geo \(in a checkout: pip install"):
        open_places(str(write_place_file(tmp_path / "places.mmdb")))


def test_a_setting_without_any_path_is_an_error() -> None:
    with pytest.raises(InvalidArgument, match="place_file must name a MaxMind DB file, or must not be set"):
        open_places(":")


@pytest.mark.parametrize("wrong", ["", " ", 5, b"x", "a\nb", "x" * 4097], ids=repr)
def test_the_setting_must_be_paths(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="place_file must be paths of MaxMind DB files"):
        Settings(place_file=wrong)


def test_the_setting_comes_from_the_environment() -> None:
    assert Settings.from_env({"PRESENCE_PLACE_FILE": "/a.mmdb:/b.mmdb"}).place_file == "/a.mmdb:/b.mmdb"


def _cities(find: place_files.Find) -> str | None:
    place = read_place(find(IP))
    return place.city if place else None


def test_a_file_that_is_replaced_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_files, "CHECK_INTERVAL", 0.0)
    path = write_place_file(tmp_path / "places.mmdb")
    find = open_places(str(path))
    assert _cities(find) == "Lyon"
    write_place_file(path, {"192.0.2.0/24": PARIS})
    wait_for("the new file", lambda: _cities(find) == "Paris")


def test_a_file_that_breaks_later_leaves_the_one_before_in_use_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = write_place_file(tmp_path / "places.mmdb")
    files = place_files._PlaceFile(str(path))
    broken = tmp_path / "broken"
    _no_database(broken)
    for number, step in enumerate(("replaced", "removed"), 1):
        broken.replace(path) if step == "replaced" else path.unlink()
        for _ in range(3):
            files.look_again()
        assert place_of([files.get(ip_address("192.0.2.7"))]).city == "Lyon"
        assert len(caplog.records) == number
        assert f"place file {path} cannot be read, the previous one stays in use" in caplog.text
    write_place_file(path, {"192.0.2.0/24": TOKYO})
    files.look_again()
    assert place_of([files.get(ip_address("192.0.2.7"))]).city == "Tokyo"
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]


def test_a_file_that_could_not_be_opened_is_tried_again_though_it_has_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_place_file(tmp_path / "places.mmdb")
    files = place_files._PlaceFile(str(path))
    write_place_file(path, {"192.0.2.0/24": TOKYO})
    with monkeypatch.context() as patch:
        patch.setattr(place_files, "_open", _refuse)  # as without the right to read: the tests may run as root
        files.look_again()
        files.look_again()
    assert len(caplog.records) == 1
    files.look_again()
    assert place_of([files.get(ip_address("192.0.2.7"))]).city == "Tokyo"


def _refuse(_path: str) -> Any:
    raise PermissionError(13, "Permission denied")


def test_a_look_at_the_file_that_no_thread_can_make_stops_no_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_files, "CHECK_INTERVAL", 0.0)
    find = open_places(str(write_place_file(tmp_path / "places.mmdb")))

    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    assert _cities(find) == "Lyon"


@pytest.mark.parametrize(
    "entry", [b"\xe1\x44name\xff\xff\xff", b"\x3f\xff\xff\xff", b"\x42\xff\xfe", b"\x43abc", b"\x20\x00", b"\xa1\x01"]
)
def test_an_entry_that_is_broken_gives_no_place_and_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, entry: bytes
) -> None:
    networks = {"192.0.2.0/24": entry + b"\0" * 3, "198.51.100.0/24": PARIS}
    find = open_places(str(write_place_file(tmp_path / "places.mmdb", networks)))
    for _ in range(3):
        assert find(IP) == b""
    place = read_place(find(ip_address("198.51.100.7").packed))
    assert place is not None
    assert place.city == "Paris"
    assert len(caplog.records) <= 1
