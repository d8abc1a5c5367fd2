"""HTTP: middleware for sites, JWT revocation, webhooks, and the HTTP service.

Sites import ``fastapi``, ``asgi``, ``wsgi`` or ``django`` (the middleware), ``rules`` and ``cookies`` (its settings),
``jwt`` and ``webhooks``. ``middleware`` holds what the three middlewares share, ``service`` is what ``presence serve``
runs. ``proxies`` is shared by all. The command line and the dashboard may import this package; the rest of the library
may not.

Start with ``middleware.request_check`` for sites, and with ``service.app`` for the service.
"""
