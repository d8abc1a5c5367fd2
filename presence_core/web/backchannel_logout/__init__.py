"""OpenID Connect Back-Channel Logout 1.0: an identity provider says that a user has signed out, and sessions end.

``receiver`` decides, ``asgi``, ``wsgi`` and ``django`` serve it. Needs the extra ``oidc``.
docs/use/identity_provider.md explains it.
"""

from presence_core.web.backchannel_logout.issuers import Issuer, read_issuers
from presence_core.web.backchannel_logout.receiver import LogoutReceiver

__all__ = ["Issuer", "LogoutReceiver", "read_issuers"]
