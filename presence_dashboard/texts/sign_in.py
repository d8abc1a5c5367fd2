"""Sign-in, sign-out, and the pages of the gate that refuse a request."""

from __future__ import annotations

from typing import Final

from presence_dashboard.language import Counted, Sentence, ngettext, number
from presence_dashboard.language import gettext as _

# -- The form ----------------------------------------------------------------------------------------------------------

SIGN_IN_TITLE: Final = "Sign in – Who is online"
SIGN_IN_LEAD: Final = "Sign in to see who is online."
SIGN_IN_BUTTON: Final = "Sign in"
SIGN_IN_WRONG: Final = "Name or password is wrong."
SIGN_IN_STALE: Final = "This form has expired, or cookies are off. Try again."
SIGN_IN_BUSY: Final = "Too many people are signing in at the moment. Try again in a few seconds."
SIGN_IN_INSECURE: Final = "Passwords are accepted over https only. Open this page with https."


sign_in_wait: Final = Counted(
    "Too many attempts. Try again in {count} second.", "Too many attempts. Try again in {count} seconds."
)
SIGN_IN_FILE: Final = "Passwords cannot be checked at the moment. Ask an admin of this dashboard."

# -- The first sign-in, with a one-time password -----------------------------------------------------------------------

FIRST_PASSWORD_HEADING: Final = "Choose a password"
FIRST_PASSWORD_LEAD: Final = "Your one-time password was right. It ends when you have chosen a password of your own."
FIRST_PASSWORD_NEW: Final = "New password"
FIRST_PASSWORD_REPEAT: Final = "New password again"
FIRST_PASSWORD_BUTTON: Final = "Save and sign in"
FIRST_PASSWORD_DIFFERS: Final = "The two passwords are not the same. Type both again."
FIRST_PASSWORD_SAME: Final = "This is the one-time password. Choose another."
FIRST_PASSWORD_STALE: Final = "This form has expired. Sign in again."
FIRST_PASSWORD_EXPIRED: Final = "This one-time password has expired. Ask an admin of this dashboard for another."
FIRST_PASSWORD_NOT_STORED: Final = "Your password could not be saved. Ask an admin of this dashboard."


def first_password_length(shortest: int, longest: int) -> str:
    return _("A password has {shortest} to {longest} characters.").format(shortest=shortest, longest=number(longest))


# -- A new authentication before a protected action --------------------------------------------------------------------

PASSWORD_AGAIN: Final = "Enter your password again"
PASSWORD_AGAIN_TITLE: Final = "Enter your password again – Who is online"
PASSWORD_AGAIN_LEAD: Final = "Some actions need your password again. After this, you return to the page."
PASSWORD_AGAIN_BUTTON: Final = "Continue"
PASSWORD_AGAIN_WRONG: Final = "The password is wrong."
PASSWORD_AGAIN_BACK: Final = "Back without the password"
PASSWORD_AGAIN_OLD_TAB: Final = "This tab is out of date"
PASSWORD_AGAIN_ELSEWHERE: Final = "You entered your password again in another tab."
OPEN_AGAIN: Final = "Open this page again"
PROVIDER_SILENT: Final = (
    "For this action you must sign in again. If you have just done so, your provider does not say when: ask an admin "
    "of this dashboard."
)
PROVIDER_CLOCK: Final = (
    "The time of your sign-in is in the future: the clocks of your provider and of this dashboard differ. Ask an admin "
    "of this dashboard."
)
PROVIDER_OTHER: Final = "Someone else signed in at the provider. Sign in again with your own name."
password_too_old: Final = Sentence("For this action, enter your password again: the last time is more than {age} ago.")
provider_too_old: Final = Sentence("For this action, sign in again: your last sign-in is more than {age} old.")
SIGN_OUT_TITLE: Final = "Sign out – Who is online"
SIGN_OUT_LEAD: Final = "You are signed in."
SIGN_OUT_BUTTON: Final = "Sign out"
STAY_SIGNED_IN: Final = "Stay signed in"
idle_warning: Final = Sentence("**You will be signed out at {clock}**, in {seconds} s, because you were not active.")
absolute_warning: Final = Sentence(
    "**You will be signed out at {clock}**, in {seconds} s. After you sign in again, you return to this page."
)
SIGN_OUT_BACK: Final = "Back to the dashboard"
SIGN_OUT_HEADING: Final = "Signed out"
SIGN_OUT_DONE: Final = "You are signed out."

# -- Why access is refused ---------------------------------------------------------------------------------------------

NOT_SIGNED_IN: Final = "You are not signed in."
SESSION_ENDED: Final = "You were signed out. Sign in again."
PASSWORD_CHANGED: Final = "You were signed out, because your password was changed. Sign in with the new one."


def idle(minutes: int) -> str:
    if not minutes:
        return _("You were signed out after some time without activity.")
    return ngettext(
        "You were signed out after {count} minute without activity.",
        "You were signed out after {count} minutes without activity.",
        minutes,
    ).format(count=minutes)


def signed_out_by_staff(message: str | None) -> str:
    sentence = _("You were signed out by staff.")
    return f"{sentence} {message}" if message else sentence


no_role: Final = Sentence("{name} has no role in this dashboard. Ask an admin of this dashboard.")
may_not: Final = Sentence("Your role {role} does not allow this action. This attempt was logged.")
SIGN_IN_UNKNOWN: Final = (
    "Your sign-in cannot be checked, because the session server cannot be reached. Try again in a minute."
)
PROVIDER_NO_EMAIL: Final = (
    "Your sign-in does not say that your email address is verified. Ask an admin of this dashboard."
)
PROVIDER_NAME: Final = (
    "The name that your provider sends cannot be used here: two people could have it. Ask an admin of this dashboard."
)
PROVIDER_TOO_OLD: Final = "Your sign-in has expired. Sign in again."

# -- Pages of the gate -------------------------------------------------------------------------------------------------

NO_GATE: Final = (
    "The dashboard was started without its access control, so it shows nothing. Start it with `presence dashboard`, or "
    "in a checkout with `streamlit run dashboard.py`."
)
REFUSED_TITLE: Final = "Access refused"
FOREIGN_HOST: Final = "This host name is not allowed for this dashboard."
FOREIGN_ORIGIN: Final = "This request came from another site."
LOOPBACK_REFUSAL: Final = "This dashboard is open only on the machine that runs it: open http://localhost there."
LOOPBACK_PROXIED: Final = "This dashboard is open only on the machine that runs it, not through a proxy."
NOT_BY_PROXY: Final = "This dashboard can be reached through its proxy only."
PROXY_TWICE: Final = "This request has a header of the proxy twice. The proxy must replace what a browser sends."
PROXY_SILENT: Final = "The proxy did not send your name."
AWAY_TITLE: Final = "The session server cannot be reached"
AWAY_LEAD: Final = "Your sign-in cannot be checked at the moment. This page retries automatically."

# -- On every page -----------------------------------------------------------------------------------------------------

SIGN_IN_AGAIN: Final = "Sign in again"
signed_in_as: Final = Sentence("{name} · {role}")
