"""The demo: a small site where users sign in, and simulated visitors. ``make run`` starts everything.

Start with ``site`` (the site) and ``launch`` (what ``make run`` starts). ``pages`` is the site's HTML, ``push`` closes
open pages, ``visitors`` simulates the users of ``people``, ``names`` and ``devices``. Nothing imports this package.
"""
