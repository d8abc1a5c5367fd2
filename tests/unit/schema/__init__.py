"""The vocabularies: each table has all that its members need, and all else follows it."""
