"""The decision about one request, which the ASGI, WSGI and Django middleware share.

Start with ``request_check``. It uses ``known_sessions`` (heartbeats, grace) and ``breaker`` (Redis is away), reads a
request through ``request_data`` and its tokens through ``request_tokens``, and answers refused requests with
``refusals``. Nothing in here imports a framework. Sites import none of it, only our other modules do.
"""
