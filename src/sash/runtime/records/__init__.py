"""What outlives a session: the catalog's history, the tables, what epochs did, and the checkpoint's directory."""
