"""Queries without SLIDE, and joins under it: plans, their state and their views."""
