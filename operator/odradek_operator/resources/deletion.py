"""What becomes of a thing with its resource, whatever the thing is."""

from __future__ import annotations

from enum import StrEnum


class DeletionPolicy(StrEnum):
    """What becomes of a topic, a group or volumes when their resource is deleted, and of volumes whose broker goes."""

    RETAIN = "Retain"
    DELETE = "Delete"
