"""Look up the place of an address in the MaxMind DB files of ``Settings.place_file``.

A file is mapped into memory, so a look-up takes microseconds and reads no more than a few pages. Whether a file has
been replaced is looked up every few seconds, in a thread: opening a file must not hold up an event loop.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from presence_core.errors import InvalidArgument
from presence_core.logs import fields
from presence_core.models.places import Place

CHECK_INTERVAL: Final = 10.0
"""Seconds between two looks at whether a file has been replaced."""

MAX_FOUND: Final = 8192
"""Addresses whose place is known without a look-up, until the next look."""

log = logging.getLogger(__name__)

Find = Callable[[bytes], bytes]
"""The packed place of a packed address; empty where it is not known."""

_Version = tuple[int, int, int]


def open_places(setting: str | None) -> Find:
    """How places are found. ``setting``: paths with a colon between them, or None. Raises InvalidArgument if a file
    cannot be used."""
    return _open_files(setting).find


def open_time_zones(setting: str | None) -> Callable[[str], str | None]:
    """How the time zone of an address is found: its name, such as "Europe/Paris", as the first file says that has one;
    None where none does. It is stored nowhere. ``setting``, errors: as ``open_places``."""
    return _open_files(setting).time_zone


def _open_files(setting: str | None) -> _Places:
    if setting is None:
        return _Places([])
    try:
        import maxminddb  # noqa: F401
    except ImportError:
        raise InvalidArgument(
            "place_file",
            "needs the extra geo (in a checkout: pip install '.[geo]'), or must not be set",
            "not_installed",
        ) from None
    paths = [path for path in setting.split(os.pathsep) if path]
    if not paths:
        raise InvalidArgument("place_file", "must name a MaxMind DB file, or must not be set", "unusable_file")
    return _Places([_PlaceFile(path) for path in paths])


class _PlaceFile:
    """One file. It keeps the reader that it has if the file becomes unusable."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._version = _version_of(path)
            self._reader = _open(path)
        except Exception as error:  # a hostile file can make the reader raise anything
            rule = f"must name MaxMind DB files that can be read: {path} cannot ({_why(error)})"
            raise InvalidArgument("place_file", rule) from None
        self._is_sound = True
        self._seen: _Version | None = self._version  #: at the last look: an error is logged once for each version

    def get(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Mapping[str, Any]:
        """What the file says about an address; empty if nothing."""
        try:
            found = self._reader.get(address)
        except ValueError as error:
            if type(error) is not ValueError:  # a plain one: an IPv6 address, and the file has IPv4 alone
                self._warn(error)
            return {}
        except Exception as error:
            self._warn(error)
            return {}
        return found if isinstance(found, Mapping) else {}

    def look_again(self) -> None:
        """Open the file if it has been replaced. What cannot be opened is tried again at the next look."""
        version = None
        try:
            version = _version_of(self._path)
            if version != self._version:
                self._reader, self._is_sound, self._version = _open(self._path), True, version
                log.info("place file opened again: %s", self._path, extra=fields(event="place_file_opened"))
        except Exception as error:
            if version != self._seen:
                extra = fields(event="place_file_unusable")
                log.warning("place file %s cannot be read, the previous one stays in use: %s", self._path, _why(error),
                            extra=extra)  # fmt: skip
        self._seen = version

    def _warn(self, error: Exception) -> None:
        """Log once for each version of the file that it has broken entries."""
        if self._is_sound:
            self._is_sound = False
            extra = fields(event="place_file_broken")
            log.warning("place file %s has broken entries: logins of some addresses have no place: %s", self._path,
                        _why(error), extra=extra)  # fmt: skip


class _Places:
    """All files. The first that knows something says it."""

    def __init__(self, files: list[_PlaceFile]) -> None:
        self._files = files
        self._found: dict[bytes, bytes] = {}  #: by address: most visitors make many requests
        self._look_at = time.monotonic() + CHECK_INTERVAL

    def find(self, address: bytes) -> bytes:
        if not address or not self._files:
            return b""
        self._look()
        found = self._found.get(address)
        if found is None:
            found = place_of(self._entries(ipaddress.ip_address(address))).packed()
            if len(self._found) >= MAX_FOUND:
                self._found.clear()
            self._found[address] = found
        return found

    def time_zone(self, address: str) -> str | None:
        try:
            if not self._files:
                return None
            self._look()
            return _label(self._entries(ipaddress.ip_address(address)), _TIME_ZONE)
        except ValueError:
            return None

    def _entries(self, ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> list[Mapping[str, Any]]:
        return [file.get(ip) for file in self._files]

    def _look(self) -> None:
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + CHECK_INTERVAL
            with suppress(RuntimeError):  # no thread can be started: the login goes on with the files as they are
                threading.Thread(target=self._look_again, name="presence-place-file", daemon=True).start()

    def _look_again(self) -> None:
        for file in self._files:
            file.look_again()
        self._found.clear()


def _open(path: str) -> Any:
    import maxminddb

    return maxminddb.open_database(path)


def _version_of(path: str) -> _Version:
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):  # opening a named pipe would wait for its other end
        raise OSError(0, "it is no regular file")
    return found.st_mtime_ns, found.st_ino, found.st_size


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "it is no MaxMind DB file" if type(error).__name__ == "InvalidDatabaseError" else type(error).__name__


# -- what a file says -------------------------------------------------------------------------------------------------

# Paths of MaxMind's files (GeoLite2, GeoIP2; DB-IP has the same), then of flat files such as IPinfo's.
_COUNTRY: Final = ("country.iso_code", "country_code", "country")
_CITY: Final = ("city.names.en", "city")
_NETWORK: Final = ("autonomous_system_organization", "traits.autonomous_system_organization", "as_name")
_ASN: Final = ("autonomous_system_number", "traits.autonomous_system_number", "asn")
_LATITUDE: Final = ("location.latitude", "latitude", "lat")
_LONGITUDE: Final = ("location.longitude", "longitude", "lng")
_TIME_ZONE: Final = ("location.time_zone", "time_zone", "timezone")


def place_of(entries: list[Mapping[str, Any]]) -> Place:
    """The place that these entries of files describe. What is not as expected is left out."""
    latitude, longitude = _degrees(entries, _LATITUDE, 90), _degrees(entries, _LONGITUDE, 180)
    if latitude is None or longitude is None:
        latitude = longitude = None
    country = _label(entries, _COUNTRY)
    return Place(
        country=country.upper() if country and len(country) == 2 and country.isascii() and country.isalpha() else None,
        city=_label(entries, _CITY),
        network=_label(entries, _NETWORK),
        asn=_number(entries, _ASN),
        latitude=latitude,
        longitude=longitude,
    )


def _values(entries: list[Mapping[str, Any]], paths: tuple[str, ...]) -> list[Any]:
    found = []
    for entry in entries:
        for path in paths:
            value: Any = entry
            for name in path.split("."):
                value = value.get(name) if isinstance(value, Mapping) else None
            found.append(value)
    return found


def _label(entries: list[Mapping[str, Any]], paths: tuple[str, ...]) -> str | None:
    """A text without control characters, also those that turn the direction of writing."""
    for value in _values(entries, paths):
        if isinstance(value, str):
            known = "".join(char if char.isprintable() else " " for char in value[:256])
            if label := " ".join(known.split()):
                return label
    return None


def _number(entries: list[Mapping[str, Any]], paths: tuple[str, ...]) -> int | None:
    for value in _values(entries, paths):
        digits = value.upper().removeprefix("AS") if isinstance(value, str) else value
        if isinstance(digits, str) and digits.isascii() and digits.isdecimal() and len(digits) <= 10:
            digits = int(digits)
        if isinstance(digits, int) and not isinstance(digits, bool) and 0 < digits < 1 << 32:
            return digits
    return None


def _degrees(entries: list[Mapping[str, Any]], paths: tuple[str, ...], most: int) -> int | None:
    for value in _values(entries, paths):
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                continue
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return round(value) if abs(value) <= most else None
    return None
