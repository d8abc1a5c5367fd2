"""Sessions: login, validate, end, read, their tombstones, and replica acknowledgement."""
