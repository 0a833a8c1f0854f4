"""The settings of a group, as its resource wants them, and its dead-letter topic. Pure.

The status has the keys that the resource has made. So a key that is taken away goes back to the brokers' value, and
those of others are left alone. The keys are noted before the settings change.
"""

from __future__ import annotations

from dataclasses import replace

from odradek.client.group_settings import COPY_RECORD_KEY, DEAD_LETTER_TOPIC_KEY
from odradek_operator.gateways.group_values import ActualGroup, AlterSettings, ExpectedGroup, GroupsSeen
from odradek_operator.reconcilers.consumer_group.facts import (
    Action,
    ActualGroupState,
    DesiredGroup,
    Note,
)
from odradek_operator.resources.conditions import Condition, condition
from odradek_operator.resources.share_group import DeadLetterTopicStatus

DEAD_LETTER_TOPIC_READY = "DeadLetterTopicReady"


def collect_settings(desired: DesiredGroup) -> dict[str, str]:
    """The settings that the resource makes, by key."""
    settings = dict(desired.spec.config or {})
    if (letters := desired.spec.dead_letters) is not None:
        settings[DEAD_LETTER_TOPIC_KEY] = letters.topic
        settings[COPY_RECORD_KEY] = "true" if letters.copy_records else "false"
    return settings


def list_made_settings(desired: DesiredGroup, group: ActualGroup) -> tuple[str, ...]:
    """The keys of wanted settings that the group has. The resource gives these back when it no longer names them."""
    wanted = collect_settings(desired)
    return tuple(sorted(key for key, text in wanted.items() if group.settings.get(key) == text))


def expect_group(desired: DesiredGroup) -> ExpectedGroup:
    """What a decision about the group needs to know."""
    reset, letters = desired.spec.reset, desired.spec.dead_letters
    topics = [*desired.spec.topics, *(reset.topics if reset is not None else ())]
    return ExpectedGroup(
        topics=tuple(dict.fromkeys(topics)),
        setting_keys=tuple(sorted({*collect_settings(desired), *desired.status.settings})),
        dead_letter_topic=None if letters is None else letters.topic,
        is_queue=desired.is_queue,
    )


def plan_settings(desired: DesiredGroup, group: ActualGroup) -> tuple[Action, ...]:
    """The steps to the settings that are wanted."""
    wanted, made = collect_settings(desired), desired.status.settings
    changes: dict[str, str | None] = {
        key: text for key, text in wanted.items() if group.settings.get(key) != text
    }
    changes |= {key: None for key in made if key not in wanted and key in group.settings}
    if not changes:
        return ()
    noted = tuple(sorted({*wanted, *made}))
    notes = () if noted == made else (Note(replace(desired.status, settings=noted)),)
    return (*notes, AlterSettings(group.group_id, changes))


# --- dead letters -----------------------------------------------------------------------------------------------------


def describe_dead_letters(desired: DesiredGroup, seen: GroupsSeen) -> DeadLetterTopicStatus | None:
    """The dead-letter topic that is named, with its records where all its partitions answer."""
    letters = desired.spec.dead_letters
    if letters is None:
        return None
    ends = [found for where, found in seen.ends.items() if where.topic == letters.topic]
    is_known = len(ends) == len(seen.partitions.get(letters.topic, ()))
    records = sum(found.end - found.start for found in ends) if ends and is_known else None
    return DeadLetterTopicStatus(topic=letters.topic, records=records)


def check_dead_letter_topic(desired: DesiredGroup, actual: ActualGroupState) -> Condition | None:
    """Whether the brokers write dead letters to the topic, by the rules that they have for one."""
    letters, seen = desired.spec.dead_letters, actual.seen
    if letters is None or seen is None:
        return None
    rules, topic = seen.dead_letter_rules, letters.topic
    if rules is None:
        message = f"the brokers do not say now whether {topic} takes dead letters; it is asked again"
        return condition(DEAD_LETTER_TOPIC_READY, None, "Unknown", message)
    if not topic.startswith(rules.prefix):
        message = (
            f"the brokers write dead letters only to topics whose names begin with {rules.prefix}; name another topic, "
            "or set errors.deadletterqueue.topic.name.prefix of the brokers"
        )
        return condition(DEAD_LETTER_TOPIC_READY, False, "NameRefused", message)
    if not seen.partitions.get(topic):
        if rules.creates_topics:
            return condition(
                DEAD_LETTER_TOPIC_READY, True, "CreatedWhenNeeded", "the first dead letter creates it"
            )
        message = f"there is no topic {topic}; make it with errors.deadletterqueue.group.enable=true"
        return condition(DEAD_LETTER_TOPIC_READY, False, "Missing", message)
    if topic not in rules.allowing:
        message = (
            f"the topic {topic} takes no dead letters; set its errors.deadletterqueue.group.enable to true"
        )
        return condition(DEAD_LETTER_TOPIC_READY, False, "NotAllowed", message)
    return condition(DEAD_LETTER_TOPIC_READY, True, "Allowed")
