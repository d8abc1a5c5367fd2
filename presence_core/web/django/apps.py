"""The Django app: connects the handlers of Django's signals."""

from __future__ import annotations

from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db.models.signals import post_delete, post_save, pre_save

from presence_core.fork_safety import renew_in_child
from presence_core.web.django.config import SiteConfig, config, fresh_presence, get_presence

__all__ = ["PresenceConfig", "config", "fresh_presence", "get_presence"]

SIGNED_COOKIES: Final = "django.contrib.sessions.backends.signed_cookies"


class PresenceConfig(SiteConfig):
    """``presence_core.web.django`` in INSTALLED_APPS. All settings but the URL have defaults:

    ======================  ============================================================================================
    PRESENCE_REDIS_URL      URL of Redis, or "embedded"; default: as ``Presence.from_env`` finds it
    PRESENCE_TEST_REDIS_URL the same for a test run; default: the embedded server. Each process has its own namespace
    PRESENCE_SETTINGS       dict of Settings: ``{"idle_timeout": 1800, …}``. A field that is not in it is read from the
                            environment: ``PRESENCE_<FIELD>``. Default of both timeouts: the expiry that ``set_expiry``
                            gave the session before login, else SESSION_COOKIE_AGE. With SESSION_SAVE_EVERY_REQUEST the
                            absolute timeout is a year
    PRESENCE_RULES          dict of Rules: ``{"mode": "adopt", "routes": {"/feed": "open"}, …}``. ``cookie`` and
                            ``bearer`` have no effect, and anonymous visitors pass: Django handles them
    PRESENCE_DESCRIBE       "path.to.function": (request, user) → dict of login's arguments such as name, device, app
    PRESENCE_ON_ENDED       "path.to.function": (request, ended or None) → the response to a refused request
    PRESENCE_DEVICE_COOKIE  True (default): a login over HTTPS sets a cookie, which tells a known device from a new one
    PRESENCE_KICK_OTHERS    True (default): a new password ends the user's other sessions
    PRESENCE_UPDATE_PERSON  True (default): a new name or email of a user is that of their sessions
    PRESENCE_YOUR_DEVICES   dict of DeviceOptions for "Your devices"; ``template`` and ``language`` may be
                            "path.to.function". Default key: from SECRET_KEY
    ======================  ============================================================================================
    """

    default = True  # Django finds two app configurations here, this one and its base
    name = "presence_core.web.django"
    label = "presence"
    verbose_name = "Presence"

    def ready(self) -> None:
        from presence_core.web.django import signals
        from presence_core.web.django.checks import check_deployment, check_site

        if settings.SESSION_ENGINE == SIGNED_COOKIES:
            raise ImproperlyConfigured("SESSION_ENGINE must keep sessions on the server: presence cannot end a cookie.")
        self.check_settings()
        checks.register(check_site, "presence")
        checks.register(check_deployment, "presence", deploy=True)
        renew_in_child(self, SiteConfig.renew_test_namespace)
        user_logged_in.connect(signals.on_login, dispatch_uid="presence")
        user_logged_out.connect(signals.on_logout, dispatch_uid="presence")
        user_login_failed.connect(signals.on_login_failed, dispatch_uid="presence")
        for model in apps.get_models():  # proxies and children of the user model send their own signals
            if issubclass(model, get_user_model()):
                self.listen_to(model)
        setting_changed.connect(self.on_setting_changed, dispatch_uid="presence")

    def listen_to(self, model: Any) -> None:
        """End the sessions of this model's users when they are deactivated or deleted.

        Only models that are created after ``ready`` need this call.
        """
        from presence_core.web.django import signals

        pre_save.connect(signals.on_user_saving, sender=model, dispatch_uid="presence")
        post_save.connect(signals.on_user_saved, sender=model, dispatch_uid="presence")
        if model._meta.concrete_model is get_user_model():  # a child model's delete is sent for its parent too
            post_delete.connect(signals.on_user_deleted, sender=model, dispatch_uid="presence")
