"""Open websockets and event streams close when their session has ended."""
