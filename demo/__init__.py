"""The demo: a small real site that logs people in, and visitors who use it. ``python -m demo`` starts all of it."""
