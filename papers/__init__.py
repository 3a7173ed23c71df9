"""The experiments and figures of the papers behind Sash; README.md lists them. Nothing in Sash imports this."""

import argparse
from pathlib import Path

# What the experiments measure, and the pictures that are drawn from it.
OUT = Path(__file__).parent / "out"


def out_directory(quick: bool) -> Path:
    """Where measurements and their pictures go. Quick ones are kept apart: they never replace full ones."""
    found = OUT / "quick" if quick else OUT
    found.mkdir(parents=True, exist_ok=True)
    return found


def measurements(name: str) -> Path:
    """The measurements that a drawing program is started for; their pictures go beside them."""
    topic = name.split(".")[0]
    parser = argparse.ArgumentParser(description=f"Draws what papers.{topic}.run measured.")
    parser.add_argument("--quick", action="store_true", help="what it measured with --quick")
    path = out_directory(parser.parse_args().quick) / name
    if not path.exists():
        raise SystemExit(f"nothing measured yet: python -m papers.{topic}.run")
    return path
