"""Server-side assignors of consumer groups, by name. `members` says what an assignor is."""

from __future__ import annotations

from typing import Final

from odradek.broker.groups.consumer.assignors.members import Assign

# Imported when first used: a broker without consumer groups needs none of them.
ASSIGNORS: Final = ("uniform", "range")


def assignor(name: str) -> Assign:
    """The assignor of that name. Raises KeyError for an unknown one."""
    if name == "uniform":
        from odradek.broker.groups.consumer.assignors import uniform

        return uniform.assign
    if name == "range":
        from odradek.broker.groups.consumer.assignors import range as ranges

        return ranges.assign
    raise KeyError(name)
