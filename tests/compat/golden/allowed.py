"""Differences from Apache Kafka that are meant, by story and path, each with its reason."""

from __future__ import annotations

ALLOWED: dict[str, dict[str, str]] = {}
