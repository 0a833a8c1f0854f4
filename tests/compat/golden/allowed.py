"""Differences from Apache Kafka 4.1.1 that are meant, by story and path, each with its reason.

A path may hold `*` for any characters. Every row must still be needed: one that matches no difference fails.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from odradek.broker.requests.not_served import EFFECTS
from odradek.broker.requests.table import HANDLERS
from odradek.wire.protocol.api import ApiKey

# What Kafka lists in ApiVersions and this broker does not have. Clients that need none of it work without.
# `EFFECTS` declares each with its reason: an API that is in neither table is a KeyError here.
_LISTED_BY_KAFKA: Final = json.loads((Path(__file__).parent / "versions.json").read_text())[
    "ranges by version 4"
]
_APIS_LEFT_OUT: Final = {
    api: EFFECTS[ApiKey(api)].feature for api in map(int, _LISTED_BY_KAFKA) if api not in HANDLERS
}

# What this broker lists in a version that Kafka 4.1.1 does not have.
_NEWER_VERSIONS: Final = {
    ApiKey.LIST_OFFSETS: "the earliest offset to be tiered",
    ApiKey.DESCRIBE_LOG_DIRS: "cordons",
    ApiKey.DELETE_GROUPS: "texts of errors",
    ApiKey.API_VERSIONS: "the node that a client means",
    ApiKey.OFFSET_COMMIT: "ids of topics",
    ApiKey.OFFSET_FETCH: "ids of topics",
    ApiKey.TXN_OFFSET_COMMIT: "ids of topics",
    ApiKey.SHARE_FETCH: "strict limits and locks that are renewed",
    ApiKey.SHARE_ACKNOWLEDGE: "locks that are renewed",
    ApiKey.WRITE_SHARE_GROUP_STATE: "counts of complete deliveries",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "counts of complete deliveries",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "lag",
}

_STREAMS: Final = (ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE)

_PART: Final = "responses/0/partition_responses/0"

_OF_FAILED_TOKENS: Final = {
    f"*/*principal_{part}": "Kafka names the client in the answer to a request that failed"
    for part in ("type", "name")
}

ALLOWED: Final[dict[str, dict[str, str]]] = {
    "shares": {
        "the epoch before/assignment": (
            "Kafka does not send the assignment again to a member that has missed an answer, and its partitions stay "
            "without a reader"
        ),
    },
    "share-records": dict.fromkeys(
        ("altered: records", "states/1/1"),
        "Kafka begins a state again with the epoch that it has; here it is a newer one, which a leader that has read "
        "the former state cannot write over",
    ),
    "streams-missed": {
        "has missed it*/*_tasks": (
            "Kafka does not send tasks again to a member that has missed an answer, and they stay without an owner"
        ),
    },
    "forged-by-guesses": {
        f"owner: continues in the second transaction/{_PART}/*": (
            "Kafka remembers the sequence of a write with a newer epoch that it refused, and then refuses the owner's"
        ),
        "owner: after a newer epoch/*": (
            "Kafka ends an open transaction for an InitProducerId whose epoch it then refuses"
        ),
    },
    "versions": {
        **{f"ranges by version */{api}": f"{feature}: not there" for api, feature in _APIS_LEFT_OUT.items()},
        **{
            f"ranges by version */{api}/1": f"{ApiKey(api).kafka_name} has a version of Kafka 4.2 to 4.4: {what}"
            for api, what in _NEWER_VERSIONS.items()
        },
        **dict.fromkeys(
            (f"ranges by version */{int(api)}" for api in _STREAMS),
            "Streams groups are unstable in Kafka 4.1.1, which does not list them; `stories_streams` has their answers",
        ),
        "ranges by version */27/1": "WriteTxnMarkers 2 is Kafka 4.2's; brokers send it to each other (KIP-1228)",
    },
    "committed": dict.fromkeys(
        ("version 10", "an unknown id", "fetched by id", "fetched by an unknown id"),
        "Kafka 4.1.1 closes the connection at version 10, which is Kafka 4.2's; `stories_newer` has its answers",
    ),
    "produce": {
        f"unknown compression 5/{_PART}/error_code": (
            "Kafka fails on it unexpectedly; UNSUPPORTED_COMPRESSION_TYPE says what is wrong and is not retried either"
        ),
        f"said to be gzip and is not/{_PART}/*": (
            "batches are stored as they came and not decompressed on the way (see records.validation); a reader of the"
            " topic that its producer may write to sees the damage"
        ),
    },
    "repeated": {
        f"{label}/*": (
            "a topic of several elements is one element of Kafka's answer; ours has as many as the request, with the"
            " same results"
        )
        for label in ("commit: an unknown topic twice", "fetch", "produce")
    }
    | {
        f"{label}/*": (
            "a topic of several elements is answered in one; Kafka's answer has as many as the request, with the same"
            " results"
        )
        for label in ("elections", "elections of unknown", "added partitions", "an added partition twice")
    }
    | {
        f"{label}/*": (
            "a partition of several elements is answered for each; it is one element of Kafka's answer, with the same"
            " result"
        )
        for label in ("delete records", "list offsets")
    }
    | {
        "altered users/*": "Kafka looks for the user first, and we for what is named twice; neither changes anything"
    },
    "transactions-second-generation": {
        "second: CompleteAbort, commit retried/error_code": (
            "Kafka's INVALID_TXN_STATE ends a client for good; a later Kafka answers PRODUCER_FENCED (KAFKA-20785)"
        )
    },
    "acls": {
        **{
            f"wrong: {which}/results/0/error_code": (
                "Kafka fails on it unexpectedly; INVALID_REQUEST says what is wrong"
            )
            for which in ("any *", "a pattern for filters")
        },
        **dict.fromkeys(
            (
                "wrong: no resource type",
                "filter: no resource type",
                "filter: another pattern",
                "filter: another permission",
            ),
            "Kafka closes the connection; INVALID_REQUEST says what is wrong",
        ),
        "filter: another operation": "Kafka finds nothing; INVALID_REQUEST says that the number is unknown",
        "no host/results/0/error_*": "Kafka keeps an ACL for an empty host, which no client has; the error says so",
    },
    "tokens": {
        **_OF_FAILED_TOKENS,
        "an owner that is no user/*": "Kafka makes a token that none can log in with; INVALID_PRINCIPAL_TYPE says why",
    },
    "no-tokens": {
        **_OF_FAILED_TOKENS,
        "*ed/expiry_timestamp": "Kafka answers 0 or -1 to a request that failed; 0 is answered always",
    },
    "newest-of-open-transactions": {
        "open: newest committed/*": (
            "Kafka has no answer while the newest record is not committed; the newest that readers may have is answered"
        )
    },
    "empty-transactions": {
        f"{label}: end/offset": (
            "a marker that repeats an epoch and ends nothing is not written again: it may be the late repetition of one"
            " that was (KAFKA-19999)"
        )
        for label in ("the second in its epoch", "by a later coordinator", "in a later epoch")
    },
    "epoch-minus-one": {
        "*": (
            "Kafka takes any sequence of a producer id without an epoch; INVALID_PRODUCER_EPOCH says that such a"
            " producer is not idempotent"
        )
    },
    "plugin-settings": dict.fromkeys(
        ("unknown*", "an empty value/*", "appended/*", "the file's*"),
        "Kafka stores dynamic settings that it does not know, for plugins; there are none here, and a misspelt name is"
        " refused. Those of the file are kept",
    ),
    "reassignment": {
        "nothing/error_message": "Kafka says an empty text where nothing was asked for; null says that nothing failed"
    },
    "configs": {
        "an unknown group: configs/odradek.fenced.until": "our own: Kafka has no way to keep members out of a group",
        "an unknown group: configs/odradek.resets": "our own: what the operator has done to the group's offsets",
        **{
            f"an unknown group: configs/streams.{name}": "a setting of Streams groups that Kafka has since 4.2"
            for name in ("assignment.interval.ms", "initial.rebalance.delay.ms", "rack.aware.assignment.tags")
        },
        "an unknown group: configs/streams.assignor.name": "a setting of Streams groups that Kafka has since 4.4",
        "an unknown group: configs/consumer.assignment.interval.ms": "a setting that Kafka has since 4.3",
        "*group*: configs/*/5/0/0": "a group's default has the name of the broker's setting, as since Kafka 4.3",
        "*group*: configs/*/5": "the broker's setting is a synonym of the group's, as since Kafka 4.3",
        **{
            f"an unknown group: configs/share.{name}": "a setting of share groups that Kafka has since 4.2"
            for name in (
                "assignment.interval.ms",
                "delivery.count.limit",
                "partition.max.record.locks",
                "renew.acknowledge.enable",
            )
        },
        **{
            f"an unknown group: configs/errors.deadletterqueue.{name}": "a setting of share groups since Kafka 4.4"
            for name in ("topic.name", "copy.record.enable")
        },
        "operation 9/responses/0/error_code": (
            "Kafka fails on it unexpectedly; INVALID_REQUEST says what is wrong"
        ),
    },
}
