"""Queries without SLIDE, and joins with SLIDE: plans, their state and their views."""
