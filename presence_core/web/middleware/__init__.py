"""The decision about one request, which the ASGI, WSGI and Django middleware share.

Start with ``request_check``. It uses ``known_sessions`` (heartbeats, grace) and ``breaker`` (Redis is away), reads a
request through ``request_data``, and answers refused requests with ``refusals``. Nothing in here imports a framework,
and only ``web.asgi``, ``web.wsgi`` and ``web.django`` import this package.
"""
