"""What outlives a session: the catalog's history, the tables, the journal of epochs, the checkpoint's directory."""
