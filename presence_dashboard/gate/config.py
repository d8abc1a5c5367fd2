"""How staff get in, as the environment says it. What makes no sense is one sentence, before anything listens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, Literal, cast, get_args

from presence_core import InvalidArgument, Settings
from presence_core.passwords import VARIABLE as STAFF_FILE
from presence_core.web.proxies import Proxies, parse_address
from presence_dashboard.roles import ROLES, Actor, Role

Mode = Literal["open", "password", "proxy", "oidc"]

MODE: Final = "PRESENCE_DASHBOARD_ACCESS"

_KEPT: Final = frozenset({"namespace", "shards", "timeout"})
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Read once, when the dashboard begins."""

    mode: Mode = "open"
    open_role: Role = "admin"  #: what the local operator may
    bulk: int = 100  #: sessions that one bulk kick of support may end
    masked: frozenset[str] = frozenset()  #: what viewers do not see: of "name", "ip"
    idle: int = 1_800  #: seconds without an act, after which staff sign in again
    absolute: int = 43_200  #: seconds after which they do so anyway
    networks: tuple[IPv4Network | IPv6Network, ...] = ()  #: in which our own proxies live
    header: str = ""  #: in which they say who somebody is
    role_header: str = ""  #: and in which groups
    roles: tuple[tuple[str, Role], ...] = ()  #: group → role
    default_role: Role | None = None  #: of who is in none of them; None: they do not get in
    name_claim: str = ""  #: of OIDC; "": the verified email, else sub
    role_claim: str = ""
    admins: frozenset[str] = frozenset()  #: by name, without capitals

    def actor(self, name: str, role: Role) -> Actor:
        """Somebody with a role, as these settings treat them."""
        limit = {"admin": None, "support": self.bulk}.get(role, 0)
        return Actor(name, role, self.masked if role == "viewer" else frozenset(), limit)

    def trusts(self, peer: str | None) -> bool:
        """Whether this peer is a proxy of ours."""
        address = parse_address(peer) if peer else None
        return address is not None and any(address in network for network in self.networks)

    def client(self, peer: str | None, forwarded: str) -> str | None:
        """Where somebody really comes from: the peer, or what proxies of ours say of it."""
        return Proxies(str(network) for network in self.networks).client(peer, forwarded)

    def seed(self, name: str, groups: list[str]) -> Role | None:
        """The first role of somebody: the most that any of their groups gives."""
        if name in self.admins:
            return "admin"
        known = [role for group, role in self.roles if group in groups]
        return max(known, key=ROLES.index) if known else self.default_role

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Config:
        """Raises InvalidArgument with the variable and what it must be."""

        def said(name: str) -> str:
            return environ.get(name, "").strip()

        mode = said(MODE) or "open"
        if mode not in get_args(Mode):
            raise InvalidArgument(MODE, f"must be one of {', '.join(get_args(Mode))}")
        made = cls(
            mode=cast(Mode, mode),
            open_role=_role("PRESENCE_DASHBOARD_ROLE", said("PRESENCE_DASHBOARD_ROLE")) or "admin",
            bulk=_number("PRESENCE_DASHBOARD_BULK", said("PRESENCE_DASHBOARD_BULK"), 100, 1_000_000),
            masked=_masked(said("PRESENCE_DASHBOARD_MASK")),
            idle=_number("PRESENCE_STAFF_IDLE", said("PRESENCE_STAFF_IDLE"), 1_800, 30 * _DAY),
            absolute=_number("PRESENCE_STAFF_ABSOLUTE", said("PRESENCE_STAFF_ABSOLUTE"), 43_200, 30 * _DAY),
            networks=_networks("PRESENCE_TRUSTED_PROXIES", said("PRESENCE_TRUSTED_PROXIES")),
            header=said("PRESENCE_PROXY_HEADER"),
            role_header=said("PRESENCE_PROXY_ROLE_HEADER"),
            roles=_role_map("PRESENCE_ROLE_MAP", said("PRESENCE_ROLE_MAP")),
            default_role=_role("PRESENCE_DEFAULT_ROLE", said("PRESENCE_DEFAULT_ROLE")),
            name_claim=said("PRESENCE_OIDC_NAME_CLAIM"),
            role_claim=said("PRESENCE_OIDC_ROLE_CLAIM"),
            admins=frozenset(_words(said("PRESENCE_OIDC_ADMINS").lower())),
        )
        made._check(said(STAFF_FILE))
        if made.mode != "open":
            staff_environ(environ, made)
        return made

    def _check(self, staff_file: str) -> None:
        if self.idle > self.absolute:
            raise InvalidArgument("PRESENCE_STAFF_IDLE", "must be at most PRESENCE_STAFF_ABSOLUTE")
        if self.mode == "password" and not staff_file:
            raise InvalidArgument(STAFF_FILE, "must name the password file: presence staff add writes it")
        if self.mode == "proxy":
            if not self.header:
                raise InvalidArgument("PRESENCE_PROXY_HEADER", "must name the header that says who somebody is")
            if not self.networks:
                raise InvalidArgument("PRESENCE_TRUSTED_PROXIES", "must name the proxies' addresses, such as 10.0.0.5")


def staff_environ(environ: Mapping[str, str], config: Config) -> dict[str, str]:
    """The environment of the Presence that keeps the sign-ins of staff: the same Redis, a namespace of its own, and
    none of the limits that the site has for its visitors."""
    namespace = f"{environ.get('PRESENCE_NAMESPACE', '').strip() or Settings().namespace}-staff"
    if len(namespace) > 32:
        raise InvalidArgument(
            "PRESENCE_NAMESPACE", "must be at most 26 characters: sign-ins of staff are kept beside it"
        )
    sites = {f"PRESENCE_{item.name.upper()}" for item in fields(Settings) if item.name not in _KEPT}
    # An ended sign-in must be known for longer than its cookie could be shown again.
    keep = str(config.absolute + _DAY)
    return {name: value for name, value in environ.items() if name not in sites} | {
        "PRESENCE_NAMESPACE": namespace,
        "PRESENCE_IDLE_TIMEOUT": str(config.idle),
        "PRESENCE_ABSOLUTE_TIMEOUT": str(config.absolute),
        "PRESENCE_KEEP_LOGOUT": keep,
        "PRESENCE_KEEP_EXPIRED": keep,
        "PRESENCE_KEEP_REPLACED": keep,
    }


def _words(value: str) -> list[str]:
    return [word for part in value.split(",") if (word := part.strip())]


def _number(name: str, value: str, default: int, most: int) -> int:
    if not value:
        return default
    if not (value.isascii() and value.isdecimal() and 1 <= int(value[:12]) <= most):
        raise InvalidArgument(name, f"must be a whole number from 1 to {most}")
    return int(value)


def _role(name: str, value: str) -> Role | None:
    if value and value not in ROLES:
        raise InvalidArgument(name, f"must be one of {', '.join(ROLES)}")
    return value or None


def _masked(value: str) -> frozenset[str]:
    words = frozenset(_words(value))
    if not words <= {"name", "ip"}:
        raise InvalidArgument("PRESENCE_DASHBOARD_MASK", "must be name, ip or both, with a comma between them")
    return words


def _networks(name: str, value: str) -> tuple[IPv4Network | IPv6Network, ...]:
    try:
        return tuple(ip_network(word) for word in _words(value))
    except ValueError:
        raise InvalidArgument(
            name, "must be addresses or networks such as 10.0.0.0/8, with commas between them"
        ) from None


def _role_map(name: str, value: str) -> tuple[tuple[str, Role], ...]:
    pairs = []
    for word in _words(value):
        group, equals, role = word.rpartition("=")
        if not equals or not group.strip() or role.strip() not in ROLES:
            raise InvalidArgument(name, f"must be like ops=admin,desk=support; roles are {', '.join(ROLES)}")
        pairs.append((group.strip(), cast(Role, role.strip())))
    return tuple(pairs)
