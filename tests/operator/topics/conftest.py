"""The broker that the tests of this folder share."""

from __future__ import annotations

from tests.operator.support.broker_world import broker

__all__ = ["broker"]
