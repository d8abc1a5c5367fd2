"""Benchmarks against the peers, in one run on one server: ``python -m benchmarks peers``. See docs/peers.md."""
