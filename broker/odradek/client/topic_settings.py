"""The settings that a topic may have, for those who check them before they ask a broker: names, kinds, bounds, texts.

The declarations are the broker's own, so a client of the same version knows what it will say.
"""

from __future__ import annotations

from odradek.cluster.configs import TOPIC_SETTINGS, find_topic_setting

__all__ = ["TOPIC_SETTINGS", "find_topic_setting"]
