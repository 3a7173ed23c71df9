"""Logical plans: what a query asks, validated, immutable, explainable; no word about how it is computed."""
