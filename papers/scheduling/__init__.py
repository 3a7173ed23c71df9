"""Scheduling policies: the experiments of the thesis, 8.5, and of the report on schedule synchronisation."""
