"""Benchmarks of other session stores (peers), in one run on one server: ``python -m benchmarks peers``. See
benchmarks/results/README.md."""
