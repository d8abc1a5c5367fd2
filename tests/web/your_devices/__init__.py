"""The page "Your devices"."""
