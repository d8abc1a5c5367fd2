"""The HTML of the page. Each text from outside is escaped by ``e``."""

from __future__ import annotations

from datetime import UTC, datetime
from gettext import NullTranslations
from html import escape as e
from typing import Final, Literal, NamedTuple

from presence_core.schema.endings import Why
from presence_core.web.your_devices.device_list import Device, DeviceList, DevicesPage, PastDevice, PastSignIn

Done = Literal["device", "others"]
"""What the visitor has just done."""

CONFIRM: Final = "?confirm=others"
HERE: Final = "?"
"""The page itself, with or without a slash at its end."""


class Content(NamedTuple):
    """Title (text) and body (HTML) of a page."""

    title: str
    body: str


def document(page: DevicesPage) -> str:
    """A whole page, if the site has no template."""
    return (
        f'<!doctype html>\n<html lang="{e(page.language)}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{e(page.title)}</title>\n<style>{page.style}</style>\n</head>\n"
        f"<body>\n<main>\n{page.body}\n</main>\n</body>\n</html>\n"
    )


def list_content(t: NullTranslations, shown: DeviceList, csrf: str, done: Done | None) -> Content:
    """The list of devices."""
    this, *others = shown.devices
    title = t.gettext("Your devices")
    parts = [_tag("h1", title)]
    if done is not None:
        said = {
            "device": t.gettext("The device has been signed out."),
            "others": t.gettext("All other devices have been signed out."),
        }
        parts.append(f'<p class="done" role="status">{e(said[done])}</p>')
    parts.append(_tag("p", t.gettext("Sign out each device that you do not know or no longer use.")))
    parts += [_tag("h2", t.gettext("This device")), _list(_device(t, this, shown.now, csrf))]
    parts.append(_tag("h2", t.gettext("Other devices")))
    if others:
        parts.append(_list(*(_device(t, device, shown.now, csrf) for device in others)))
        if shown.more:
            text = t.ngettext(
                "%(count)d more device is not shown.", "%(count)d more devices are not shown.", shown.more
            )
            parts.append(_tag("p", text % {"count": shown.more}))
        every = _link(t.gettext("Sign out all other devices"), CONFIRM)
        parts.append(f'<p class="row">{every}</p>')
    else:
        parts.append(_tag("p", t.gettext("You are not signed in on any other device.")))
    if shown.ended:
        parts.append(_tag("h2", t.gettext("Recently signed out")))
        parts.append(_list(*(_past(t, device) for device in shown.ended)))
    if shown.sign_ins:
        parts.append(_tag("h2", t.gettext("Other sign-ins of the last 30 days")))
        parts.append(_list(*(_sign_in(t, sign_in) for sign_in in shown.sign_ins)))
    return _content(title, parts)


def confirm_content(t: NullTranslations, others: int, csrf: str) -> Content:
    """The question before all other devices are signed out."""
    title = t.gettext("Sign out all other devices?")
    text = t.ngettext(
        "%(count)d other device will be signed out. You stay signed in on this device.",
        "%(count)d other devices will be signed out. You stay signed in on this device.",
        others,
    )
    form = _form(csrf, "sign-out-others", _tag("button", t.gettext("Sign out all other devices"), ' class="main"'))
    cancel = _link(t.gettext("Cancel"), HERE)
    parts = [_tag("h1", title), _tag("p", text % {"count": others}), f'<div class="row">{form}{cancel}</div>']
    return _content(title, parts)


def message_content(title: str, sentence: str, link: tuple[str, str] | None = None) -> Content:
    """A title, a sentence, and perhaps a link: its text and its address."""
    parts = [_tag("h1", title), _tag("p", sentence)]
    if link is not None:
        parts.append(f'<p class="row">{_link(*link, "button main")}</p>')
    return _content(title, parts)


def notice_content(t: NullTranslations, device: Device, *, has_moved: bool, is_live: bool, may_block: bool) -> Content:
    """The question whether a login was the user's, with a form for each answer, sent to the address of the page."""
    title = t.gettext("Was this you?")
    name, software = names_of(t, device)
    since = _time(device.signed_in)
    if is_live:
        since = e(t.gettext("Signed in since %(time)s")) % {"time": since}
    denied = t.gettext(
        "If it was not you, this device is signed out, and your other devices must sign in again. Then change your "
        "password."
    )
    blocked = t.gettext("You cannot sign in again for some time, so that no one else can.") if may_block else ""
    signed_in = t.gettext("Someone signed in to your account:")
    parts = [
        _tag("h1", title),
        _tag("p", t.gettext("Your account is now used from here:") if has_moved else signed_in),
        _list(_item(name, [e(software), _place(device), since], "")),
        _tag("p", " ".join(filter(None, (denied, blocked)))),
        f'<div class="row">{_answer("not-me", t.gettext("This was not me"), " class=main")}'
        f"{_answer('me', t.gettext('This was me'))}</div>",
    ]
    return _content(title, parts)


def _answer(answer: str, label: str, attributes: str = "") -> str:
    button = _tag("button", label, attributes)
    return f'<form method="post"><input type="hidden" name="answer" value="{answer}">{button}</form>'


def _content(title: str, parts: list[str]) -> Content:
    inside = "\n".join(parts)
    return Content(title, f'<div class="your-devices">\n{inside}\n</div>')


def _tag(name: str, text: str, attributes: str = "") -> str:
    return f"<{name}{attributes}>{e(text)}</{name}>"


def _link(text: str, address: str, kind: str = "button") -> str:
    return f'<a class="{kind}" href="{e(address)}">{e(text)}</a>'


def _list(*items: str) -> str:
    return f"<ul>\n{''.join(items)}</ul>"


def _form(csrf: str, action: str, button: str, handle: str = "") -> str:
    """A form that is sent to the address of the page."""
    device = f'<input type="hidden" name="device" value="{e(handle)}">' if handle else ""
    return (
        f'<form method="post"><input type="hidden" name="csrf" value="{e(csrf)}">'
        f'<input type="hidden" name="action" value="{action}">{device}{button}</form>'
    )


def _device(t: NullTranslations, device: Device, now: datetime, csrf: str) -> str:
    name, software = names_of(t, device)
    label = e(t.gettext("Sign out: %(device)s")) % {"device": e(name)}
    since = e(t.gettext("Signed in since %(time)s")) % {"time": _time(device.signed_in)}
    button = _tag("button", t.gettext("Sign out"), f' aria-label="{label}"')
    return _item(
        name,
        [e(software), _place(device), _active(t, device, now), since],
        _form(csrf, "sign-out", button, device.handle),
    )


def _past(t: NullTranslations, device: PastDevice) -> str:
    name, software = names_of(t, device)
    message = ""
    if device.message:
        said = e(t.gettext("Message:"))
        message = f"<span>{said}</span><blockquote>{e(device.message)}</blockquote>"
    return _item(name, [e(software), _place(device), e(why_sentence(t, device.why)), _time(device.ended)], "", message)


def _sign_in(t: NullTranslations, sign_in: PastSignIn) -> str:
    name, software = names_of(t, sign_in)
    return _item(name, [e(software), _place(sign_in), _time(sign_in.signed_in)], "")


def _place(device: Device | PastDevice | PastSignIn) -> str:
    """Where it was signed in. The words may be in another direction of writing than the page."""
    return f"<bdi>{e(device.place)}</bdi>" if device.place else ""


def _item(name: str, lines: list[str], behind: str, inside: str = "") -> str:
    spans = "".join(f"<span>{line}</span>" for line in lines if line)
    return f"<li><div><strong><bdi>{e(name)}</bdi></strong>{spans}{inside}</div>{behind}</li>\n"


def names_of(t: NullTranslations, device: Device | PastDevice | PastSignIn) -> tuple[str, str]:
    """The device as the site named it at login, and its software, such as "Firefox on Windows" (text)."""
    if not isinstance(device, PastSignIn) and device.is_support:
        return t.gettext("Support session"), ""
    software = device.browser or device.os or ""
    if device.browser and device.os:
        software = t.gettext("%(browser)s on %(system)s") % {"browser": device.browser, "system": device.os}
    return (device.name, software) if device.name else (software or t.gettext("Unknown device"), "")


def _active(t: NullTranslations, device: Device, now: datetime) -> str:
    minutes = int((now - device.last_active).total_seconds()) // 60
    if device.is_this or minutes < 2:
        return e(t.gettext("Active now"))
    hours, days = minutes // 60, minutes // 1440
    if hours < 2:
        count = minutes
        text = t.ngettext("Last active %(count)d minute ago", "Last active %(count)d minutes ago", count)
    elif days < 2:
        count = hours
        text = t.ngettext("Last active %(count)d hour ago", "Last active %(count)d hours ago", count)
    else:
        count = days
        text = t.ngettext("Last active %(count)d day ago", "Last active %(count)d days ago", count)
    return e(text) % {"count": count}


def _time(moment: datetime) -> str:
    """The same text in every language; the page does not know the visitor's time zone."""
    utc = moment.astimezone(UTC)
    return f'<time datetime="{utc:%Y-%m-%dT%H:%M:%SZ}">{utc:%Y-%m-%d %H:%M} UTC</time>'


def why_sentence(t: NullTranslations, why: Why) -> str:
    """Why a session has ended (text)."""
    return {
        "signed_out": t.gettext("You signed out."),
        "other_device": t.gettext("You signed it out from another device."),
        "inactive": t.gettext("Signed out because it was not used for some time."),
        "time_limit": t.gettext("Signed out because the sign-in had reached its time limit."),
        "newer_sign_in": t.gettext("Signed out because of a newer sign-in."),
        "support": t.gettext("Signed out by support."),
        "account": t.gettext("Signed out because of a change to your account."),
        "provider": t.gettext("Signed out by the service with which you had signed in."),
        "not_me": t.gettext("Signed out because you said that it was not you."),
        "ended": t.gettext("Signed out."),
    }[why]
