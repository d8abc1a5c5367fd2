"""Benchmarks of other session stores (peers), in one run on one server: ``python -m benchmarks peers``. See
docs/peers.md."""
