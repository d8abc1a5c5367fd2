"""The HTTP service that ``presence serve`` runs: a FastAPI app over one AsyncPresence.

Start with ``app``, then ``routes``: one module for each kind of caller. Around a request: ``request_limits`` (size,
time, headers), ``authorization`` (API keys and scopes), ``schemas`` and ``json_format`` (what is read and written),
``problems`` (errors). ``event_stream`` serves GET /v1/events. ``site_pages`` are the addresses that a site's own pages
call without a key. ``server`` runs the app under uvicorn. Only the command line imports this package.
"""
