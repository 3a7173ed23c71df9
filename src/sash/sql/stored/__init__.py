"""One-time questions over stored rows: what Spark may be asked, and what an index may spare it."""
