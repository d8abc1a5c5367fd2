"""OIDC: what is the dashboard's own around Streamlit's sign-in at a provider."""

from __future__ import annotations

from typing import Final

BACK_CHANNEL: Final = "/backchannel-logout"
"""Where the provider sends its logouts of staff."""
