"""What a site calls: sessions begin, are checked and seen, and end at their user's wish."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from presence_core.client.base import AsyncClient, Client
from presence_core.errors import LoginRefused
from presence_core.models import Login, Validation
from presence_core.operations import access, ending, login


class Site(Client):
    """Part of Presence."""

    def login(
        self,
        uid: str,
        *,
        name: str | None = None,
        aliases: Iterable[str] = (),
        device: str | None = None,
        app: str | None = None,
        app_version: str | None = None,
        ip: str | None = None,
        user_agent: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        idle_timeout: int | None = None,
        absolute_timeout: int | None = None,
    ) -> Login:
        """Begin a session.

        uid: 1-256 bytes. name: up to 256 bytes; aliases: up to eight more ways to find the person (email, phone).
        device, app, app_version: up to 64 bytes each. user_agent is cut at 512 characters. attributes: up to 4 KB of
        JSON. session_id: an id of the site's own, 8-128 URL-safe characters, never a secret; by default 22 random ones.
        idle_timeout, absolute_timeout: whole seconds, by default those of the settings.

        Given again for a live session of the same user it refreshes the record and the secret and keeps login time,
        timeouts and limits: a call whose reply was lost may be repeated with the same session_id.

        Limits are exact under any race. Raises LoginRefused: a limit with ``on_limit="reject"``, or an id that has
        ended. Cost: O(log N), one round trip, two when a limit ended others.
        """
        given = {
            "uid": uid, "name": name, "aliases": aliases, "device": device, "app": app, "app_version": app_version,
            "ip": ip, "user_agent": user_agent, "attributes": attributes, "session_id": session_id,
            "idle_timeout": idle_timeout, "absolute_timeout": absolute_timeout,
        }  # fmt: skip
        return self._run(login.login(self._ctx, given))

    def login_many(self, rows: Iterable[Mapping[str, Any]], *, imported: bool = False) -> list[Login | LoginRefused]:
        """Begin many sessions: ``rows`` are dicts of login's arguments. For imports and load.

        All rows are checked before any is sent. Answers in the same order; a refused row's place holds its
        LoginRefused. With ``imported=True`` a row may carry ``login_at`` and ``last_seen`` in the past (aware datetimes
        or Unix seconds), so that people who are signed in already arrive as they are. Cost: one round trip per 500.
        """
        return self._run(login.login_many(self._ctx, rows, imported))

    def validate(self, token: str, *, touch: bool = True, ip: str | None = None) -> Validation:
        """May this request pass? Truthy when the token's session is live; ``.ended`` tells its holder why not.

        ``touch`` also notes that the session was seen, and from which ``ip``. Unknown and malformed tokens are answered
        alike, at like cost. Never raises OutcomeUnknown. Cost: O(log N), one round trip; one more to say why it ended.

        An answer that the session has expired is final while a worker runs and finds Redis's clock in order: the end is
        written before this returns (one more round trip, once). Otherwise nothing is written: where the clock then goes
        back, the session is live again. So it is for heartbeats, rotate and a login that is refused.
        """
        return self._run(access.validate(self._ctx, token, touch, ip))

    def validate_session(self, uid: str, session_id: str, *, touch: bool = True, ip: str | None = None) -> Validation:
        """The same for sites with session ids of their own, which have checked the visitor's secret themselves. See
        ``validate``."""
        return self._run(access.validate_session(self._ctx, uid, session_id, touch, ip))

    def rotate(self, token: str) -> Login:
        """A new secret for the same session; the old token opens nothing from here on. Login time and record stay.

        Raises LoginRefused when the token opens no live session. The one change that cannot be told twice: after an
        OutcomeUnknown the old token may be void already; let the visitor sign in again. Cost: O(1), one round trip.
        """
        return self._run(access.rotate(self._ctx, token))

    def heartbeat(self, uid: str, session_id: str) -> bool:
        """This session was seen. False: it is no longer online. Cost: O(log N), one round trip."""
        return self._run(access.heartbeat(self._ctx, uid, session_id))

    def heartbeats(self, refs: Iterable[str]) -> list[str]:
        """These sessions (``uid:session_id``) were seen; answers those that are not live.

        Cost: O(log N) each, one round trip for all. HeartbeatBuffer collects them for you.
        """
        return self._run(access.heartbeats(self._ctx, refs))

    def logout(self, uid: str, session_id: str) -> bool:
        """End a session at its user's wish. False: it was not live. Cost: O(log N), one round trip."""
        return self._run(ending.logout(self._ctx, uid, session_id))


class AsyncSite(AsyncClient):
    """Part of AsyncPresence."""

    async def login(
        self,
        uid: str,
        *,
        name: str | None = None,
        aliases: Iterable[str] = (),
        device: str | None = None,
        app: str | None = None,
        app_version: str | None = None,
        ip: str | None = None,
        user_agent: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        idle_timeout: int | None = None,
        absolute_timeout: int | None = None,
    ) -> Login:
        """See Presence.login."""
        given = {
            "uid": uid, "name": name, "aliases": aliases, "device": device, "app": app, "app_version": app_version,
            "ip": ip, "user_agent": user_agent, "attributes": attributes, "session_id": session_id,
            "idle_timeout": idle_timeout, "absolute_timeout": absolute_timeout,
        }  # fmt: skip
        return await self._run(login.login(self._ctx, given))

    async def login_many(
        self, rows: Iterable[Mapping[str, Any]], *, imported: bool = False
    ) -> list[Login | LoginRefused]:
        """See Presence.login_many."""
        return await self._run(login.login_many(self._ctx, rows, imported))

    async def validate(self, token: str, *, touch: bool = True, ip: str | None = None) -> Validation:
        """See Presence.validate."""
        return await self._run(access.validate(self._ctx, token, touch, ip))

    async def validate_session(
        self, uid: str, session_id: str, *, touch: bool = True, ip: str | None = None
    ) -> Validation:
        """See Presence.validate_session."""
        return await self._run(access.validate_session(self._ctx, uid, session_id, touch, ip))

    async def rotate(self, token: str) -> Login:
        """See Presence.rotate."""
        return await self._run(access.rotate(self._ctx, token))

    async def heartbeat(self, uid: str, session_id: str) -> bool:
        """See Presence.heartbeat."""
        return await self._run(access.heartbeat(self._ctx, uid, session_id))

    async def heartbeats(self, refs: Iterable[str]) -> list[str]:
        """See Presence.heartbeats."""
        return await self._run(access.heartbeats(self._ctx, refs))

    async def logout(self, uid: str, session_id: str) -> bool:
        """See Presence.logout."""
        return await self._run(ending.logout(self._ctx, uid, session_id))
