"""Errors of the registry."""

from __future__ import annotations

from odradek.foundation.errors import OdradekError


class StoreError(OdradekError):
    """The root of the registry's errors. `operation` is the index of the one that failed, in a batch."""

    operation: int | None = None


class NodeExists(StoreError):
    """The registry has a node of that path."""


class NoNode(StoreError):
    """The registry has no node of that path."""


class NodeNotEmpty(StoreError):
    """The registry's node has children, so it cannot be deleted."""


class VersionConflict(StoreError):
    """The node changed since it was read."""


class StoreAccessDenied(StoreError):
    """The registry does not let this session do that: the node belongs to another user."""


class StoreWriteTooLarge(StoreError):
    """The write exceeds the registry's limit; it was not sent."""


class StoreConnectionLost(StoreError):
    """The registry did not answer; the write may or may not have been done."""


class StoreWriteFailed(StoreConnectionLost):
    """The registry's disk refused the write, and nothing was changed."""


class StoreSessionExpired(StoreError):
    """The registry ended this session: its ephemerals are gone."""
