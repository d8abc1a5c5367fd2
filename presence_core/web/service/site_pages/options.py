"""The settings of the addresses that a site's pages call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from presence_core.errors import InvalidArgument
from presence_core.trackers import AsyncLastSeenTracker, AsyncMinuteSetTracker
from presence_core.web.cookies import check_cookie
from presence_core.web.proxies import Proxies

NO_PROXIES: Final = Proxies()

_ORIGIN: Final = re.compile(r"(http://(?!.*:80$)|https://(?!.*:443$))([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?")
"""An origin as browsers send it. Another form of it would never match."""


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
    proxies: Proxies = NO_PROXIES  #: the site's proxies, and the header in which they report addresses

    def __post_init__(self) -> None:
        check_pages(self.origins, self.friends_key, self.cookie)


def check_pages(origins: Sequence[str], friends_key: str, cookie: str) -> None:
    """Raise InvalidArgument if these options of ``Pages`` are wrong."""
    if not all(_ORIGIN.fullmatch(origin) for origin in origins):
        rule = "must be like https://shop.example: in lower case, without a path and without the default port"
        raise InvalidArgument("origins", rule)
    if friends_key and "{uid}" not in friends_key:
        raise InvalidArgument("friends_key", "must hold {uid}")
    try:
        check_cookie(cookie)
    except InvalidArgument as error:
        raise InvalidArgument("cookie", error.rule, error.code) from None
