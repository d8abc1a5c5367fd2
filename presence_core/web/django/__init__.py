"""Presence for Django: add it to INSTALLED_APPS, and its middleware after Django's AuthenticationMiddleware.

Django keeps its own sessions. Ours has an id of its own: a hash of the Django session key, made at login and stored in
the Django session's data. The key itself gives access, so it must not be an id that staff can see. When Django changes
the key, our session stays the same.

Start with ``middleware`` (each request) and ``signals`` (login, logout, account changes). ``apps`` reads the settings,
``login_details`` says what a login records, ``current_request`` knows the request that this thread answers. ``admin``
has the page of a user's sessions, ``checks`` the system checks, ``test_server`` the server of a test run, and
``management/commands`` the command ``manage.py presence``.
"""
