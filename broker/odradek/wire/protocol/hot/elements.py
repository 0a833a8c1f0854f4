"""How many topics and partitions a request that is read by hand may have, within a turn of the loop and at all.

A parser counts them already, for the bound of all requests. So one that begins with a higher count stops where a turn
would be too long, and a small request pays nothing for the question.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.limits import REQUEST_ARRAY_ELEMENTS_MAX
from odradek.foundation.turn_limits import PARTITIONS_ANSWERED_AT_ONCE_MAX

ELEMENTS_BEFORE: Final = REQUEST_ARRAY_ELEMENTS_MAX - PARTITIONS_ANSWERED_AT_ONCE_MAX


class TooManyElements(InvalidRequest):
    """The request has more topics and partitions than its parser takes."""
