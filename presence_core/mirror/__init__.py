"""``presence mirror``: our copies of the sessions that a site keeps in a store of its own.

Start reading in ``loop.py``: it reads the site's store in slices, hears of changes, and follows our own events. Each
key that may have changed goes through ``reconcile.py``, which compares it with our copy. ``stores.py`` is the table of
stores, ``formats`` reads what they write, ``digests.py`` makes our ids from those of the site. ``look.py`` says what a
server has.
"""
