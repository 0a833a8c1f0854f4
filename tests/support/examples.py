"""How many examples property tests try: 25 each, or 100 where `ODRADEK_TESTS=thorough`.

A test that needs another number asks `examples` for it, so that it is scaled by the same factor.
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

THOROUGH: Final = "thorough"
IS_THOROUGH: Final = os.environ.get("ODRADEK_TESTS") == THOROUGH
_QUICK_SHARE: Final = 4
_QUICK_MIN: Final = 10


def examples(count: int) -> int:
    """`count` of a thorough run, else a quarter of it, but ten at least where `count` is that many."""
    return count if IS_THOROUGH else max(min(count, _QUICK_MIN), count // _QUICK_SHARE)


def load_profile() -> None:
    """Set what holds for all property tests of the run."""
    # A failing example is printed with a blob that replays it; time is pytest's to bound, not a single example's.
    for name, count in (("quick", 100 // _QUICK_SHARE), (THOROUGH, 100)):
        settings.register_profile(
            name,
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow],
            max_examples=count,
        )
    settings.load_profile(THOROUGH if IS_THOROUGH else "quick")
