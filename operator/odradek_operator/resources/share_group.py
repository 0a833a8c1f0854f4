"""What a ConsumerGroup of the type Share has besides (KIP-932, KIP-1191), and the settings of every group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from odradek.client.group_settings import (
    COPY_RECORD_KEY,
    DEAD_LETTER_TOPIC_KEY,
    FENCED_UNTIL_KEY,
    GROUP_SETTINGS,
    RESETS_KEY,
)
from odradek_operator.resources.configuration import Configuration
from odradek_operator.resources.schema import INT64_MAX, Flag, Text, Whole
from odradek_operator.resources.structure import Doc, Rule
from odradek_operator.resources.topic import TOPIC_NAME_LENGTH_MAX, TOPIC_NAME_PATTERN

_REFUSED: Final = {
    DEAD_LETTER_TOPIC_KEY: "set spec.deadLetters.topic",
    COPY_RECORD_KEY: "set spec.deadLetters.copyRecords",
    FENCED_UNTIL_KEY: "a reset with whenActive: Fence sets it",
    RESETS_KEY: "the operator keeps it",
}
GROUP_CONFIGURATION: Final = Configuration(
    (setting for setting in GROUP_SETTINGS.values() if setting.key not in _REFUSED), refused=_REFUSED
)


class GroupType(StrEnum):
    """How the members of a group divide records among them."""

    CONSUMER = "Consumer"
    SHARE = "Share"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterWish:
    """Where the records go that a share group gives up."""

    RULES: ClassVar = (
        Rule("!self.topic.startsWith('__')", "the brokers' own topics begin with __; name another one"),
    )

    topic: Annotated[
        str,
        Text(
            min_length=1,
            max_length=TOPIC_NAME_LENGTH_MAX,
            pattern=TOPIC_NAME_PATTERN,
            what="a topic's name: letters, digits, ., _ and -",
        ),
        Doc(
            "The topic. It needs errors.deadletterqueue.group.enable=true, and a name that begins with dlq. unless the "
            "brokers have another prefix."
        ),
    ]
    copy_records: Annotated[
        bool,
        Flag(),
        Doc("Whether a dead letter has the record's key and value, or only headers with its origin."),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterTopicStatus:
    """The dead-letter topic as it was found."""

    topic: Annotated[str, Text(max_length=TOPIC_NAME_LENGTH_MAX), Doc("The topic.")]
    records: Annotated[
        int | None,
        Whole(maximum=INT64_MAX),
        Doc("Dead letters in it, of all groups that name it. Absent where it is not known."),
    ] = None
