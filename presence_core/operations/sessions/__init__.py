"""Sessions: login, validate, end, read, and their tombstones."""
