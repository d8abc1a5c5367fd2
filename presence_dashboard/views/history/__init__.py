"""The History page: ended sessions, blocks, bulk kicks and staff actions. Start with ``history``."""
