"""Streams while they run: the protocol of an epoch, recovery, what Spark brings and how fast."""
