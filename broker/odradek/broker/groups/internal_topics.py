"""Creates the internal topics of Kafka Streams applications: repartition topics and changelogs.

A heartbeat names what is missing and is answered at once. The topics are created in the background, each once at a
time. Later heartbeats report a failure for a while, in which no attempt is made.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence

from odradek.foundation.errors import OdradekError
from odradek.foundation.limits import INTERNAL_TOPIC_FAILURE_SECONDS_MAX, INTERNAL_TOPIC_FAILURES_MAX
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.controller.requests import NewTopic, Outcome

logger = logging.getLogger(__name__)

CreateTopics = Callable[[Sequence[NewTopic]], Awaitable[list[Outcome]]]


class InternalTopics:
    """The topics that this broker is creating, and those that it could not create. All is on the event loop."""

    def __init__(self, create_topics: CreateTopics | None) -> None:
        self._create_topics = create_topics
        self._tasks: TaskOwner | None = None
        self._under_way: set[str] = set()
        # The failures by topic: the loop time at which each is forgotten, and its words. The oldest is the first.
        self._failures: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def start(self, tasks: TaskOwner) -> None:
        """Let `tasks` own the work from now on."""
        self._tasks = tasks

    def create(self, topics: Sequence[NewTopic], *, failures_last_ms: int) -> None:
        """Begin to create the topics, those left out that are being created or have failed lately."""
        if self._create_topics is None or self._tasks is None:
            return
        failed = self.list_failures(topic.name for topic in topics)
        wanted = [topic for topic in topics if topic.name not in self._under_way and topic.name not in failed]
        if wanted:
            self._under_way.update(topic.name for topic in wanted)
            seconds = min(failures_last_ms / 1000, INTERNAL_TOPIC_FAILURE_SECONDS_MAX)
            self._tasks.start(self._create(self._create_topics, wanted, seconds), name="internal-topics")

    async def _create(self, create_topics: CreateTopics, topics: Sequence[NewTopic], seconds: float) -> None:
        names = [topic.name for topic in topics]
        try:
            outcomes: Sequence[OdradekError | None] = await create_topics(topics)
        except OdradekError as error:
            outcomes = [error] * len(topics)
        finally:
            self._under_way.difference_update(names)
        until = asyncio.get_running_loop().time() + seconds
        for name, outcome in zip(names, outcomes, strict=True):
            if outcome is not None:
                self._failures[name] = (until, str(outcome))
                self._failures.move_to_end(name)
        while len(self._failures) > INTERNAL_TOPIC_FAILURES_MAX:
            self._failures.popitem(last=False)
        made = [name for name, outcome in zip(names, outcomes, strict=True) if outcome is None]
        if made:
            logger.info("created the internal topics %s", ", ".join(made))

    def list_failures(self, names: Iterable[str]) -> dict[str, str]:
        """What hindered the creation of these topics lately, by name."""
        now = asyncio.get_running_loop().time()
        found = {}
        for name in names:
            until, words = self._failures.get(name, (0.0, ""))
            if until > now:
                found[name] = words
            else:
                self._failures.pop(name, None)
        return found
