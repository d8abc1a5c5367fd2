"""The benchmarks of the methods, each compared with bare Redis commands."""
