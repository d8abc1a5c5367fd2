"""Presence for Django: add it to INSTALLED_APPS and its middleware behind Django's own AuthenticationMiddleware.

The sessions stay Django's. Ours goes by an id that is a hash of the Django session key (the key is a bearer secret, and
ids are shown to staff), made at login and kept in the session's data: when Django cycles the key, the secret changes
and the session stays, as ``rotate`` does it for tokens.
"""
