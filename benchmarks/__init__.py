"""Benchmarks of Sash: `run_*.py` measure and write JSON, `report.py` draws. Those of the papers are in papers/.

Ratios are taken side by side in one run.
"""
