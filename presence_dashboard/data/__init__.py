"""What pages read: answers of Redis, kept for all tabs or for one, and the queries behind them.

Nothing here changes data or draws a page. Imports ``texts``, ``format``, ``roles`` and ``error_sentences``; everything
but those may import it. Start with ``store``: the one connection of this process.
"""
