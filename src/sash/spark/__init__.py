"""The only layer that knows Spark: sessions, sources, the one pass over each micro-batch."""
