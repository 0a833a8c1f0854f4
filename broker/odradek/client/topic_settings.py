"""The settings that a topic may have, for a check before a request: names, kinds, bounds, texts. The declarations are
the broker's own, so a client of the same version has the same rules.
"""

from __future__ import annotations

from odradek.metadata.image.configs import ALLOWS_DEAD_LETTERS_KEY, TOPIC_SETTINGS, find_topic_setting

__all__ = ["ALLOWS_DEAD_LETTERS_KEY", "TOPIC_SETTINGS", "find_topic_setting"]
