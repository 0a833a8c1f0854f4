"""How a resource names another cluster: a Cluster of its namespace, or the addresses of any Kafka cluster."""

from __future__ import annotations

from typing import Final

from odradek_operator.resources.schema import Text
from odradek_operator.resources.structure import Rule

BOOTSTRAP: Final = Text(
    min_length=1,
    max_length=2048,
    pattern=r"^[^,\s]+:[0-9]+(,[^,\s]+:[0-9]+)*$",
    what="addresses as HOST:PORT, with commas between them",
)
CONNECTION_RULES: Final = (
    Rule(
        "has(self.cluster) != has(self.bootstrap)",
        "give either cluster, a Cluster of this namespace, or bootstrap, the addresses of another cluster",
    ),
    Rule(
        "!has(self.user) || has(self.cluster)", "user goes with cluster; beside bootstrap give clientSecret"
    ),
    Rule(
        "!has(self.clientSecret) || has(self.bootstrap)",
        "clientSecret goes with bootstrap; beside cluster give user",
    ),
)
