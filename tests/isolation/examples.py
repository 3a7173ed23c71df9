"""The worked examples of `tests/golden/transactions.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sash.isolation.history import History

GOLDEN = Path(__file__).parents[1] / "golden" / "transactions.json"
EXAMPLES: dict[str, Any] = {each["id"]: each for each in json.loads(GOLDEN.read_text())["examples"]}
# The examples that some test has asked for.
EXERCISED: set[str] = set()


def golden(*names: str) -> pytest.MarkDecorator:
    """Run a test with the inputs and the expected values of these examples, as `given` and `want`."""
    identifiers = [f"transactions.{name}" for name in names]
    EXERCISED.update(identifiers)
    cases = [(EXAMPLES[each]["inputs"], EXAMPLES[each]["expected"]) for each in identifiers]
    return pytest.mark.parametrize(("given", "want"), cases, ids=names)


def parsed(given: dict[str, Any]) -> History:
    filled = int(given["executed_before"].removeprefix("T0 .. T")) if "executed_before" in given else given["n"] - 1
    return History.parse(given["history"], given["n"], filled)


def named(name: str) -> History:
    """One of Ha to Hh."""
    return parsed(EXAMPLES[f"transactions.history.{name}"]["inputs"])
