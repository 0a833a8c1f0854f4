"""The partitions that are read, with the ids of their topics, and the check that their logs still have a range.

An offset means nothing without the id of its topic: a topic that was deleted and created again has other records at
the same offsets. Each verdict of lost data has a name: `truncated`, `recreated`, `deleted`, `shortened`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.metadata import ClusterInfo
from odradek.foundation.ids import TopicPartition
from odradek_pipeline.errors import OptionError
from odradek_pipeline.settings.options import Options

logger = logging.getLogger(__name__)

_WAYS = ("subscribe", "subscribePattern", "assign")


class DataLossError(RuntimeError):
    """Records that were to be read are not there any more; the text names the kind, the partition and the offsets."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(
            f"{kind}: {what}. To continue without these records set the option 'failOnDataLoss' to 'false'"
        )
        self.kind = kind
        self.what = what


@dataclass(frozen=True, slots=True)
class TopicSubscription:
    """The topics that the options name. Of `names`, `pattern` and `assigned` one is not empty."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[TopicPartition, ...] = ()

    @classmethod
    def of(cls, options: Options) -> TopicSubscription:
        """Raises OptionError unless exactly one way is chosen."""
        chosen = [name for name in _WAYS if options.is_set(name)]
        if len(chosen) != 1:
            raise OptionError(
                f"set one of {', '.join(_WAYS)} to name the topics; {' and '.join(chosen) or 'none'} is set"
            )
        if chosen[0] == "subscribe":
            names = [name.strip() for name in options["subscribe"].split(",") if name.strip()]
            return cls(names=tuple(sorted(set(names))))
        if chosen[0] == "subscribePattern":
            pattern: str = options["subscribePattern"]
            try:
                re.compile(pattern)
            except re.error as failure:
                raise OptionError(
                    f"option 'subscribePattern' is no regular expression: {failure}"
                ) from failure
            return cls(pattern=pattern)
        return cls(assigned=_parse_assigned(options))


def _parse_assigned(options: Options) -> tuple[TopicPartition, ...]:
    given: dict[str, Any] = options["assign"]
    for topic, numbers in given.items():
        if not isinstance(numbers, list) or not all(type(one) is int and one >= 0 for one in numbers):
            raise OptionError(f"option 'assign': topic {topic!r} needs a list of partitions, as in [0, 1]")
    return tuple(
        sorted({TopicPartition(topic, number) for topic, numbers in given.items() for number in numbers})
    )


@dataclass(frozen=True, slots=True)
class KnownPartitions:
    """The partitions that are read now, in order, and the ids of their topics."""

    partitions: tuple[TopicPartition, ...]
    ids: Mapping[str, str]


async def find(client: Client, subscription: TopicSubscription) -> KnownPartitions:
    """Raises UnknownTopicOrPartition for a topic or partition that is named and does not exist."""
    if subscription.pattern:
        matches = re.compile(subscription.pattern).fullmatch
        listed = await TopicAdmin(client).list(include_internal=False)
        names: Iterable[str] = [topic.name for topic in listed if matches(topic.name)]
        cluster = client.cluster
    else:
        names = subscription.names or sorted({key.topic for key in subscription.assigned})
        wanted = list(names)
        cluster = await client.with_retries(lambda: _describe_topics(client, wanted))
    partitions = subscription.assigned or [key for name in names for key in cluster.partitions(name)]
    for key in partitions:
        cluster.partition(key)
    return KnownPartitions(tuple(partitions), {name: str(cluster.topic(name).id) for name in names})


async def _describe_topics(client: Client, names: Sequence[str]) -> ClusterInfo:
    cluster = await client.refresh(names)
    for name in names:
        cluster.topic(name)
    return cluster


async def check_starts(
    client: Client,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    is_failing: bool,
) -> dict[TopicPartition, int]:
    """The starts, if the logs have all from there to the ends. Raises DataLossError for what is not there.

    Unless `is_failing` a lost start becomes the log's own, with a warning.
    """
    keys = [key for key in starts if ends[key] > starts[key]]
    logs = LogAdmin(client)
    log_starts, log_ends = await logs.offsets_at(keys, EARLIEST), await logs.offsets_at(keys, LATEST)
    checked = dict(starts)
    for key in keys:
        start, end, first, last = starts[key], ends[key], log_starts[key], log_ends[key]
        if start < first:
            what = f"{key} begins at offset {first} now, and offsets {start} to {min(first, end) - 1} were to be read"
            report("truncated", what, is_failing=is_failing)
            checked[key] = min(first, end)
        if end > last:
            what = f"{key} ends at offset {last}, and offsets {start} to {end - 1} were to be read"
            report("shortened", what, is_failing=is_failing)
            checked[key] = min(checked[key], last)
    return checked


def report(kind: str, what: str, *, is_failing: bool) -> None:
    """Raise DataLossError, or log a warning unless `is_failing`."""
    if is_failing:
        raise DataLossError(kind, what)
    logger.warning("%s: %s; reading continues without these records", kind, what)
