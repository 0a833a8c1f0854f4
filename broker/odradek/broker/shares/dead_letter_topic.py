"""Which partition a group's dead letters go to, and whether they may; the rules and their order are Kafka 4.4's.

The group names a topic, and not one that begins with `__`. A topic that exists allows it by
errors.deadletterqueue.group.enable. A missing one may be created by errors.deadletterqueue.auto.create.topics.enable.
Its name begins with errors.deadletterqueue.topic.name.prefix.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from odradek.broker.share_states.states import ShareKey
from odradek.foundation.errors import InvalidConfig, LeaderNotAvailable, OdradekError, TopicAlreadyExists
from odradek.foundation.ids import TopicId
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.controller.requests import NewTopic, Outcome
from odradek.metadata.image.configs import ALLOWS_DEAD_LETTERS_KEY, topic_value
from odradek.metadata.image.group_configs import (
    COPY_RECORD_KEY,
    DEAD_LETTER_TOPIC_KEY,
    RESERVED_TOPIC_PREFIX,
    group_text,
    is_group_switched_on,
)
from odradek.metadata.image.image import ClusterImage, ImageHolder, ResourceKind, TopicImage

CreateTopics = Callable[[Sequence[NewTopic]], Awaitable[list[Outcome]]]


class Destination(NamedTuple):
    """Where the dead letters of one share-partition go, and in what form."""

    topic: str
    topic_id: TopicId
    partition: int
    leader: int
    batch_bytes_max: int
    is_copying: bool
    """Whether key and value of the record are written too."""


class DeadLetterTopics:
    """Finds dead-letter topics, and makes those that are missing."""

    def __init__(
        self,
        images: ImageHolder,
        *,
        create_topics: CreateTopics,
        current_settings: Callable[[], Settings],
    ) -> None:
        self._images = images
        self._create_topics = create_topics
        self._current_settings = current_settings

    async def find(self, key: ShareKey) -> Destination:
        """Where the dead letters of `key` go now. The topic is created where it is missing.

        Raises InvalidConfig where the group's topic may not be written, LeaderNotAvailable, and what the controller
        raises.
        """
        name = self._check_topic(key.group_id)
        if name not in self._images.current.topics:
            await self._create(name)
        image = self._images.current
        topic = image.topics.get(name)
        if topic is None:
            raise LeaderNotAvailable(f"the dead-letter topic {name} is being created; try again")
        return self._destination(key, topic, image)

    def _check_topic(self, group_id: str) -> str:
        image, settings = self._images.current, self._current_settings()
        name = group_text(DEAD_LETTER_TOPIC_KEY, image.config(ResourceKind.GROUP, group_id))
        if not name:
            raise InvalidConfig(f"{group_id} names no dead-letter topic; set {DEAD_LETTER_TOPIC_KEY}")
        if name.startswith(RESERVED_TOPIC_PREFIX):
            raise InvalidConfig(
                f"{group_id} names the dead-letter topic {name}; choose a name that does not begin with "
                f"{RESERVED_TOPIC_PREFIX}"
            )
        if name in image.topics:
            texts = image.config(ResourceKind.TOPIC, name)
            if not topic_value(ALLOWS_DEAD_LETTERS_KEY, texts, settings=settings):
                raise InvalidConfig(
                    f"the topic {name} takes no dead letters of {group_id}; set its {ALLOWS_DEAD_LETTERS_KEY}=true"
                )
        elif not settings.errors_deadletterqueue_auto_create_topics_enable:
            raise InvalidConfig(
                f"the dead-letter topic {name} of {group_id} is missing; create it with {ALLOWS_DEAD_LETTERS_KEY}=true,"
                " or set errors.deadletterqueue.auto.create.topics.enable=true"
            )
        prefix = settings.errors_deadletterqueue_topic_name_prefix
        if not name.startswith(prefix):
            raise InvalidConfig(
                f"{group_id} names the dead-letter topic {name}; its name must begin with {prefix} "
                "(errors.deadletterqueue.topic.name.prefix)"
            )
        return name

    async def _create(self, name: str) -> None:
        config = {ALLOWS_DEAD_LETTERS_KEY: "true", "message.timestamp.type": "CreateTime"}
        (outcome,) = await self._create_topics([NewTopic(name, config=config)])
        if isinstance(outcome, OdradekError) and not isinstance(outcome, TopicAlreadyExists):
            raise outcome

    def _destination(self, key: ShareKey, topic: TopicImage, image: ClusterImage) -> Destination:
        index = key.partition % len(topic.partitions)
        leader = topic.partitions[index].leader
        if leader not in image.brokers:
            raise LeaderNotAvailable(f"no broker leads {topic.name}-{index} now; try again")
        texts = image.config(ResourceKind.TOPIC, topic.name)
        return Destination(
            topic.name,
            topic.id,
            index,
            leader,
            batch_bytes_max=topic_value("max.message.bytes", texts, settings=self._current_settings()),
            is_copying=is_group_switched_on(COPY_RECORD_KEY, image.config(ResourceKind.GROUP, key.group_id)),
        )
