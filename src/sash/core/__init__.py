"""The vocabulary every other layer speaks: time, windows, clocks, errors."""
