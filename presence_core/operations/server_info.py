"""What a server says about itself: the reply of INFO, its version, and whether that version is supported."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

MIN_VERSIONS: Final = {"Valkey": (7, 2), "Redis": (7, 0)}


class Version(NamedTuple):
    kind: str  #: "Redis" or "Valkey"
    number: str  #: as the server says it: "9.1.2"

    @property
    def is_too_old(self) -> bool:
        """Below what the library needs. False for a number that cannot be read."""
        try:
            return tuple(int(part) for part in self.number.split(".")[:2]) < MIN_VERSIONS[self.kind]
        except ValueError:
            return False


class ServerInfo:
    """The fields of INFO. None for a field that the server does not report, or where it does not permit INFO."""

    def __init__(self, reply: Any) -> None:
        lines = reply.decode("utf-8", "replace").splitlines() if isinstance(reply, bytes) else ()
        self.fields: dict[str, str] = dict(line.split(":", 1) for line in lines if ":" in line)

    def text(self, name: str) -> str | None:
        return self.fields.get(name)

    def number(self, name: str) -> int | None:
        value = self.fields.get(name, "")
        return int(value) if value.isdecimal() else None

    def flag(self, name: str, yes: str) -> bool | None:
        """Whether the field has the value ``yes``."""
        value = self.fields.get(name)
        return None if value is None else value == yes

    @property
    def version(self) -> Version | None:
        for kind, name in (("Valkey", "valkey_version"), ("Redis", "redis_version")):  # Valkey reports both
            if name in self.fields:
                return Version(kind, self.fields[name])
        return None
