"""One-time questions: over panes, stored windows and archives."""
