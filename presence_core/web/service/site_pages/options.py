"""The settings of the addresses that a site's pages call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from presence_core.errors import InvalidArgument
from presence_core.trackers import AsyncLastSeenTracker, AsyncMinuteSetTracker
from presence_core.web.proxies import Proxies

NO_PROXIES: Final = Proxies()


@dataclass(frozen=True, kw_only=True)
class Pages:
    """What is served to pages, and to which."""

    counter: AsyncLastSeenTracker
    visits: AsyncMinuteSetTracker
    origins: Sequence[str] = ()  #: "https://shop.example"; pages of the service's own host are always allowed
    friends_key: str = ""  #: a SET or ZSET for each user, such as "friends:{uid}"; "": no /online/friends
    cookie: str = "presence"  #: the site's cookie that holds a session token
    public: bool = False  #: /online lists members for all callers; otherwise only for signed-in users
    per_second: float = 5.0  #: requests of one address (IPv6: of one /64) on average
    burst: int = 30  #: and at once
    proxies: Proxies = NO_PROXIES  #: proxies whose X-Forwarded-For is trusted

    def __post_init__(self) -> None:
        for origin in self.origins:
            parts = urlsplit(origin)
            is_http = parts.scheme in ("http", "https") and parts.netloc
            if not is_http or origin != f"{parts.scheme}://{parts.netloc}":
                raise InvalidArgument("origins", "must be like https://shop.example, without a path")
        if self.friends_key and "{uid}" not in self.friends_key:
            raise InvalidArgument("friends_key", "must hold {uid}")
