"""The kinds there are, in the order of the reference page."""

from __future__ import annotations

from typing import Final

from odradek_operator.resources.cluster import CLUSTER
from odradek_operator.resources.definition import Definition

DEFINITIONS: Final[tuple[Definition, ...]] = (CLUSTER,)
