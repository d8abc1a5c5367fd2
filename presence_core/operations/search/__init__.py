"""Lists, filters, facets and people: how a page is planned, read from every shard and merged."""
