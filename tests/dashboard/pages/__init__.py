"""The pages, one or more test modules for each."""
