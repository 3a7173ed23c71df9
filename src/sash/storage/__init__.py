"""Where panes and checkpoints live: group dictionaries, the ring of closed panes, epoch files and their manifest."""
