"""The link of a notice: signed, for one session, for some days.

It has the user and a handle of the session, never the session id. Redis knows whether it was used. A link that is
forged, lapsed, or of another key is ``None`` here.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.web.your_devices.handles import derive_key, handle_of

__all__ = ["NoticeLink"]

DAYS: Final = 7
MAX_DAYS: Final = 30

_URL: Final = re.compile(r"https?://[!-~]+")
_TOKEN: Final = re.compile(r"([\w-]{1,684})\.([\w-]{22})\.([0-9a-f]{1,12})\.([0-9a-f]{1,12})\.([\w-]{43})", re.ASCII)


class NoticeTarget(NamedTuple):
    """What a link is about."""

    uid: str
    handle: str  #: of the session
    at: int  #: ms: of the login, or of what else the notice is about
    until: int  #: ms: when the link lapses


class LinkKeys:
    """Signs links and checks them. ``secret``: the key of "Your devices"."""

    def __init__(self, secret: bytes) -> None:
        self._mac_key = derive_key(secret, "notice")
        self.handle_key = derive_key(secret, "notice handle")

    def make(self, uid: str, session_id: str, at: int, until: int) -> str:
        """The token of a link. at, until: ms."""
        target = NoticeTarget(uid, handle_of(self.handle_key, uid, session_id), at, until)
        return f"{_signed(target)}.{self._mac(_signed(target))}"

    def read(self, token: str, now: float) -> NoticeTarget | None:
        """What a token is about; None if it is not ours, or has lapsed. now: Unix seconds."""
        match = _TOKEN.fullmatch(token)
        if match is None:
            return None
        signed, _, mac = token.rpartition(".")
        try:
            uid = urlsafe_b64decode(match[1] + "=" * (-len(match[1]) % 4)).decode("utf-8", "surrogateescape")
        except ValueError:
            return None
        until = int(match[4], 16)
        is_ours = hmac.compare_digest(self._mac(signed), mac) and now * 1000 < until
        return NoticeTarget(uid, match[2], int(match[3], 16), until) if is_ours else None

    def _mac(self, signed: str) -> str:
        return _base64(hmac.digest(self._mac_key, signed.encode(), "sha256"))


def _signed(target: NoticeTarget) -> str:
    uid = _base64(target.uid.encode("utf-8", "surrogateescape"))
    return f"{uid}.{target.handle}.{target.at:x}.{target.until:x}"


def _base64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeLink:
    """Where the links of notices lead, and how long they are valid."""

    url: str
    """Of the page, in the browser of a visitor: "https://shop.example/devices/notice", below the mount of "Your
    devices"."""
    key: str | bytes = field(repr=False)  #: that of ``DeviceOptions``; another key makes the links that are out invalid
    days: int = DAYS  #: 1…30

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not _URL.fullmatch(self.url) or "?" in self.url or "#" in self.url:
            raise InvalidArgument("url", "must be like https://shop.example/devices/notice, in ASCII, without ? and #")
        if not isinstance(self.key, str | bytes) or len(self.secret) < 16:
            raise InvalidArgument("key", "must be text or bytes of at least 16 bytes")
        check.whole("days", self.days, 1, MAX_DAYS)

    @property
    def secret(self) -> bytes:
        """The key as bytes."""
        return self.key.encode() if isinstance(self.key, str) else self.key

    @property
    def seconds(self) -> int:
        """How long a link is valid."""
        return self.days * 86_400

    def make(self, uid: str, session_id: str, at: datetime) -> str:
        """The address for this session. at: of the event. The same each time, so that a repeated webhook has the same
        link: it lapses ``days`` after the event."""
        happened = round(at.timestamp() * 1000)
        until = happened + self.seconds * 1000
        return f"{self.url}?t={LinkKeys(self.secret).make(uid, session_id, happened, until)}"
