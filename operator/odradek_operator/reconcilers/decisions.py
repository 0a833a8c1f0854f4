"""What decisions about any resource of a cluster are made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Reach(Enum):
    """Whether the cluster can be asked."""

    REACHED = "reached"
    UNREACHABLE = "unreachable"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Hold the resource, so that its deletion is seen."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let the resource go."""


@dataclass(frozen=True, slots=True)
class News:
    """An event for the resource."""

    reason: str
    message: str
    is_warning: bool = False
