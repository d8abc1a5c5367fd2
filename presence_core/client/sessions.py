"""Sessions of one user: they begin, are checked and seen, and end; and why they ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import EllipsisType
from typing import Any

from presence_core.client.base import AsyncClient, Client, awaited
from presence_core.errors import LoginRefused
from presence_core.models import (
    EndCause,
    Ended,
    EndReason,
    KickResult,
    Login,
    Page,
    Session,
    SignIn,
    SignInResult,
    Validation,
)
from presence_core.operations import sign_ins
from presence_core.operations.idp import provider_logout
from presence_core.operations.search import update
from presence_core.operations.sessions import authenticate, end, login, read, tombstones, validate


class SessionsMethods(Client):
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
        expires_at: datetime | float | None = None,
        max_sessions: int | None = None,
        methods: Iterable[str] = (),
        mfa: bool | None = None,
        device_id: str | None = None,
        on_behalf_by: str | None = None,
        reason: str | None = None,
        idp: Mapping[str, str] | None = None,
    ) -> Login:
        """Begin a session.

        uid: 1-256 bytes. name: up to 256 bytes. aliases: up to eight other ways to find the person, such as email and
        phone. device, app, app_version: up to 64 bytes each. user_agent: up to 512 characters. ip: also with a port.
        What does not fit of these is cut or left out, and logged (``Settings.unfit``). attributes: up to 4 KB of JSON,
        nested at most 32 levels deep. session_id: an id of the site's own, 8-128 URL-safe characters, never a
        secret; by default 22 random ones. idle_timeout, absolute_timeout: whole seconds; by default those of the
        settings. max_sessions: how many live sessions the user may have, with this one, 1…1000; by default
        ``Settings.max_sessions``. It holds for this login alone: pass it at every login of such an account.

        expires_at: aware datetime or Unix seconds: when the identity provider ends the session, as its claim
        ``session_expiry`` says. The session lives no longer (up to a second less), with any timeouts, and
        nothing moves that: neither use nor ``change_timeouts``. The cause of its end is "idp". idp: where the user has
        signed in, ``{"iss": issuer, "sub": subject, "sid": session}`` of the ID token, ``sub`` or ``sid`` or both, up
        to 255 bytes each. The provider can end the session by that: docs/use/identity_provider.md.

        methods: how the visitor has authenticated, at most eight names of 1-16 of a-z, 0-9, _ and -, 55 characters in
        all: those of RFC 8176 ("pwd", "otp", "hwk") or the site's own. mfa: with several factors; by default True for
        two methods or "mfa".

        device_id: a random id that stays on the device, 8-128 URL-safe characters; only a digest is stored. A limit per
        device counts by it: by ``device``, the label, only the sessions that have no device_id. If the user
        has logged in on other devices and not on this one, the session has ``new_device``, and the event "new_device"
        is sent once.

        With ``Settings.place_file`` the session has the ``place`` of ``ip``. If that is farther from the place of
        the user's previous login than a plane flies in the time between, it is ``distant``, and the event "distant" is
        sent once.

        on_behalf_by, reason: a member of staff (1-256 bytes) logs in on behalf of the user, and why (1-500 characters).
        The audit has it. The session ends after ``on_behalf_timeout`` at the latest, and its id begins with "behalf-".
        It is in all lists, does not make the user online, and limits neither count nor end it; a user has at most 100.

        A login with the id of a live session of the same user refreshes its record and its secret. Login time, timeouts
        and authentication stay, and no limit is applied. So a call whose reply was lost may be repeated with the same
        session_id.

        Limits hold exactly under concurrent logins. Raises LoginRefused: the user is blocked, a limit is reached and
        ``on_limit`` is "reject", or the id belongs to a session that has ended. Cost: O(log N), one round trip; up to
        three if it is refused or a limit ended other sessions.
        """
        given = {
            "uid": uid, "name": name, "aliases": aliases, "device": device, "app": app, "app_version": app_version,
            "ip": ip, "user_agent": user_agent, "attributes": attributes, "session_id": session_id,
            "idle_timeout": idle_timeout, "absolute_timeout": absolute_timeout, "max_sessions": max_sessions,
            "methods": methods, "mfa": mfa,
            "device_id": device_id, "on_behalf_by": on_behalf_by, "reason": reason,
            "expires_at": expires_at, "idp": idp,
        }  # fmt: skip
        return self._run(login.login(self._ctx, given))

    def login_many(self, rows: Iterable[Mapping[str, Any]], *, imported: bool = False) -> list[Login | LoginRefused]:
        """Begin many sessions, for imports and load tests. ``rows`` are dicts of the arguments of ``login``.

        All rows are checked before any is sent. Returns a list in the same order; for a refused row it holds the
        LoginRefused. With ``imported=True`` a row may have ``login_at`` and ``last_seen`` in the past (aware datetimes
        or Unix seconds), so that people who are signed in already keep their times. It makes their devices known and
        flags none as new. Rows of one user are in order.
        Raises OutcomeUnknown where some logins were made, and others failed.

        Cost: one round trip for 500 rows; up to two more if some are refused, repeat a live session, or end others.
        """
        return self._run(login.login_many(self._ctx, rows, imported))

    def validate(
        self, token: str, *, touch: bool = True, ip: str | None = None, max_age: int | None = None,
        user_agent: str | None = None,
    ) -> Validation:  # fmt: skip
        """Decide whether a request may pass: truthy if the token's session is live. ``.code`` says why it is not, and
        ``.ended`` how the session ended.

        touch: also record that the session was seen, and from which ``ip``. max_age: whole seconds; falsy with the code
        "authentication_too_old" if the visitor authenticated longer ago. Falsy with the code "sign_in_required" once
        staff require a new sign-in (``require_sign_in``), until ``reauthenticated``. The session of such a request is
        ``.refused``; it lives on, and the request does not count as seen. Unknown and malformed tokens give the same
        answer at the same cost. Never raises OutcomeUnknown. Once ``kick`` has returned, every later call is falsy
        (docs/run/failover.md names the exception). Cost: O(log N), one round trip; one more to read why the
        session ended.

        If ``ip`` is another than before, the session may have moved: docs/use/moves.md has the rule. ``.moved`` says so
        of this request. user_agent: the header of this request; its os and browser are compared, and it is not stored.

        With a worker, an expired session is ended for good, before this returns (one more round trip, once). Without
        one, or while the Redis clock is wrong, it can become valid again if that clock is set back. The same is true
        for heartbeats, rotate and a refused login.
        """
        return self._run(validate.validate(self._ctx, token, touch, ip, max_age, user_agent))

    def validate_session(
        self, uid: str, session_id: str, *, touch: bool = True, ip: str | None = None, max_age: int | None = None,
        user_agent: str | None = None,
    ) -> Validation:  # fmt: skip
        """``validate`` for sites with session ids of their own, which have checked the visitor's secret themselves."""
        return self._run(validate.validate_session(self._ctx, uid, session_id, touch, ip, max_age, user_agent))

    def rotate(self, token: str) -> Login:
        """Replace the secret of a session. The old token is no longer valid; login time and record stay.

        With ``Settings.rotate_grace`` it stays valid for so many seconds, and further calls with it succeed: each of
        the first 16 callers gets a token of its own, and all of these stay valid until the next rotate. So tabs of one
        browser may rotate at the same time. If a session is rotated three times in a grace, the oldest token is invalid
        at once. The first use of an old token after its grace is the event "old_token" and sets ``Session.old_token``.

        Raises LoginRefused if the token belongs to no live session, or if staff require a new sign-in. Without a grace
        this cannot be repeated: after an OutcomeUnknown the old token may be invalid, so let the visitor sign in again.
        Cost: O(1), one round trip.
        """
        return self._run(authenticate.rotate(self._ctx, token))

    def reauthenticated(
        self,
        token: str,
        *,
        methods: Iterable[str] = (),
        mfa: bool | None = None,
        began: datetime | float | None = None,
    ) -> Login:
        """Note that the visitor of a session has authenticated again, and replace its secret in the same step.

        Call it after the site has checked the password or another factor. The old token opens nothing any more;
        ``authenticated_at`` is now, with ``methods`` and ``mfa`` as in ``login``. Session id, login time, record and
        timeouts stay. A new sign-in that staff required is done, unless they required it after the visitor began to
        sign in: began, an aware datetime or Unix seconds, by default now. Pass the time at which the sign-in form was
        sent. Then the session stays refused, ``.session.sign_in_required_at`` is not None, and the visitor signs in
        once more.

        Raises LoginRefused if the token belongs to no live session. No former token is valid after it, also in its
        grace. This cannot be repeated: see ``rotate``. Cost: O(1), one round trip.
        """
        return self._run(authenticate.reauthenticated(self._ctx, token, methods, mfa, began))

    def reauthenticated_session(
        self,
        uid: str,
        session_id: str,
        *,
        methods: Iterable[str] = (),
        mfa: bool | None = None,
        began: datetime | float | None = None,
    ) -> Session:
        """``reauthenticated`` for sites with session ids of their own. The site replaces its own key or cookie."""
        return self._run(authenticate.reauthenticated_session(self._ctx, uid, session_id, methods, mfa, began))

    def require_sign_in(
        self,
        uid: str,
        session_id: str | None = None,
        *,
        by: str,
        reason: str,
        message: str | None = None,
        ticket: str | None = None,
        keep: Iterable[str] = (),
    ) -> SignInResult:
        """Require a new sign-in in one session of a user, or in all of them except ``keep``. Milder than a kick.

        Once this has returned, none of them validates until its own visitor has authenticated again
        (``reauthenticated``). They stay in the lists and keep their deadlines, but neither requests nor heartbeats
        extend them. Sessions that begin after this call are not affected. by, reason, message, ticket: as in ``kick``;
        the visitor reads ``message`` as ``validate(…).message``. ``confirmed`` and failovers: as in ``kick``. A second
        call requires it again. Sessions on behalf of the user and mirrored ones are left out and counted as
        ``skipped``; ``session_id`` of one of them raises InvalidArgument. Cost: O(S·log N), two round trips.
        """
        operation = authenticate.require_sign_in(
            self._ctx, uid, session_id, by=by, reason=reason, message=message, ticket=ticket, keep=keep
        )
        return self._run(operation)

    def update(self, token: str, *, attributes: Mapping[str, Any]) -> Validation:
        """Change attributes of the session of a token, without a new login. Truthy if it is live: ``.session`` has the
        attributes as they are now. Otherwise nothing is changed, and ``.ended`` says why it ended.

        attributes: names and new values; None removes a name. Attributes that are not named stay. Together they may
        have 4 KB of JSON, nested at most 32 levels deep, else this raises InvalidArgument. If two concurrent calls name
        different attributes, both are stored; of the same one the later value is. ``facets`` and searches follow at
        once. The session does not count as seen, and no event is sent. The call may be repeated. Cost: O(attributes),
        one round trip, as ``validate``.
        """
        return self._run(update.update(self._ctx, token, attributes))

    def update_session(
        self,
        uid: str,
        session_id: str,
        *,
        attributes: Mapping[str, Any] | EllipsisType = ...,
        name: str | EllipsisType | None = ...,
        aliases: Iterable[str] | EllipsisType | None = ...,
        device: str | EllipsisType | None = ...,
        app: str | EllipsisType | None = ...,
        app_version: str | EllipsisType | None = ...,
    ) -> Validation:
        """Change a live session by its id, without a new login: after a change of name or email, or an update of the
        app. What is not given stays (``...``); None removes a name, the aliases, a device, an app or its version.

        attributes: as in ``update``. The others: as in ``login``; text that does not fit is cut or left out, and what
        is no text is refused (InvalidArgument). Lists, ``facets`` and searches follow at once: the new name finds the
        session, the old one does not. ``people`` and searches go on finding a user by the names of their other
        sessions: ``update_person`` changes those too. Token, login time and place in lists stay. No limit is applied; a
        limit per device counts the session by its new device from the next login on. The session does not count as
        seen, and no event is sent. The call may be repeated.

        Cost: O(attributes), one round trip; one or two more for device, app or app_version; O(S) and five more if the
        name or the aliases change.
        """
        given = {"attributes": attributes, "name": name, "aliases": aliases, "device": device, "app": app,
                 "app_version": app_version}  # fmt: skip
        return self._run(update.update_session(self._ctx, uid, session_id, given))

    def update_person(
        self, uid: str, *, name: str | EllipsisType | None = ..., aliases: Iterable[str] | EllipsisType | None = ...
    ) -> int:
        """Change name and aliases of a user: of all live sessions, and of what is kept of a user who went offline.

        Call it when the user has changed their name, email or phone. Returns how many live sessions it changed. What is
        not given stays (``...``); None removes it. name, aliases: as in ``login``. ``people``, ``names_of``, lists and
        searches follow at once. Tokens, login times and places in lists stay, and no event is sent. Sessions that have
        ended keep the name that they had. A later login with another name has that name. A user who is neither online
        nor kept (``Settings.keep_people``) is not changed: 0. The call may be repeated. Of two calls at the same time
        one comes last for all sessions.

        Cost: O(S), two round trips; five more if anything changes.
        """
        return self._run(update.update_person(self._ctx, uid, {"name": name, "aliases": aliases}))

    def heartbeat(self, uid: str, session_id: str) -> bool:
        """Record that a session was seen. False: it is no longer live. Cost: O(log N), one round trip.

        True, without an effect, while staff require a new sign-in (``require_sign_in``): the session is still listed.
        """
        return self._run(validate.heartbeat(self._ctx, uid, session_id))

    def heartbeats(self, refs: Iterable[str]) -> list[str]:
        """Record that sessions (``uid:session_id``) were seen. Returns those that are not live.

        Cost: O(log N) for each, one round trip for all. HeartbeatBuffer collects them for you.
        """
        return self._run(validate.heartbeats(self._ctx, refs))

    def logout(self, uid: str, session_id: str) -> bool:
        """End a session on behalf of its user. False: it was not live. Cost: O(log N), one round trip."""
        return self._run(end.logout(self._ctx, uid, session_id))

    def logout_others(self, uid: str, session_id: str, other: str | None = None) -> list[Session]:
        """End a user's other sessions on behalf of the user: all but ``session_id``, or only ``other``.

        For a page on which users see their own devices. Returns the sessions that this call has ended, newest first.
        Their end has the reason "logout" and the cause "self". Once this has returned, none of them validates. The
        caller checks that the request comes from ``session_id`` and that its login is recent. Cost: as ``kick``.
        """
        return self._run(end.logout_others(self._ctx, uid, session_id, other))

    def get(self, uid: str, session_id: str) -> Session | None:
        """One live session, or None. Cost: O(1), one round trip."""
        return self._run(read.get(self._ctx, uid, session_id))

    def sessions(self, uid: str) -> list[Session]:
        """A user's live sessions, newest login first. Cost: O(S), one round trip."""
        return self._run(read.sessions(self._ctx, uid))

    def sign_ins(self, uid: str) -> list[SignIn]:
        """A user's latest logins, at most 50, the newest first, as long as ``Settings.keep_sign_ins`` keeps them: when,
        from which place and on which device. Logins on behalf of the user are not among them. Empty if this client's
        settings keep none. Cost: O(1), one round trip, or none.
        """
        return self._run(sign_ins.sign_ins(self._ctx, uid))

    def previous_login(self, uid: str, session_id: str) -> SignIn | None:
        """The user's last login before that of this live session, for a line such as "Your last sign-in: 3 May, Lyon".

        None: it is the first that is known, or the session is not live. With ``Settings.keep_sign_ins`` every login is
        known for so long. Without it, those of the user's live sessions and of the latest 100 ended ones, as long as
        their tombstones are kept: two days after a logout. Logins on behalf of the user do not count. Cost: O(S), one
        round trip; where the history does not know it, two to four more.
        """
        return self._run(sign_ins.previous_login(self._ctx, uid, session_id))

    def sessions_among(self, refs: Iterable[str]) -> dict[str, Session | Ended]:
        """The present state of at most 1,000 sessions, by ref (``uid:session_id``): a Session if live, else an Ended.
        A session whose record is no longer kept is missing.

        To see which rows of a list have ended since it was read, and why. A session past its deadline is an Ended with
        the reason "expired", also before a sweep has ended it. Writes nothing. Cost: O(refs), one round trip to all
        shards at once, and a second one for the texts of staff if some were kicked.
        """
        return self._run(tombstones.sessions_among(self._ctx, refs))

    def kick(
        self,
        uid: str,
        session_id: str | None = None,
        *,
        by: str,
        reason: str,
        message: str | None = None,
        ticket: str | None = None,
        keep: Iterable[str] = (),
        block_for: int | None = None,
    ) -> KickResult:
        """End one session of a user, or all of them except ``keep``. Once this has returned, none of them validates.

        by: the staff member, 1-256 bytes. reason: for staff, 1-500 characters. message: for the visitor. ticket: up
        to 64 bytes. block_for: seconds for which the user may not log in again, set in the same step; an existing block
        follows the rules of ``block``, and ``.block`` of the result is the block that is in force. Sessions that had
        ended before are in ``already_ended``, with why and by whom, as long as that is kept. ``confirmed`` is False if
        too few replicas have the change (``Settings.confirm_replicas``): this client then applies it again until they
        do. A mirrored session ends at the site when its mirror has deleted it there, usually within a second:
        ``mirrors()`` says whether it works. Cost: O(S·log N), one round trip for one session, two for all, three for
        more than 50; one more where this process has not met the device or the user agent.
        """
        operation = end.kick(
            self._ctx, uid, session_id,
            by=by, reason=reason, message=message, ticket=ticket, keep=keep, block_for=block_for,
        )  # fmt: skip
        return self._run(operation)

    def revoke_before(
        self, at: datetime | float | None = None, *, by: str, reason: str, message: str | None = None
    ) -> int:
        """Sign out everyone: once this has returned, no session that began before ``at`` validates or is listed.

        at: an aware datetime or Unix seconds; by default now. Returns the number of live sessions that it ends.
        "Now" includes every session that exists: those of this millisecond, and those whose login time is in
        the future because a clock was set back. A login after this call is not affected, even in the same millisecond.
        An ``at`` in the future is an InvalidArgument; up to a minute ahead counts as now, in case the caller's clock is
        ahead.

        ``at`` can only rise, so the call may be repeated, for example after a restore from an old snapshot. Sweeps end
        the sessions as kicked, with cause "revoked". Until then ``counts()`` says ``draining``; if the call is repeated
        meanwhile, the sessions that are left get the later reason. Cost: O(P), two round trips.
        """
        return self._run(end.revoke_before(self._ctx, at, by, reason, message))

    def provider_logout(
        self,
        issuer: str,
        *,
        subject: str | None = None,
        session: str | None = None,
        by: str,
        issued_at: datetime | float,
        token_id: str | None = None,
        token_seconds: int = 300,
    ) -> int | None:
        """End the sessions that an identity provider has signed out: with ``session`` those of that session there, with
        ``subject`` alone all of that user that began up to ten seconds after ``issued_at``. Returns how many ended.
        A login that is written later ends when it is written, for an hour (``subject`` alone: a minute).

        The caller has verified what the provider sent: ``LogoutReceiver`` does that and calls this. issuer, subject,
        session: as ``login`` got them in ``idp``. by: the provider's name for staff, 1-256 bytes; ``Ended.by`` and the
        audit (``idp_logout``, one entry a session) have it. issued_at: aware datetime or Unix seconds. token_id: of the
        logout token; None is returned if it was received in the last ``token_seconds`` (1…604,800), and nothing ends.
        May be repeated. Cost: O(log N) on each shard, five round trips, and one for 50 sessions.
        """
        return self._run(
            provider_logout.provider_logout(self._ctx, issuer, subject, session, by, issued_at, token_id, token_seconds)
        )

    def ended(
        self,
        uid: str | None = None,
        *,
        reason: EndReason | None = None,
        by: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int = 50,
        cursor: str | None = None,
        cause: EndCause | None = None,
    ) -> Page[Ended]:
        """Ended sessions and why they ended, all users' or one user's, latest end first, as long as that is kept. They
        include sessions that wait for a sweep: past their deadline they are "expired", at that time. Those that
        ``revoke_before`` has ended are there before the sweep for one user only: all have the same time of their end,
        so they are sorted by ref, and no list has that order. A page would read and sort every session that has ended.

        reason, cause: of the end. by: the person who ended it, or the identity provider. since, until: the end is at or
        after ``since`` and before ``until``; aware datetimes or Unix seconds. limit: 1…1000.

        One call reads 5,000 ends. With ``reason``, ``cause`` or ``by``, a page may be short and still have a
        ``next_cursor``, which belongs to these arguments. ``total`` is exact on the last page. Before, it may count
        ends that are no longer kept; with one of these, it counts those on the pages so far. For one user the latest
        100 are listed. If older ends may be missing, here or above ``Settings.max_ended``, ``complete_since`` of the
        page says from when on the list is complete. Cost: O(P·log N + ends read), two to four round trips a page; of
        one user one more, O(S).
        """
        return self._run(tombstones.ended(self._ctx, uid, reason, by, since, until, limit, cursor, cause))


class AsyncSessionsMethods(AsyncClient):
    login = awaited(SessionsMethods.login)
    login_many = awaited(SessionsMethods.login_many)
    validate = awaited(SessionsMethods.validate)
    validate_session = awaited(SessionsMethods.validate_session)
    rotate = awaited(SessionsMethods.rotate)
    reauthenticated = awaited(SessionsMethods.reauthenticated)
    reauthenticated_session = awaited(SessionsMethods.reauthenticated_session)
    require_sign_in = awaited(SessionsMethods.require_sign_in)
    update = awaited(SessionsMethods.update)
    update_session = awaited(SessionsMethods.update_session)
    update_person = awaited(SessionsMethods.update_person)
    heartbeat = awaited(SessionsMethods.heartbeat)
    heartbeats = awaited(SessionsMethods.heartbeats)
    logout = awaited(SessionsMethods.logout)
    logout_others = awaited(SessionsMethods.logout_others)
    get = awaited(SessionsMethods.get)
    sessions = awaited(SessionsMethods.sessions)
    sign_ins = awaited(SessionsMethods.sign_ins)
    previous_login = awaited(SessionsMethods.previous_login)
    sessions_among = awaited(SessionsMethods.sessions_among)
    kick = awaited(SessionsMethods.kick)
    revoke_before = awaited(SessionsMethods.revoke_before)
    provider_logout = awaited(SessionsMethods.provider_logout)
    ended = awaited(SessionsMethods.ended)
