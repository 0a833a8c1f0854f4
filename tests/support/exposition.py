"""A scrape of sources, as a server would answer it."""

from __future__ import annotations

from odradek.foundation.exposition import Exposition
from odradek.foundation.metrics import MetricsRegistry


def exposition_text(registry: MetricsRegistry, accept: str = "") -> str:
    """The whole text, in the format that `accept` asks for."""
    return b"".join(Exposition(accept).parts(registry.collect())).decode()
