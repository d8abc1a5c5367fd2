"""Text that people write and read: how search compares it, its languages, and user agents."""
