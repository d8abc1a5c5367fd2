"""The demo: a small site where users sign in, and simulated visitors. ``make run`` starts everything.

Start with ``launch`` (what ``make run`` starts) and ``site`` (the site). ``pages`` is the site's HTML, ``visitors``
simulates the users of ``people``, ``history`` invents the two weeks before. Nothing imports this package.
"""
