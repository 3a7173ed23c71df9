"""What a session remembers of its catalog: the history of changes, the tables, the checkpoint's directory."""
