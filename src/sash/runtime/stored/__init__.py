"""Rows that streams keep: stored windows with their indexes, and what goes to archives."""
