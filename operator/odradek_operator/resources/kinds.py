"""The kinds there are, in the order of the reference page."""

from __future__ import annotations

from typing import Final

from odradek_operator.resources.cluster import CLUSTER
from odradek_operator.resources.consumer_group import CONSUMER_GROUP
from odradek_operator.resources.definition import Definition
from odradek_operator.resources.mirror import MIRROR_DEFINITION
from odradek_operator.resources.topic import TOPIC
from odradek_operator.resources.user import USER

DEFINITIONS: Final[tuple[Definition, ...]] = (CLUSTER, TOPIC, CONSUMER_GROUP, USER, MIRROR_DEFINITION)
