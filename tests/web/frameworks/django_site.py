"""A minimal Django site that logs users in. Configured once for the test process, in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import django
from django.apps import apps
from django.conf import settings

from tests.web.framework_pages.printed import blocks

PASSWORD = "correct horse battery"


AT_ONCE: list[asyncio.Event] = []
"""The requests that wait for each other."""


def configure(redis_url: str, namespace: str) -> None:
    """Set Django up and make its tables; a second call only switches to another namespace."""
    if not settings.configured:
        settings.configure(
            SECRET_KEY="only for tests, and as long as Django wants it to be",
            ALLOWED_HOSTS=["testserver", "127.0.0.1"],
            ROOT_URLCONF=__name__,
            USE_TZ=True,
            DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
            INSTALLED_APPS=[
                "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
                "django.contrib.messages", "django.contrib.admin", "presence_core.web.django",
            ],
            TEMPLATES=[{
                "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
                "OPTIONS": {"context_processors": [
                    "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]},
            }],
            STATIC_URL="/static/",
            MIDDLEWARE=[
                "django.contrib.sessions.middleware.SessionMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.messages.middleware.MessageMiddleware",
                "presence_core.web.django.middleware.PresenceMiddleware",
            ],
            LOGIN_URL="/sign-in",
            PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
            PRESENCE_REDIS_URL=redis_url,
            PRESENCE_SETTINGS={"namespace": namespace},
        )  # fmt: skip
        django.setup()
        exec(compile(blocks("django")["admin.py"], "docs/use/frameworks/django.md, admin.py", "exec"), {})
        from django.core.management import call_command

        call_command("migrate", verbosity=0)


def _views() -> dict[str, Any]:
    from django.contrib.auth import (
        aauthenticate,
        alogin,
        alogout,
        authenticate,
        get_user_model,
        login,
        logout,
        update_session_auth_hash,
    )
    from django.contrib.messages import get_messages
    from django.http import HttpResponse

    from presence_core.web.django.decorators import fresh_session

    def sign_in(request: Any) -> Any:
        if request.method == "GET":
            return HttpResponse(" ".join(str(message) for message in get_messages(request)))
        user = authenticate(request, username=request.POST["who"], password=request.POST["password"])
        if user is None:
            return HttpResponse("wrong", status=403)
        login(request, user)
        return HttpResponse("in")

    def sign_out(request: Any) -> Any:
        logout(request)
        return HttpResponse("out")

    def home(request: Any) -> Any:
        here = request.presence_session.session_id if request.presence_session else "none"
        return HttpResponse(f"{request.user.get_username() or 'nobody'} {here}")

    def new_password(request: Any) -> Any:
        request.user.set_password(request.POST["password"])
        request.user.save()
        update_session_auth_hash(request, request.user)
        return HttpResponse("changed")

    def act(request: Any) -> Any:
        """Changes of staff to another account, as Django's admin makes them."""
        user = get_user_model().objects.get(username=request.POST["who"])
        if "password" in request.POST:
            user.set_password(request.POST["password"])
        user.is_active = "inactive" not in request.POST
        user.delete() if "delete" in request.POST else user.save()
        return HttpResponse("done")

    async def sign_in_async(request: Any) -> Any:
        user = await aauthenticate(request, username=request.POST["who"], password=request.POST["password"])
        await alogin(request, user)
        return HttpResponse("in")

    async def sign_out_async(request: Any) -> Any:
        await alogout(request)
        return HttpResponse("out")

    async def new_password_async(request: Any) -> Any:
        """Waits for another request before it saves, so that two requests are answered at the same time."""
        user = await request.auser()
        AT_ONCE.append(asyncio.Event())
        if len(AT_ONCE) == 2:
            for event in AT_ONCE:
                event.set()
        await asyncio.wait_for(AT_ONCE[0].wait(), 60)
        other = await get_user_model().objects.aget(username=request.POST["who"])
        other.set_password(request.POST["password"])
        await other.asave()
        return HttpResponse(f"{user.get_username()} {request.presence_session.uid}")

    @fresh_session(60)
    def pay(request: Any) -> Any:
        return home(request)

    @fresh_session(60)
    async def pay_async(request: Any) -> Any:
        return HttpResponse("paid")

    return {"pay": pay, "async/pay": pay_async, "by-rules": home, "größe": home,
            "sign-in": sign_in, "sign-out": sign_out, "": home, "password": new_password, "act": act,
            "async/sign-in": sign_in_async, "async/sign-out": sign_out_async,
            "async/password": new_password_async}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name != "urlpatterns":
        raise AttributeError(name)
    from django.contrib import admin
    from django.urls import include, path

    ours = [path(where, view) for where, view in _views().items()]
    ours.append(path("devices/", include("presence_core.web.django.your_devices")))
    return [*ours, path("admin/", admin.site.urls)] if apps.is_installed("django.contrib.admin") else ours
