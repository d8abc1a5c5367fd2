"""What the library costs beside bare Redis commands, measured in one run: ``python -m benchmarks``."""
