"""The policy for a thing whose resource is deleted, the same for all kinds of things."""

from __future__ import annotations

from enum import StrEnum


class DeletionPolicy(StrEnum):
    """The policy for a topic, a group or volumes when their resource is deleted, and for volumes whose broker goes."""

    RETAIN = "Retain"
    DELETE = "Delete"
