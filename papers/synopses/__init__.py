"""Shared synopses: figures 9 to 11 of Arasu and Widom."""
