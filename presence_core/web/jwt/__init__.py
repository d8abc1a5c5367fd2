"""Revoke JWTs: the ``jti`` is a session id, and the ids of ended sessions are kept in memory.

A JWT is valid until it expires, even after a kick. So begin a session for each JWT, and ask a RevocationCache at each
request. That takes no round trip, and a kick or ``revoke_before`` arrives within about a fifth of a second::

    session = presence.login(uid).session
    claims = {"sub": uid, "jti": session.session_id, "auth_time": session.login_at.timestamp(), "exp": …}
    cache = RevocationCache(presence, keep=3600)  # at least as long as a JWT lives
    if cache.is_revoked(claims["jti"], claims["sub"], login_at=claims["auth_time"]): …  # refuse

``revocation_cache`` is the public class: questions, heartbeats, the thread or task. ``ended_sessions`` is the memory,
and how it is read from Redis. Neither needs a JWT library. Only applications import this package.
"""

from presence_core.web.jwt.revocation_cache import RevocationCache

__all__ = ["RevocationCache"]
