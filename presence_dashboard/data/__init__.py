"""What pages read: answers of Redis, kept for all tabs or for one, and the queries behind them.

Nothing here draws a page or changes data, but for the note of who has a person open. Imports ``texts``,
``format``, ``roles`` and ``error_sentences``; everything but those may import it. Start with ``store``: the one
connection of this process.
"""
