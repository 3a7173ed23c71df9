"""Sharing between queries: pane tables and partials (rule SS1), joint scans (rule CS2)."""
