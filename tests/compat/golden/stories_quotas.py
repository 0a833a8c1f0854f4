"""Stories of client quotas: what may be set and asked for, and what a client above its quota is answered."""

from __future__ import annotations

import time
from typing import Any, Final

from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.stories_records import batch, make_topic
from tests.compat.golden.wire import Wire
from tests.support.polling import wait_until

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
Parts = dict[str, str | None]
EXACT, DEFAULT, SPECIFIED = range(3)


def entity(parts: Parts) -> list[dict[str, str | None]]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in parts.items()]


def entry(parts: Parts | list[dict[str, str | None]], **values: float | None) -> dict[str, Any]:
    operations = [
        {"key": key, "value": 0.0 if value is None else value, "remove": value is None}
        for key, value in values.items()
    ]
    return {"entity": parts if isinstance(parts, list) else entity(parts), "ops": operations}


def alter(wire: Wire, *entries: dict[str, Any], validate_only: bool = False) -> list[int]:
    answer = wire.ask_quietly(
        ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=list(entries), validate_only=validate_only
    )
    return [int(one.error_code) for one in answer.entries]


def described(wire: Wire, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    """The error code, or the entries in an order of ours: Kafka's is that of a hash table."""
    answer = wire.ask_quietly(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        components=[
            {"entity_type": kind, "match_type": match, "match": name} for kind, match, name in components
        ],
        strict=strict,
    )
    if answer.error_code:
        return [int(answer.error_code), answer.entries]
    return sorted(
        [
            sorted([part.entity_type, part.entity_name or "(default)"] for part in one.entity),
            sorted([value.key, value.value] for value in one.values),
        ]
        for one in answer.entries
    )


def settled(wire: Wire, wanted: int) -> Any:
    """All quotas, once there are so many entries: brokers follow the controller."""
    return wait_until(
        f"{wanted} quotas are there", lambda: described(wire), lambda found: len(found) == wanted
    )


def quotas_sweep(wire: Wire) -> None:
    """Both requests in each version."""
    for version in (0, 1):
        wire.ask(
            f"ALTER_CLIENT_QUOTAS {version}",
            ApiKey.ALTER_CLIENT_QUOTAS,
            version,
            entries=[entry({"user": f"u{version}"}, **{PRODUCE: 1000.0})],
            validate_only=False,
        )
        settled(wire, version + 1)
        component = {"entity_type": "user", "match_type": EXACT, "match": f"u{version}"}
        wire.ask(
            f"DESCRIBE_CLIENT_QUOTAS {version}",
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            version,
            components=[component],
            strict=True,
        )


def quotas_story(wire: Wire) -> None:
    """What is refused, what is kept, and what filters find."""
    good = {PRODUCE: 1.0}
    refused: dict[str, dict[str, Any]] = {
        "nothing": entry([], **good),
        "an empty user": entry({"user": ""}, **good),
        "another type": entry({"group": "x"}, **good),
        "an address and a user": entry({"ip": "192.0.2.1", "user": "x"}, **good),
        "an address and bytes": entry({"ip": "192.0.2.1"}, **good),
        "a user and connections": entry({"user": "x"}, connection_creation_rate=1.0),
        "an unknown key": entry({"user": "x"}, nonsense=1.0),
        "an unknown key removed": entry({"user": "x"}, nonsense=None),
        "zero": entry({"user": "x"}, **{PRODUCE: 0.0}),
        "below zero": entry({"user": "x"}, request_percentage=-1.0),
        "a fraction": entry({"user": "x"}, **{PRODUCE: 1.5}),
        "too many bytes": entry({"user": "x"}, **{PRODUCE: 1e19}),
        "too many connections": entry({"ip": "192.0.2.1"}, connection_creation_rate=2.0**31),
        "one bad of two": entry({"user": "x"}, **{PRODUCE: 5.0, FETCH: 0.0}),
    }
    for label, given in refused.items():
        wire.answers[f"refused: {label}"] = alter(wire, given)
    wire.answers["only checked"] = alter(wire, entry({"user": "x"}, **good), validate_only=True)
    wire.answers["nothing was set"] = settled(wire, 0)
    wire.answers["set"] = alter(
        wire,
        entry({"user": "a"}, **{PRODUCE: 10.0, FETCH: 20.0}, request_percentage=12.5),
        entry({"user": None}, controller_mutation_rate=0.5),
        entry({"user": "a", "client-id": "x y/*"}, **{PRODUCE: 30.0}),
        entry({"user": None, "client-id": None}, **{PRODUCE: 40.0}),
        entry({"client-id": "c"}, **{FETCH: 50.0}),
        entry({"ip": "192.0.2.1"}, connection_creation_rate=7.0),
        entry({"ip": None}, connection_creation_rate=9.0),
    )
    wire.answers["all"] = settled(wire, 7)
    filters: dict[str, list[tuple[str, int, str | None]]] = {
        "a user": [("user", EXACT, "a")],
        "the default user": [("user", DEFAULT, None)],
        "users": [("user", SPECIFIED, None)],
        "users with client ids": [("user", SPECIFIED, None), ("client-id", SPECIFIED, None)],
        "addresses": [("ip", SPECIFIED, None)],
        "nobody": [("user", EXACT, "nobody")],
        "no type": [("", SPECIFIED, None)],
        "another type": [("group", SPECIFIED, None)],
        "a type twice": [("user", SPECIFIED, None), ("user", DEFAULT, None)],
        "exact without a name": [("user", EXACT, None)],
        "default with a name": [("user", DEFAULT, "x")],
        "specified with a name": [("user", SPECIFIED, "x")],
        "another match": [("user", 7, None)],
        "address and user": [("user", SPECIFIED, None), ("ip", SPECIFIED, None)],
        "none": [],
    }
    for label, components in filters.items():
        for strict in (False, True):
            wire.answers[f"filter: {label}, strict {strict}"] = described(wire, *components, strict=strict)
    wire.answers["removed"] = alter(
        wire,
        entry({"user": "a"}, **{PRODUCE: None, FETCH: None}, request_percentage=None),
        entry({"user": "a", "client-id": "x y/*"}, **{PRODUCE: None, FETCH: None}),
    )
    wire.answers["left"] = settled(wire, 5)


def throttled_story(wire: Wire) -> None:
    """The shapes of answers above a quota; the times differ from run to run, and so only their order is kept."""
    make_topic(wire, "throttled")
    alter(wire, entry({"client-id": None}, **{PRODUCE: 20_000.0, FETCH: 20_000.0}))
    settled(wire, 1)
    time.sleep(0.5)
    big = batch("x" * 150_000)

    def produced(label: str, version: int) -> None:
        answer = wire.ask_quietly(
            ApiKey.PRODUCE,
            version,
            on=label,
            acks=-1,
            timeout=5000,
            topic_data=[{"name": "throttled", "partition_data": [{"index": 0, "records": big}]}],
        )
        part = answer.responses[0].partition_responses[0]
        wire.answers[label] = [int(part.error_code), _size(answer)]

    produced("within the burst", 9)
    produced("above it", 9)
    produced("further above, version 3", 3)

    def fetched(label: str, version: int, **fields: Any) -> Any:
        answer = wire.ask_quietly(
            ApiKey.FETCH,
            version,
            on=label,
            max_wait=100,
            min_bytes=1,
            max_bytes=1_000_000,
            topics=[
                {
                    "topic": "throttled",
                    "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 150_000}],
                }
            ],
            **fields,
        )
        parts = [one for topic in answer.responses for one in topic.partitions]
        read = sum(len(one.records or b"") for one in parts) // 10_000
        has_session = int(getattr(answer, "session_id", 0)) != 0
        wire.answers[label] = [
            int(getattr(answer, "error_code", 0)),
            len(parts),
            read,
            has_session,
            _size(answer),
        ]
        return answer

    session = fetched("fetched within the burst", 11, session_id=0, session_epoch=0)
    fetched("fetched above it", 11, session_id=0, session_epoch=0)
    fetched("fetched above it in a session", 11, session_id=session.session_id, session_epoch=1)
    fetched("fetched above it, version 4", 4)
    fetched("a follower", 11, replica_id=1, session_id=0, session_epoch=-1)


def _size(answer: Any) -> str:
    """How long the client is to wait, roughly: the quota's time grows by five to eight seconds with each request."""
    seconds = answer.throttle_time.total_seconds()
    return "none" if seconds == 0 else "seconds" if seconds < 60 else "minutes"


STORIES: Final = {"client-quotas": quotas_story, "client-quotas-throttled": throttled_story}
VERSIONS: Final = {"client-quotas-in-every-version": quotas_sweep}
