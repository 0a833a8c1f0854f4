"""What Apache Kafka 4.4.0 answers otherwise than 4.1.1 to the stories of 4.1.1, by story and path, and what we do.

A path may hold `*` for any characters. Every row must still be needed.
"""

from __future__ import annotations

from typing import Final

_NEW_TOPIC_SETTINGS: Final = (
    "a topic has four settings more; ours has two of them, and lists those that are set"
)
_EPOCH: Final = (
    "a group's first epoch is 2, since its metadata count as a change of their own; ours is 1, as in 4.1"
)
_WITH_ID: Final = (
    "a commit is stored with its topic's id, also one by name; ours has the id where the request has it"
)
_CLOSED: Final = "4.1.1 closes the connection at version 10; ours answers as 4.4.0 (stories_newer)"

CHANGED: Final[dict[str, dict[str, str]]] = {
    "acls": {"no host/results/0/error_code": "an empty host is refused by both 4.4.0 and us"},
    "administration-in-every-version": {"CREATE_TOPICS */topics/0/configs": _NEW_TOPIC_SETTINGS},
    "committed": dict.fromkeys(
        ("version 10", "an unknown id", "fetched by id", "fetched by an unknown id"), _CLOSED
    ),
    "configs": {
        "*: configs/errors.deadletterqueue.group.enable": _NEW_TOPIC_SETTINGS,
        "*: configs/max.decompressed.message.bytes": _NEW_TOPIC_SETTINGS,
        "*: configs/remote.copy.lag.*": _NEW_TOPIC_SETTINGS,
        "*group*: configs/*.ms/5*": "a default is named by the broker's setting: ours, too",
        "*group*: configs/streams.num.standby.replicas/5/0/0": "as above",
        "*group*: configs/*.assignment.interval.ms": (
            "assignments are put off: ours, too; those of consumer groups are made at once by default, as in 4.1"
        ),
        "*group*: configs/errors.deadletterqueue.*": "share groups have dead letters: ours, too",
        "*group*: configs/share.*": "share groups have more settings: ours, too",
        "*group*: configs/streams.assignor.name": "Streams groups choose an assignor: ours, too",
        "*group*: configs/streams.initial.rebalance.delay.ms": "a setting of Streams groups, which came with 4.2",
        "*group*: configs/streams.rack.aware.assignment.tags": "a setting that 4.4.0 does not use yet",
    },
    "consumer": dict.fromkeys(
        (
            "a static member joins/member_epoch",
            "another takes its place/member_epoch",
            "joined/member_epoch",
            "nothing new/member_epoch",
        ),
        _EPOCH,
    ),
    "create": {"*/topics/0/configs": _NEW_TOPIC_SETTINGS},
    "directories": {"create/topics/0/configs": _NEW_TOPIC_SETTINGS},
    "group-records": {"*commit*": _WITH_ID},
    "groups-in-every-version": {
        "CONSUMER_GROUP_*_epoch": _EPOCH,
    },
    "plugin-settings": {
        "appended/*": "4.1.1 fails unexpectedly where a value is appended, and 4.4.0 refuses it; we refuse the setting",
        "*'s rate: described/*/read_only": "4.4.0 no longer describes it as read-only; ours is, as in 4.1",
    },
    "repeated": {"produce/responses/*/index": "the order of two partitions, which is that of a hash"},
    "versions": {
        "ranges by version */18/1": "ApiVersions 5: ours, too",
        "ranges by version */2/1": "ListOffsets 11: ours, too",
        "ranges by version */8/1": "OffsetCommit 10: ours, too",
        "ranges by version */9/1": "OffsetFetch 10: ours, too",
        "ranges by version */27/1": "WriteTxnMarkers 2: ours, too",
        "ranges by version */28/1": "TxnOffsetCommit 6: ours, too",
        "ranges by version */35/1": "DescribeLogDirs 5: ours, too",
        "ranges by version */42/1": "DeleteGroups 3: ours, too",
        "ranges by version */7[89]/1": "share groups: ours, too",
        "ranges by version */8[057]/1": "the state of share groups: ours, too",
        "ranges by version */90/1": "offsets of share groups: ours, too",
        "ranges by version */8[89]": "Streams groups: ours, too",
        "ranges by version */9[34]": "two APIs that came since, which we do not serve",
    },
}
