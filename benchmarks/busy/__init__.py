"""A busy site: thousands of requests in flight, many threads, connections that died, other session packages."""
