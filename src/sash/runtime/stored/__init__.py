"""Rows that streams keep: stored windows with their indexes, and rows for archives."""
