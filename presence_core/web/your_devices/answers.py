"""Answer the requests to "Your devices", with no framework and no I/O.

``DeviceAnswers.answer`` is a generator that yields calls of a Presence or an AsyncPresence (``drive_generators``). A
request passes these checks in this order: a session, the rate; for a change also the origin, the form and the token;
for a change of other devices also a recent authentication.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from gettext import NullTranslations
from typing import Any, Final
from urllib.parse import quote

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from presence_core.drive_generators import ClientCalls
from presence_core.errors import CorruptData, InvalidArgument, OutcomeUnknown, Unavailable
from presence_core.models import Session
from presence_core.text.languages import accepted, match, tag_of
from presence_core.web.middleware.refusals import stale
from presence_core.web.notices.link import LinkKeys
from presence_core.web.your_devices import json_answers, notice_page, refusals
from presence_core.web.your_devices.csrf import is_same_origin, is_token, make_token
from presence_core.web.your_devices.device_list import MAX_ENDED, DeviceList, DevicesPage, is_support, list_devices
from presence_core.web.your_devices.exchange import DeviceRequest, DeviceResponse
from presence_core.web.your_devices.handles import derive_key, find_session, handle_of
from presence_core.web.your_devices.language import translations
from presence_core.web.your_devices.options import DeviceOptions
from presence_core.web.your_devices.page_html import (
    HERE,
    Content,
    Done,
    confirm_content,
    document,
    list_content,
    message_content,
)
from presence_core.web.your_devices.page_style import content_policy, style_sheet
from presence_core.web.your_devices.refusals import Refusal

_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
    ("Referrer-Policy", "same-origin"),  # "no-referrer" would have the browser send its forms with "Origin: null"
    ("Vary", "Accept-Language, Cookie"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)

_DONE: Final[dict[str, Done]] = {"device": "device", "others": "others"}

_API: Final = {"/api": "GET", "/api/sign-out": "POST", "/api/sign-out-others": "POST"}


class _Refused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


class DeviceAnswers:
    """Answers requests as ``options`` say. Make one for each process; it is safe to share between threads."""

    def __init__(self, options: DeviceOptions) -> None:
        if not isinstance(options, DeviceOptions):
            raise InvalidArgument("options", "must be DeviceOptions", "wrong_type")
        self.options = options
        self._handle_key = derive_key(options.secret, "handle")
        self._csrf_key = derive_key(options.secret, "csrf")
        self.link_keys = LinkKeys(options.secret)
        self._limit = RateLimitItemPerMinute(options.per_minute)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        whole_page = options.template is None
        self._style = style_sheet(options.theme, whole_page=whole_page)
        self._policy = content_policy(self._style, options.policy, whole_page=whole_page)

    def answer(self, request: DeviceRequest) -> ClientCalls[DeviceResponse]:
        """The response to this request."""
        answering = _Answering(self, request)
        is_change = request.method == "POST"
        try:
            return (yield from answering.respond())
        except _Refused as refused:
            return answering.refuse(refused.refusal)
        except OutcomeUnknown:
            return answering.refuse(refusals.outcome_unknown(answering.t))
        except (Unavailable, CorruptData):
            return answering.refuse(refusals.unavailable(answering.t, is_change=is_change))

    # -- what one request uses -----------------------------------------------------------------------------------------

    def language_of(self, request: DeviceRequest) -> str:
        """The language of the answer."""
        chosen: str | None
        if callable(self.options.language) and request.session is not None:
            chosen = self.options.language(request.session)
        else:
            chosen = self.options.language if isinstance(self.options.language, str) else None
        return match(chosen) or match(request.language) or accepted(request.headers.get("accept-language", ""))

    def handle(self, session: Session) -> Callable[[str], str]:
        """Makes the handles of the visitor's sessions."""
        return lambda session_id: handle_of(self._handle_key, session.uid, session_id)

    def find(self, session: Session, session_ids: list[str], handle: str) -> str | None:
        """The visitor's session with this handle."""
        return find_session(self._handle_key, session.uid, session_ids, handle)

    def csrf(self, session: Session) -> str:
        """A new token for this session."""
        return make_token(self._csrf_key, session.ref, time.time())

    def is_csrf(self, session: Session, token: str) -> bool:
        """Whether the token is one for this session."""
        return is_token(self._csrf_key, session.ref, token, time.time())

    def seconds_to_wait(self, caller: str) -> int | None:
        """Count a request of this session, or address. None: it is within the limit."""
        return None if self._limiter.hit(self._limit, caller) else self._limit.get_expiry()

    def page_response(
        self, language: str, content: Content, status: int = 200, csrf: str = "",
        devices: DeviceList | None = None, **more: Any,
    ) -> DeviceResponse:  # fmt: skip
        """A page, in the site's template if there is one."""
        page = DevicesPage(
            title=content.title, body=content.body, style=self._style, language=tag_of(language),
            status=status, csrf=csrf, devices=devices,
        )  # fmt: skip
        html = (self.options.template or document)(page)
        headers = [
            ("Content-Type", "text/html; charset=utf-8"), ("Content-Language", page.language),
            ("Content-Security-Policy", self._policy), *_HEADERS, *more.pop("headers", ()),
        ]  # fmt: skip
        return DeviceResponse(status=status, headers=headers, body=html.encode("utf-8", "replace"), **more)


class _Answering:
    """One request."""

    def __init__(self, site: DeviceAnswers, request: DeviceRequest) -> None:
        self._site = site
        self._request = request
        self._language = site.language_of(request)
        self.t: NullTranslations = translations(self._language)

    def respond(self) -> ClientCalls[DeviceResponse]:
        request = self._request
        path = request.path.rstrip("/")
        is_notice = path == notice_page.PATH
        allowed = _API.get(path) if request.is_api else "GET, HEAD, POST" if not path or is_notice else None
        if allowed is None:
            raise _Refused(refusals.no_such_page(self.t))
        method = "GET" if request.method == "HEAD" else request.method
        if method not in allowed:
            raise _Refused(refusals.wrong_method(self.t, "GET, HEAD" if allowed == "GET" else allowed))
        if is_notice:
            return (yield from self._notice(method))
        session = self._session()
        if method == "GET":
            return (yield from self._show(session))
        self._check_origin()
        if request.body is None:
            raise _Refused(refusals.malformed(self.t, 413, "too_long"))
        return (yield from self._api_change(session, path) if request.is_api else self._form_change(session))

    def _session(self) -> Session:
        """The visitor's session, if there is one and it has not sent too many requests."""
        session = self._request.session
        if self._request.verdict.state in ("grace", "open", "unavailable"):  # a session of these may have been kicked
            raise Unavailable("The session could not be checked.")
        if session is None:
            raise _Refused(refusals.not_signed_in(self.t))
        if is_support(session):
            raise _Refused(refusals.support_session(self.t))
        seconds = self._site.seconds_to_wait(session.ref)
        if seconds is not None:
            raise _Refused(refusals.too_many(self.t, seconds))
        return session

    # -- the link of a notice ------------------------------------------------------------------------------------------

    def _notice(self, method: str) -> ClientCalls[DeviceResponse]:
        """Ask whether a login was the user's, or take the answer. The link says who answers, so no session is needed.
        GET changes nothing: programs that check mails follow links."""
        request, options = self._request, self._site.options
        ip = request.verdict.ip
        seconds = self._site.seconds_to_wait(f"notice {ip}") if ip else None
        if seconds is not None:
            raise _Refused(refusals.too_many(self.t, seconds))
        if method == "POST":
            self._check_origin()
        form = request.form() if method == "POST" else None
        answer = notice_page.answer_of(form)
        if method == "POST" and answer is None:
            raise _Refused(refusals.malformed(self.t))
        found = yield from notice_page.find(self._site.link_keys, request.query_value("t"))
        if found is None:
            raise _Refused(refusals.useless_link(self.t))
        if answer is None:
            return self._page(notice_page.question(self.t, found, options.notice_block))
        if not (yield from notice_page.give_answer(found, answer, options.notice_block)):
            raise _Refused(refusals.useless_link(self.t))
        link = self._sign_in_link(self.t.gettext("Sign in"))
        return self._page(notice_page.thanks(self.t, answer, link))

    # -- show ----------------------------------------------------------------------------------------------------------

    def _show(self, this: Session) -> ClientCalls[DeviceResponse]:
        sessions = yield lambda p: p.sessions(this.uid)
        ended = yield lambda p: p.ended(this.uid, limit=MAX_ENDED)
        sign_ins = yield lambda p: p.sign_ins(this.uid)
        shown = list_devices(this, sessions, ended.items, ended.as_of, self._site.handle(this), sign_ins)
        csrf = self._site.csrf(this)
        if self._request.is_api:
            return self._json(json_answers.list_body(self.t, shown, csrf))
        if self._request.query_value("confirm") == "others" and shown.others:
            self._check_fresh()
            content = confirm_content(self.t, shown.others, csrf)
        else:
            content = list_content(self.t, shown, csrf, _DONE.get(self._request.query_value("done")))
        return self._page(content, csrf=csrf, devices=shown)

    # -- change --------------------------------------------------------------------------------------------------------

    def _check_origin(self) -> None:
        if not is_same_origin(self._request.headers):
            raise _Refused(refusals.other_origin(self.t))

    def _check_token(self, this: Session, token: str) -> None:
        if not self._site.is_csrf(this, token):
            raise _Refused(refusals.form_expired(self.t))

    def _check_fresh(self) -> None:
        """The visitor authenticated recently, by the clock of Redis. The middleware has asked for the time."""
        fresh = self._site.options.fresh
        if fresh is not None and stale(self._request.verdict, fresh) is not None:
            raise _Refused(refusals.not_fresh(self.t, fresh))

    def _form_change(self, this: Session) -> ClientCalls[DeviceResponse]:
        form = self._request.form()
        if form is None:
            raise _Refused(refusals.malformed(self.t))
        self._check_token(this, form.get("csrf", ""))
        if form.get("action") == "sign-out-others":
            yield from self._end_others(this)
            return self._see_list("others")
        if form.get("action") != "sign-out":
            raise _Refused(refusals.malformed(self.t))
        ended = yield from self._end_device(this, form.get("device", ""))
        if ended == this.session_id:
            link = self._sign_in_link(self.t.gettext("Sign in again"))
            title = self.t.gettext("You are signed out")
            content = message_content(title, self.t.gettext("This device has been signed out."), link)
            return self._page(content, ended_this=True)
        return self._see_list("device")

    def _api_change(self, this: Session, path: str) -> ClientCalls[DeviceResponse]:
        if self._request.content_type() != json_answers.JSON:
            raise _Refused(refusals.malformed(self.t, 415, "media_type"))
        fields = json_answers.read_object(self._request.body or b"")
        if fields is None:
            raise _Refused(refusals.malformed(self.t))
        self._check_token(this, self._request.headers.get("x-csrf-token", ""))
        if path == "/api/sign-out-others":
            count = yield from self._end_others(this)
            return self._json(json_answers.ended_body(count))
        device = fields.get("device")
        ended = yield from self._end_device(this, device if isinstance(device, str) else "")
        return self._json(json_answers.ended_body(1), ended_this=ended == this.session_id)

    def _end_device(self, this: Session, handle: str) -> ClientCalls[str]:
        """End the visitor's session with this handle, and return its id. A recent login is asked for before anything is
        said about the handle, and each handle that is no session's gets the same answer."""
        sessions: list[Session] = yield lambda p: p.sessions(this.uid)
        known = [this.session_id, *(session.session_id for session in sessions)]
        session_id = self._site.find(this, known, handle)
        if session_id == this.session_id:
            yield lambda p: p.logout(this.uid, this.session_id)
            return session_id
        self._check_fresh()
        if session_id is None:
            raise _Refused(refusals.no_such_device(self.t))
        yield lambda p: p.logout_others(this.uid, this.session_id, session_id)
        return session_id

    def _end_others(self, this: Session) -> ClientCalls[int]:
        self._check_fresh()
        ended: list[Session] = yield lambda p: p.logout_others(this.uid, this.session_id)
        return len(ended)

    # -- answers -------------------------------------------------------------------------------------------------------

    def refuse(self, refusal: Refusal) -> DeviceResponse:
        """A refusal, as a page or as a problem."""
        if self._request.is_api:
            body = json_answers.problem_body(refusal, self._sign_in_url())
            return self._json(body, refusal.status, json_answers.PROBLEM, headers=refusal.headers)
        is_notice = self._request.path.rstrip("/") == notice_page.PATH
        devices = self._request.page_path if is_notice else HERE
        link = (self.t.gettext("Back to your devices"), devices) if refusal.way == "back" else None
        if refusal.way == "sign_in":
            again = refusal.code == "authentication_too_old"
            link = self._sign_in_link(self.t.gettext("Sign in again") if again else self.t.gettext("Sign in"))
        content = message_content(refusal.title, refusal.sentence, link)
        return self._page(content, refusal.status, headers=refusal.headers)

    def _sign_in_url(self) -> str | None:
        url = self._site.options.sign_in_url
        return url and url.replace("{next}", quote(self._request.page_path, safe="/"))

    def _sign_in_link(self, text: str) -> tuple[str, str] | None:
        url = self._sign_in_url()
        return None if url is None else (text, url)

    def _page(self, content: Content, status: int = 200, **more: Any) -> DeviceResponse:
        return self._site.page_response(self._language, content, status, **more)

    def _json(self, body: bytes, status: int = 200, kind: str = json_answers.JSON, **more: Any) -> DeviceResponse:
        headers = [("Content-Type", kind), ("Content-Language", tag_of(self._language)),
                   ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"), *_HEADERS,
                   *more.pop("headers", ())]  # fmt: skip
        return DeviceResponse(status=status, headers=headers, body=body, **more)

    def _see_list(self, done: Done) -> DeviceResponse:
        """Load the list with GET, so that a reload repeats nothing."""
        return DeviceResponse(status=303, headers=[("Location", f"?done={done}"), *_HEADERS], body=b"")
