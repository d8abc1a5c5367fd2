"""A page in Django's admin: the live sessions of a user, with kick."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets, quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html

from presence_core.errors import PresenceError
from presence_core.models import Session
from presence_core.web.django.config import get_presence
from presence_core.web.django.current_request import staff_name

FIELD = "presence_sessions"


class UserSessionsMixin:
    """Add it to the ModelAdmin of your users, in front of ``UserAdmin``.

    Staff who may view the user see the sessions; staff who may change the user may kick. The kick is in our audit and
    in Django's history of the user, with the name of the member of staff.
    """

    opts: Any
    admin_site: Any

    @property
    def _page_name(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_sessions"

    def get_urls(self) -> list[Any]:
        """Also the page of a user's sessions."""
        page = self.admin_site.admin_view(self.sessions_view)
        urls: list[Any] = super().get_urls()  # type: ignore[misc]
        return [path("<path:object_id>/sessions/", page, name=self._page_name), *urls]

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
        """Also the link to the page."""
        return [*super().get_readonly_fields(request, obj), FIELD]  # type: ignore[misc]

    def get_fieldsets(self, request: Any, obj: Any = None) -> list[Any]:
        """Also the link to the page, for a user that exists."""
        fieldsets: list[Any] = list(super().get_fieldsets(request, obj))  # type: ignore[misc]
        if obj is None or FIELD in flatten_fieldsets(fieldsets):
            return fieldsets
        return [*fieldsets, ("Sessions", {"fields": [FIELD]})]

    @admin.display(description="Live sessions")  # type: ignore[untyped-decorator]
    def presence_sessions(self, user: Any) -> str:
        """The link to the page."""
        if user.pk is None:
            return "-"
        return str(format_html('<a href="{}">Show live sessions</a>', self._url(user)))

    def _url(self, user: Any) -> str:
        return str(reverse(f"{self.admin_site.name}:{self._page_name}", args=[quote(user.pk)]))

    def sessions_view(self, request: Any, object_id: str) -> Any:
        """List a user's live sessions; a POST kicks one of them, or all."""
        model_admin: Any = self
        user = model_admin.get_object(request, unquote(object_id))
        if user is None:
            return model_admin._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        may_kick = model_admin.has_change_permission(request, user)
        if not may_kick and not model_admin.has_view_permission(request, user):
            raise PermissionDenied
        if request.method == "POST":
            if not may_kick:
                raise PermissionDenied
            self._kick(request, user)
            return HttpResponseRedirect(self._url(user))
        context = {
            **self.admin_site.each_context(request), "title": f"Live sessions: {user}", "opts": self.opts,
            "user_": user, "may_kick": may_kick, "sessions": _sessions(request, user),
            "current": getattr(request, "presence_session", None),
        }  # fmt: skip
        return TemplateResponse(request, "admin/presence/user_sessions.html", context)

    def _kick(self, request: Any, user: Any) -> None:
        reason, message = (request.POST.get(name, "").strip() for name in ("reason", "message"))
        if "session_id" not in request.POST:  # empty: all sessions
            messages.error(request, "Choose a session to sign out.")
            return
        session_id = request.POST["session_id"] or None
        try:
            result = get_presence().kick(
                str(user.pk), session_id, by=staff_name(request.user), reason=reason, message=message or None
            )
        except PresenceError as error:
            messages.error(request, str(error))
            return
        if not result.kicked:
            messages.warning(request, "No session was signed out: it had ended before.")
            return
        done = f"Signed out {len(result.kicked)} of the user's sessions: {reason}"
        model_admin: Any = self
        model_admin.log_change(request, user, done)
        messages.success(request, done)


def _sessions(request: Any, user: Any) -> list[Session]:
    try:
        return get_presence().sessions(str(user.pk))
    except PresenceError as error:
        messages.error(request, f"The sessions cannot be shown now: {error}")
        return []
