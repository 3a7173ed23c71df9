"""Storage of panes and checkpoints: group dictionaries, the ring of closed panes, epoch files, their manifest."""
