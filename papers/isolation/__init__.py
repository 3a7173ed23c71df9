"""Isolation of window slides and reads: the experiments of the thesis, 7.5."""
