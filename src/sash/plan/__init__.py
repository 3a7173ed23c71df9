"""Logical plans: what a query asks, validated, immutable, explainable; nothing about how it is computed."""
