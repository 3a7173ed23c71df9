"""The experiments and figures of the papers behind Sash; README.md lists them. Nothing in Sash imports this."""

from pathlib import Path

# What the experiments measure, and the pictures that are drawn from it.
OUT = Path(__file__).parent / "out"
