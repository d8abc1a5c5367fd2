"""User agents, parsed into families of operating system and browser by ua-parser.

It is imported at the first login: most programs never parse a user agent.
"""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def families(user_agent: str) -> tuple[str, str]:
    """(os, browser), such as ("Android", "Chrome Mobile"); "" for what the parser does not know."""
    if not user_agent:
        return "", ""
    from ua_parser import parse_os, parse_user_agent

    os, browser = parse_os(user_agent), parse_user_agent(user_agent)
    return (os.family if os else ""), (browser.family if browser else "")


@lru_cache(maxsize=4096)
def is_crawler(user_agent: str) -> bool:
    """Whether it names a known crawler or monitor, such as Googlebot. Any client can write any user agent."""
    from ua_parser import parse_device

    device = parse_device(user_agent)
    return device is not None and device.family == "Spider"
