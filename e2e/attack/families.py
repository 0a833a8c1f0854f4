"""The families of attacks, in the order in which they are played."""

from __future__ import annotations

import importlib
from typing import Final

FAMILIES: Final = ("values", "hands", "watches", "leftovers", "volumes", "pods", "secrets")


def load() -> None:
    """Fill the list of attacks."""
    for family in FAMILIES:
        importlib.import_module(f"e2e.attack.{family}")
