"""Addresses that a site's own pages call without an API key: the counter (R1), visits and friends (R5), a script.

A caller is the user of their session token, or else a visitor with a random cookie. The lists in Redis hold a digest of
that cookie, so it cannot be read there and used.

Start with ``routes``. ``access`` checks origin and rate, ``visitors`` finds the caller, ``options`` are the settings,
``script`` is presence.js. Only ``service.app`` and ``service.server`` import this package.
"""
