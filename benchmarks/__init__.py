"""Benchmarks: `run_*.py` measure and write JSON, `report.py` draws. Ratios are taken side by side in one run."""
