"""Vocabularies that several packages share, each spelled once, as a table. It imports nothing of theirs."""
