"""Synopses: small summaries of panes from which many windows are answered, and the aggregates they serve."""
