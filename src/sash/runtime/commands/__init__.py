"""What statements do to the catalog: streams, tables, queries, indexes, archives."""
