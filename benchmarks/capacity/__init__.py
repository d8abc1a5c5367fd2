"""What many millions of sessions need: measured growth, and a model calculated from it."""
