"""Webhooks: tell other programs about kicks, blocks, revocations, required sign-ins and odd logins.

Kicks, required sign-ins and odd logins are events; blocks, unblocks and ``revoke_before`` are only in the audit, so
both are read. A URL receives its deliveries at least once, also over restarts, and those about one user in order: Redis
holds the queue, and a file per URL holds the position, which moves when the receiver has answered 2xx. A URL that fails
does not delay the others.

The body, signed as ``signing`` describes::

    {
        "id": "7f0c…",
        "type": "kicked",
        "at": "2026-11-20T17:05:23.000+00:00",
        "uid": "ada",
        "session_id": "…",
        "by": "sam",
        "reason": "stolen phone",
        "ticket": "T-1",
        "message": "Please sign in again.",
    }

``type`` is one of: kicked (one for each session); sign_in_required (one for each session, with uid, session_id and
message: refuse its refresh token until ``validate_session`` passes); new_device, distant and after_failures (one for
each such login, with name, device and place; with ``notice_link`` also a link for the user); moved (one for each move
of a session, with the same and ``move``); old_token (one for each session of which an old token was used, with name,
device and place); blocked; unblocked; revoked (all sessions that began before the time in ``outcome``, usually ``at``;
each is also sent as kicked once a sweep ends it); gap (events were lost to the stream's cap, so the receiver must check
what it holds).

Alerts are webhooks of the worker (``alerts``): the ends, logins or failures of a minute are above a limit, a watched
person has logged in, or many sign-ins of a person or from a network have failed. Those about a person name the person.

Start with ``sender``. It sends what ``deliveries`` reads from Redis, and keeps a ``position``; ``signed_post`` sends
one body. Receivers need only ``signing.verify``. Only applications import this package.
"""

from presence_core.web.webhooks.alerts import AlertWebhook
from presence_core.web.webhooks.sender import Webhooks
from presence_core.web.webhooks.signing import verify

__all__ = ["AlertWebhook", "Webhooks", "verify"]
