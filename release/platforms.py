"""The Pythons and systems that are tried, declared once: classifiers, pages and the Makefile say the same.

A version is added here once its own tests have passed: `make test VENV=.cache/python3.13 PYTHON=python3.13`.
"""

from __future__ import annotations

from typing import Final

PYTHON_MINIMUM: Final = "3.11"
"""What `requires-python` asks for. Every test runs on it."""

PYTHONS_TRIED: Final = ("3.11", "3.12", "3.13")
"""Versions with a classifier: every module is imported with warnings as errors, and tests of the lower layers pass."""

PYTHONS_READ: Final = ("3.14",)
"""Versions on which no test has run: sources compile there without a warning, and dependencies have wheels."""

SYSTEMS_TRIED: Final = ("POSIX :: Linux",)
"""Systems with a classifier."""


def classifiers() -> set[str]:
    """The classifiers of each distribution that are about Pythons and systems."""
    languages = ("3", "3 :: Only", *PYTHONS_TRIED)
    return {
        *(f"Programming Language :: Python :: {version}" for version in languages),
        *(f"Operating System :: {system}" for system in SYSTEMS_TRIED),
    }
