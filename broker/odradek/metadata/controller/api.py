"""The requests of a broker to the active controller, wherever that runs.

`controller.Controller` implements it in this process, on a single node. `broker.process.remote_controller` implements
it over the network, in a cluster; mypy holds both to it.

What it leaves out: requests of clients that change topics or settings, such as CreateTopics. A single node makes them
on its own `Controller`; a broker of a cluster forwards them as whole frames (`broker.process.forwarding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from odradek.foundation.errors import RequestError
    from odradek.metadata.controller.requests import AlterConfigOp, NewTopic, Outcome, Resource
    from odradek.metadata.image.image import TopicImage


class ControllerApi(Protocol):
    """The active controller. Each method may also raise StoreError (in this process) or NotController."""

    async def ensure_topic(self, name: str) -> TopicImage:
        """The topic, created if missing: with the broker's defaults, or an internal topic's own settings.

        Raises the RequestError of a topic that cannot be created.
        """

    async def ensure_topics(self, names: Sequence[str]) -> list[TopicImage | RequestError]:
        """The topics, created if missing as by `ensure_topic`; one outcome for each name, in their order."""

    async def create_internal_topics(self, topics: Sequence[NewTopic]) -> list[Outcome]:
        """Create topics that Kafka Streams applications need; one outcome each, in their order, None for success."""

    async def incremental_alter_configs(
        self, requests: Sequence[tuple[Resource, Sequence[AlterConfigOp]]], *, validate_only: bool = False
    ) -> list[Outcome]:
        """Change single settings of resources (KIP-339); one outcome each, in their order, None for success."""

    async def allocate_producer_ids(self, *, above: int = -1) -> tuple[int, int]:
        """A block of unused producer ids, all greater than `above`: the first id, and how many (KIP-730)."""
