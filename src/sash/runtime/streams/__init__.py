"""Running streams: the protocol of an epoch, recovery, Spark's queries and their pace."""
