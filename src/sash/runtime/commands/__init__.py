"""Statements that change the catalog: streams, tables, queries, indexes, archives."""
