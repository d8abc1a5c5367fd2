"""Settings of the gate, from the environment. A wrong setting ends the program with one sentence.

Imports no Streamlit, so that programs can check the settings before they start it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, Literal, TypeVar, cast, get_args

from presence_core import InvalidArgument, Settings
from presence_core.client.server_choice import FALLBACK, VARIABLE
from presence_core.files.password_file import VARIABLE as STAFF_FILE
from presence_core.files.password_file import PasswordFile
from presence_core.files.secret_files import read_secret, with_secret
from presence_core.logs import log_format
from presence_core.loopback import is_loopback
from presence_core.text.addresses import parse_address
from presence_core.text.languages import LANGUAGES
from presence_core.web.proxies import Proxies
from presence_dashboard import ticket_links
from presence_dashboard.roles import ROLES, Actor, Role
from presence_dashboard.staff_names import folded, of_sub

Mode = Literal["open", "password", "proxy", "oidc"]

MODE: Final = "PRESENCE_DASHBOARD_ACCESS"

FOUR_EYES: Final = "PRESENCE_DASHBOARD_FOUR_EYES"

FRESH: Final = "PRESENCE_STAFF_FRESH"

ADDRESS: Final = "STREAMLIT_SERVER_ADDRESS"

_SHARED: Final = frozenset({"namespace", "shards", "timeout"})
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings of the gate, read when the dashboard starts: each with its environment variable."""

    mode: Mode = "open"  #: PRESENCE_DASHBOARD_ACCESS: how staff sign in: open, password, proxy or oidc
    open_role: Role = "admin"  #: PRESENCE_DASHBOARD_ROLE: role of the local operator, in mode open
    bulk: int = 100  #: PRESENCE_DASHBOARD_BULK: most sessions of several people that support kick at once
    four_eyes: int | None = None
    """PRESENCE_DASHBOARD_FOUR_EYES: sessions above which a bulk kick needs a second person, as wide block rules then
    do; default: off"""
    lapse: int = 3_600  #: PRESENCE_DASHBOARD_LAPSE: seconds until a request for approval lapses, 60 to 604,800
    masked: frozenset[str] = frozenset()  #: PRESENCE_DASHBOARD_MASK: name, ip or both: what viewers do not see
    idle: int = 1_800  #: PRESENCE_STAFF_IDLE: seconds without activity until a sign-in ends
    absolute: int = 43_200  #: PRESENCE_STAFF_ABSOLUTE: seconds until a sign-in ends in any case
    fresh: int = 900
    """PRESENCE_STAFF_FRESH: seconds after which protected actions ask staff to authenticate again; 0: never"""
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    """PRESENCE_TRUSTED_PROXIES: addresses and networks of your proxies"""
    header: str = ""  #: PRESENCE_PROXY_HEADER: in mode proxy, the header with the staff name
    role_header: str = ""  #: PRESENCE_PROXY_ROLE_HEADER: in mode proxy, the header with the groups
    roles: tuple[tuple[str, Role], ...] = ()  #: PRESENCE_ROLE_MAP: group → role, such as ops=admin,team=support
    default_role: Role | None = None  #: PRESENCE_DEFAULT_ROLE: role of staff without a mapped group; default: refused
    name_claim: str = ""  #: PRESENCE_OIDC_NAME_CLAIM: claim with the staff name; default: the verified email, or sub
    role_claim: str = ""  #: PRESENCE_OIDC_ROLE_CLAIM: claim with the groups
    admins: frozenset[str] = frozenset()  #: PRESENCE_OIDC_ADMINS: names that begin as admin
    language: str = ""
    """PRESENCE_DASHBOARD_LANGUAGE: en, de, es, fr, ja or zh_Hans; default: that of each browser"""

    @property
    def max_age(self) -> int | None:
        """Seconds after which protected actions ask for a new authentication; None: they never do."""
        return self.fresh if self.fresh and self.mode in ("password", "oidc") else None

    def actor(self, name: str, role: Role) -> Actor:
        """The actor with this name and role, with the limits of these settings."""
        limit = {"admin": None, "support": self.bulk}.get(role, 0)
        masked = self.masked if role == "viewer" else frozenset()
        return Actor(name, role, masked, limit, self.four_eyes, can_ask=self.mode != "open")

    def trusts(self, peer: str | None) -> bool:
        """Whether this peer is a trusted proxy."""
        address = parse_address(peer) if peer else None
        return address is not None and any(address in network for network in self.networks)

    def client(self, peer: str | None, forwarded: str) -> str | None:
        """The client address: the peer, or the address that trusted proxies report."""
        return Proxies(str(network) for network in self.networks).client(peer, forwarded)

    def seed(self, name: str, groups: list[str]) -> Role | None:
        """The role for a first sign-in: the highest that a group gives, or the default."""
        if name in self.admins:
            return "admin"
        known = [role for group, role in self.roles if group in groups]
        return max(known, key=ROLES.index) if known else self.default_role

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Config:
        """Read the settings. Raises InvalidArgument with the variable and its rule."""

        def value_of(name: str) -> str:
            return environ.get(name, "").strip()

        mode = value_of(MODE) or "open"
        if mode not in get_args(Mode):
            raise InvalidArgument(MODE, f"must be one of {', '.join(get_args(Mode))}", "not_a_choice")
        config = cls(
            mode=cast(Mode, mode),
            open_role=_role("PRESENCE_DASHBOARD_ROLE", value_of("PRESENCE_DASHBOARD_ROLE")) or "admin",
            bulk=_number("PRESENCE_DASHBOARD_BULK", value_of("PRESENCE_DASHBOARD_BULK"), 100, 1_000_000),
            four_eyes=_number(FOUR_EYES, value_of(FOUR_EYES), None, 1_000_000, least=0),
            lapse=_number("PRESENCE_DASHBOARD_LAPSE", value_of("PRESENCE_DASHBOARD_LAPSE"), 3_600, 7 * _DAY, least=60),
            masked=_masked(value_of("PRESENCE_DASHBOARD_MASK")),
            idle=_number("PRESENCE_STAFF_IDLE", value_of("PRESENCE_STAFF_IDLE"), 1_800, 30 * _DAY),
            absolute=_number("PRESENCE_STAFF_ABSOLUTE", value_of("PRESENCE_STAFF_ABSOLUTE"), 43_200, 30 * _DAY),
            fresh=_number(FRESH, value_of(FRESH), 900, 30 * _DAY, least=0),
            networks=_networks("PRESENCE_TRUSTED_PROXIES", value_of("PRESENCE_TRUSTED_PROXIES")),
            header=value_of("PRESENCE_PROXY_HEADER"),
            role_header=value_of("PRESENCE_PROXY_ROLE_HEADER"),
            roles=_role_map("PRESENCE_ROLE_MAP", value_of("PRESENCE_ROLE_MAP")),
            default_role=_role("PRESENCE_DEFAULT_ROLE", value_of("PRESENCE_DEFAULT_ROLE")),
            name_claim=value_of("PRESENCE_OIDC_NAME_CLAIM"),
            role_claim=value_of("PRESENCE_OIDC_ROLE_CLAIM"),
            admins=_admins(value_of("PRESENCE_OIDC_ADMINS"), value_of("PRESENCE_OIDC_NAME_CLAIM")),
            language=_language("PRESENCE_DASHBOARD_LANGUAGE", value_of("PRESENCE_DASHBOARD_LANGUAGE")),
        )
        config._check(value_of(STAFF_FILE), asks_again=value_of(FRESH).strip("0") != "")
        ticket_links.check_template(value_of(ticket_links.VARIABLE))
        if config.mode != "open":
            staff_environ(environ, config)
        return config

    def _check(self, staff_file: str, *, asks_again: bool) -> None:
        if self.idle > self.absolute:
            raise InvalidArgument("PRESENCE_STAFF_IDLE", "must be at most PRESENCE_STAFF_ABSOLUTE")
        if self.mode == "open" and self.four_eyes is not None:
            raise InvalidArgument(
                FOUR_EYES, f"must be unset, or set {MODE}: without a sign-in there is no second person"
            )
        if self.mode == "password" and not staff_file:
            raise InvalidArgument(STAFF_FILE, "must name the password file: presence staff add writes it")
        if self.mode == "proxy":
            if asks_again:
                raise InvalidArgument(FRESH, "must be 0 or unset in mode proxy: let the proxy ask for a new sign-in")
            if not self.header:
                raise InvalidArgument("PRESENCE_PROXY_HEADER", "must name the header that has the staff name")
            if not self.networks:
                raise InvalidArgument(
                    "PRESENCE_TRUSTED_PROXIES", "must list the addresses of the proxies, such as 10.0.0.5"
                )


def check_settings(environ: Mapping[str, str]) -> Config:
    """The settings, if a dashboard can start with them. Raises InvalidArgument, also for an unusable password file."""
    log_format(environ)
    config = Config.from_env(environ)
    address = environ.get(ADDRESS, "").strip()
    if config.mode == "open" and address and not is_loopback(address):
        raise InvalidArgument(ADDRESS, f"must be 127.0.0.1, or set {MODE}: without a sign-in only this machine gets in")
    if config.mode == "password" and (passwords := PasswordFile.from_env(environ)):
        passwords.check_readable()
    return config


def staff_environ(environ: Mapping[str, str], config: Config) -> dict[str, str]:
    """The environment of the Presence for staff sign-ins: the same Redis, another namespace, not the site's limits."""
    namespace = f"{environ.get('PRESENCE_NAMESPACE', '').strip() or Settings().namespace}-staff"
    if len(namespace) > 32:
        raise InvalidArgument("PRESENCE_NAMESPACE", 'must be at most 26 characters: the dashboard adds "-staff"')
    site_settings = {f"PRESENCE_{item.name.upper()}" for item in fields(Settings) if item.name not in _SHARED}
    # An ended sign-in must be remembered for longer than its cookie is valid.
    keep = str(config.absolute + _DAY)
    url = read_secret(environ, VARIABLE).strip() or environ.get(FALLBACK, "")
    own = with_secret(environ, VARIABLE, url)
    return {name: value for name, value in own.items() if name not in site_settings} | {
        "PRESENCE_NAMESPACE": namespace,
        "PRESENCE_IDLE_TIMEOUT": str(config.idle),
        "PRESENCE_ABSOLUTE_TIMEOUT": str(config.absolute),
        "PRESENCE_KEEP_LOGOUT": keep,
        "PRESENCE_KEEP_EXPIRED": keep,
        "PRESENCE_KEEP_REPLACED": keep,
    }


def _words(value: str) -> list[str]:
    return [word for part in value.split(",") if (word := part.strip())]


def _admins(value: str, claim: str) -> frozenset[str]:
    """Staff names of these claims: emails, or each a ``sub`` where that is the claim of names or no email."""
    words = _words(value)
    named = ((of_sub if claim == "sub" or not (claim or "@" in word) else folded)(word) for word in words)
    return frozenset(name for name in named if name is not None)


_Default = TypeVar("_Default", int, None)


def _number(name: str, value: str, default: _Default, most: int, *, least: int = 1) -> int | _Default:
    if not value:
        return default
    if not (value.isascii() and value.isdecimal() and least <= int(value[:12]) <= most):
        raise InvalidArgument(name, f"must be a whole number from {least} to {most}", "out_of_range")
    return int(value)


def _role(name: str, value: str) -> Role | None:
    if value and value not in ROLES:
        raise InvalidArgument(name, f"must be one of {', '.join(ROLES)}", "not_a_choice")
    return value or None


def _language(name: str, value: str) -> str:
    if value and value not in LANGUAGES:
        raise InvalidArgument(name, f"must be one of {', '.join(LANGUAGES)}", "not_a_choice")
    return value


def _masked(value: str) -> frozenset[str]:
    words = frozenset(_words(value))
    if not words <= {"name", "ip"}:
        raise InvalidArgument("PRESENCE_DASHBOARD_MASK", "must be name, ip or both, separated by a comma")
    return words


def _networks(name: str, value: str) -> tuple[IPv4Network | IPv6Network, ...]:
    try:
        return tuple(ip_network(word) for word in _words(value))
    except ValueError:
        raise InvalidArgument(name, "must be addresses or networks such as 10.0.0.0/8, separated by commas") from None


def _role_map(name: str, value: str) -> tuple[tuple[str, Role], ...]:
    pairs = []
    for word in _words(value):
        group, equals, role = word.rpartition("=")
        if not equals or not group.strip() or role.strip() not in ROLES:
            raise InvalidArgument(name, f"must look like ops=admin,helpdesk=support; roles are {', '.join(ROLES)}")
        pairs.append((group.strip(), cast(Role, role.strip())))
    return tuple(pairs)
