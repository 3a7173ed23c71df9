"""Frequent items by short lists: the experiments of the thesis, 6.3."""
