"""Parts of a page that several pages draw: dialogs, notifications, the connection banner, facts of a session.

Imports ``data``, ``access`` and ``actions``; ``views`` and ``main`` import it. Start with ``kick_dialog``.
"""
