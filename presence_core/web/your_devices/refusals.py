"""Answers to requests that are not carried out: one sentence each, as a page or as problem+json."""

from __future__ import annotations

from gettext import NullTranslations
from typing import Any, Literal, NamedTuple

from presence_core.web.middleware.refusals import TYPES

Code = Literal[
    "unknown", "authentication_too_old", "support_session", "forbidden", "expired_form", "unknown_device", "not_found",
    "method_not_allowed", "malformed", "too_long", "media_type", "too_many_requests", "unavailable", "outcome_unknown",
]  # fmt: skip
"""The code of a refusal, in the JSON API."""

Way = Literal["sign_in", "back", "none"]
"""The link on the page: to the sign-in, or back to the list."""


class Refusal(NamedTuple):
    """A refusal in the visitor's language."""

    status: int
    code: Code
    title: str
    sentence: str
    way: Way = "back"
    headers: tuple[tuple[str, str], ...] = ()
    members: dict[str, Any] = {}  #: more for the JSON  # noqa: RUF012


def not_signed_in(t: NullTranslations) -> Refusal:
    sentence = t.gettext("Sign in to see your devices.")
    return Refusal(401, "unknown", t.gettext("You are not signed in"), sentence, "sign_in", _challenge())


def not_fresh(t: NullTranslations, seconds: int) -> Refusal:
    """Status, header and type are those of ``Rules.fresh``."""
    sentence = t.gettext("Your last sign-in was some time ago. Sign in again to sign out other devices.")
    challenge = _challenge(error="insufficient_user_authentication", max_age=seconds)
    return Refusal(401, "authentication_too_old", t.gettext("Please confirm that it is you"), sentence, "sign_in",
                   challenge, {"type": TYPES["authentication_too_old"], "max_age": seconds})  # fmt: skip


def support_session(t: NullTranslations) -> Refusal:
    sentence = t.gettext("Only the user can see and sign out these devices.")
    return Refusal(403, "support_session", t.gettext("Not available to support"), sentence, "none")


def other_origin(t: NullTranslations) -> Refusal:
    sentence = t.gettext("This request came from another site, so nothing was changed.")
    return Refusal(403, "forbidden", t.gettext("Nothing was changed"), sentence)


def form_expired(t: NullTranslations) -> Refusal:
    sentence = t.gettext("The page was open for too long. Open it again, and repeat what you wanted to do.")
    return Refusal(403, "expired_form", t.gettext("Nothing was changed"), sentence)


def no_such_device(t: NullTranslations) -> Refusal:
    sentence = t.gettext("This device was not found. It may have been signed out already.")
    return Refusal(404, "unknown_device", t.gettext("Nothing was changed"), sentence)


def useless_link(t: NullTranslations) -> Refusal:
    """The answer to each link of a notice that opens nothing, for any reason."""
    sentence = t.gettext(
        "It was used already, is too old, or the device has been signed out. See your devices, and change your "
        "password if you do not know one of them."
    )
    return Refusal(404, "unknown_device", t.gettext("This link can no longer be used"), sentence)


def no_such_page(t: NullTranslations) -> Refusal:
    return Refusal(
        404, "not_found", t.gettext("Page not found"), t.gettext("There is no page at this address."), "none"
    )


def wrong_method(t: NullTranslations, allowed: str) -> Refusal:
    refusal = malformed(t)
    return refusal._replace(status=405, code="method_not_allowed", headers=(("Allow", allowed),))


def malformed(t: NullTranslations, status: int = 400, code: Code = "malformed") -> Refusal:
    return Refusal(status, code, t.gettext("Nothing was changed"), t.gettext("The request could not be read."))


def too_many(t: NullTranslations, seconds: int) -> Refusal:
    sentence = t.gettext("You have sent too many requests. Wait a minute, and try again.")
    return Refusal(429, "too_many_requests", t.gettext("Please try again shortly"), sentence, "back",
                   (("Retry-After", str(seconds)),))  # fmt: skip


def unavailable(t: NullTranslations, *, is_change: bool = False) -> Refusal:
    if is_change:
        sentence = t.gettext("Nothing could be changed right now, and you have not been signed out.")
    else:
        sentence = t.gettext("Your devices cannot be shown right now, but you have not been signed out.")
    return _away(t, "unavailable", sentence)


def outcome_unknown(t: NullTranslations) -> Refusal:
    sentence = t.gettext("It is not certain whether the device was signed out: open the list again to see.")
    return _away(t, "outcome_unknown", sentence)


def _away(t: NullTranslations, code: Code, sentence: str) -> Refusal:
    return Refusal(503, code, t.gettext("Please try again shortly"), sentence, "back", (("Retry-After", "5"),))


def _challenge(**parameters: object) -> tuple[tuple[str, str], ...]:
    listed = ", ".join(f'{name}="{value}"' for name, value in parameters.items())
    return (("WWW-Authenticate", f"Bearer {listed}".strip()),)
