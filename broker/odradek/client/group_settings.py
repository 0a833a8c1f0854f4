"""The settings that a group may have, for a check before a request: names, kinds, bounds, texts. The declarations are
the broker's own, so a client of the same version has the same rules.
"""

from __future__ import annotations

from odradek.metadata.image.group_configs import (
    COPY_RECORD_KEY,
    DEAD_LETTER_TOPIC_KEY,
    FENCED_UNTIL_KEY,
    GROUP_SETTINGS,
    RESETS_KEY,
)

__all__ = ["COPY_RECORD_KEY", "DEAD_LETTER_TOPIC_KEY", "FENCED_UNTIL_KEY", "GROUP_SETTINGS", "RESETS_KEY"]
