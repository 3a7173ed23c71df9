"""Expressions with Spark's types, in a scope: trees become terms, terms canonical text or parts of a plan."""
