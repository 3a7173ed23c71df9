"""How many examples property tests try: few in `make test`, many in `make deep`.

    quick   about a tenth of the examples, other ones in every run
    ci      the same number, the same ones in every run
    deep    all examples, other ones in every run

HYPOTHESIS_PROFILE chooses; quick is the default. A failure prints the line that reproduces it.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
if PROFILE not in ("quick", "ci", "deep"):
    raise ValueError(f"HYPOTHESIS_PROFILE is quick, ci or deep, not {PROFILE!r}")


def examples(deep: int) -> int:
    """The number of examples for a test that tries `deep` of them in `make deep`."""
    # Hypothesis tries the simplest example first, so a single one would show nothing.
    return deep if PROFILE == "deep" else min(deep, 2 + deep // 10)


def load_profile() -> None:
    common = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile(PROFILE, max_examples=examples(100), derandomize=PROFILE == "ci", **common)
    settings.load_profile(PROFILE)
