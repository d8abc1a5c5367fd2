"""What the library costs compared with bare Redis commands, measured in one run: ``python -m benchmarks``."""
