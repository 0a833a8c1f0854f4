"""Stories of forged producers: requests with the transactional id, producer id, epoch or sequence of another client.

The owner comes from 127.0.0.1, and has a transaction open while the forger, from 127.0.0.2, tries. Afterwards the
owner continues and commits, and a reader finds what it wrote. Without an authorizer the forger guesses: a right pair of
id and epoch would be the owner's, for any broker. With one it knows all of them, may write to the topic, and has a
transactional id and a group of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.stories_groups import ready
from tests.compat.golden.stories_records import batch, fetch, make_topic, produce
from tests.compat.golden.stories_transactions import Producer, found_coordinator, initialize, settled
from tests.compat.golden.wire import Wire
from tests.support.polling import wait_until

TOPIC: Final = "owned"
GROUP: Final = "owned-group"
_FORGER: Final = "127.0.0.2"
_MADE_UP_ID: Final = 987_654
_ALL, _READ, _WRITE, _DESCRIBE = 2, 3, 4, 8
_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = 2, 3, 4, 5

_WITH_AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # The first rules are made before there are any; from then on everything has some.
    "allow.everyone.if.no.acl.found": "true",
}


def _records(*values: str, producer: int, epoch: int, sequence: int, transactional: bool = False) -> bytes:
    return batch(
        *values,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


class Forger:
    """What another client tries with an owner's ids."""

    def __init__(self, wire: Wire, owner: Producer, prefix: str) -> None:
        self.wire = wire
        self.owner = owner
        self.prefix = prefix

    def produce(
        self, label: str, records: bytes, *, transactional_id: str | None = None, partition: int = 0
    ) -> None:
        self.wire.ask(
            f"{self.prefix}: produces {label}",
            ApiKey.PRODUCE,
            11,
            on=_FORGER,
            transactional_id=transactional_id,
            acks=-1,
            timeout=5000,
            topic_data=[{"name": TOPIC, "partition_data": [{"index": partition, "records": records}]}],
        )

    def adds(self, label: str, name: str, producer: int, epoch: int) -> None:
        self.ask(
            f"adds partitions {label}",
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[{"name": TOPIC, "partitions": [1]}],
        )

    def adds_as_a_broker(self, label: str, name: str, producer: int, epoch: int) -> None:
        transaction = {
            "transactional_id": name,
            "producer_id": producer,
            "producer_epoch": epoch,
            "verify_only": False,
            "topics": [{"name": TOPIC, "partitions": [1]}],
        }
        self.ask(
            f"adds partitions as a broker {label}",
            ApiKey.ADD_PARTITIONS_TO_TXN,
            5,
            transactions=[transaction],
        )

    def ends(self, label: str, name: str, producer: int, epoch: int, *, version: int = 4) -> None:
        self.ask(
            f"ends {label}, version {version}",
            ApiKey.END_TXN,
            version,
            transactional_id=name,
            producer_id=producer,
            producer_epoch=epoch,
            committed=False,
        )

    def adds_offsets(self, label: str, name: str, producer: int, epoch: int) -> None:
        self.ask(
            f"adds offsets {label}",
            ApiKey.ADD_OFFSETS_TO_TXN,
            4,
            transactional_id=name,
            producer_id=producer,
            producer_epoch=epoch,
            group_id=GROUP,
        )

    def commits_offsets(self, label: str, name: str, producer: int, epoch: int) -> None:
        partition = {"partition_index": 0, "committed_offset": 77, "committed_metadata": ""}
        self.ask(
            f"commits offsets {label}",
            ApiKey.TXN_OFFSET_COMMIT,
            3,
            transactional_id=name,
            group_id=GROUP,
            producer_id=producer,
            producer_epoch=epoch,
            topics=[{"name": TOPIC, "partitions": [partition]}],
        )

    def marks(self, label: str, producer: int, epoch: int, coordinator_epoch: int) -> None:
        marker = {
            "producer_id": producer,
            "producer_epoch": epoch,
            "transaction_result": False,
            "coordinator_epoch": coordinator_epoch,
            "topics": [{"name": TOPIC, "partition_indexes": [0]}],
        }
        self.wire.ask(
            f"{self.prefix}: marks {label}", ApiKey.WRITE_TXN_MARKERS, 1, on=_FORGER, markers=[marker]
        )

    def initializes(self, label: str, name: str | None, **fields: Any) -> None:
        self.ask(
            f"initializes {label}",
            ApiKey.INIT_PRODUCER_ID,
            5,
            transactional_id=name,
            transaction_timeout=60_000,
            **fields,
        )

    def ask(self, label: str, api: ApiKey, version: int, **fields: Any) -> None:
        settled(self.wire, f"{self.prefix}: {label}", api, version, on=_FORGER, **fields)


def forged(wire: Wire, *, is_denied: bool) -> None:
    """The whole story."""
    make_topic(wire, TOPIC, partitions=2)
    ready(wire, GROUP)
    found_coordinator(wire, "forger")
    if is_denied:
        _restrict(wire)
    owner = Producer(wire, "owner")
    # The second instance of its kind, so that there is an older epoch.
    owner.take(initialize(wire, "owner: a second instance", "owner"))
    idempotent = wire.ask_quietly(
        ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None, transaction_timeout=60_000
    )
    ident = int(idempotent.producer_id)
    assert ident >= 0
    owner.add("begins", owned=[0])
    for number in range(2):
        mine = _records(
            f"owner {number}", producer=owner.id, epoch=owner.epoch, sequence=number, transactional=True
        )
        produce(wire, f"owner: {number}", TOPIC, mine, version=11, transactional_id="owner")
        produce(
            wire,
            f"idempotent: {number}",
            TOPIC,
            _records(f"idempotent {number}", producer=ident, epoch=0, sequence=number),
        )
    (_with_all_known if is_denied else _guessing)(wire, owner, ident)
    mine = _records("owner 2", producer=owner.id, epoch=owner.epoch, sequence=2, transactional=True)
    produce(wire, "owner: continues", TOPIC, mine, version=11, transactional_id="owner")
    following = _records("idempotent 2", producer=ident, epoch=0, sequence=2)
    produce(wire, "idempotent: continues", TOPIC, following)
    owner.described("before its end")
    owner.end("commits", 4, commit=True)
    owner.described("at its end")
    fetch(wire, "a reader of what is committed", TOPIC, 0, isolation=1)
    wire.ask(
        "offsets of the group",
        ApiKey.OFFSET_FETCH,
        7,
        group_id=GROUP,
        topics=[{"name": TOPIC, "partition_indexes": [0]}],
        require_stable=True,
    )
    if not is_denied:
        _fencing(wire, owner)


def _fencing(wire: Wire, owner: Producer) -> None:
    """A right producer id with a newer epoch while a transaction is open: there Apache Kafka gives way."""
    owner.add("begins again", owned=[1])
    forger = Forger(wire, owner, "fences")
    me = {"producer": owner.id, "transactional": True}
    for number in range(2):
        if number:
            forger.produce(
                "with a newer epoch",
                _records("forged", epoch=owner.epoch + 1, sequence=0, **me),
                transactional_id="owner",
                partition=1,
            )
        produce(
            wire,
            f"owner: {'continues' if number else 'writes'} in the second transaction",
            TOPIC,
            _records(f"second {number}", epoch=owner.epoch, sequence=number, **me),
            version=11,
            partition=1,
            transactional_id="owner",
        )
    forger.initializes("with a newer epoch", "owner", producer_id=owner.id, producer_epoch=owner.epoch + 5)
    owner.described("after a newer epoch")


def _guessing(wire: Wire, owner: Producer, ident: int) -> None:
    """No authorizer, and one part of what it takes is wrong each time."""
    forger = Forger(wire, owner, "guesses")
    me, epoch = owner.id, owner.epoch
    for label, producer, at, name in (
        ("an older epoch", me, epoch - 1, "owner"),
        ("a newer epoch", me, epoch + 1, "owner"),
        ("a made-up producer", _MADE_UP_ID, epoch, "owner"),
        ("a made-up id", me, epoch, "nobody"),
        ("a negative producer", -5, epoch, "owner"),
    ):
        records = _records("forged", producer=producer, epoch=at, sequence=0, transactional=True)
        # The rest is in `_fencing`.
        if at <= epoch and producer >= 0:
            forger.produce(f"in a transaction with {label}", records, transactional_id=name)
        forger.adds(f"with {label}", name, producer, at)
        forger.adds_as_a_broker(f"with {label}", name, producer, at)
        forger.adds_offsets(f"with {label}", name, producer, at)
        forger.commits_offsets(f"with {label}", name, producer, at)
        forger.ends(f"with {label}", name, producer, at)
        forger.ends(f"with {label}", name, producer, at, version=5)
    forger.initializes("with a made-up producer", "owner", producer_id=_MADE_UP_ID, producer_epoch=0)
    forger.initializes("without a name, with the owner's pair", None, producer_id=me, producer_epoch=epoch)
    forger.marks("with an older epoch", me, epoch - 1, 0)
    forger.produce("outside of the transaction", _records("forged", producer=me, epoch=epoch, sequence=2))
    forger.produce("a sequence far ahead", _records("forged", producer=ident, epoch=0, sequence=90))
    forger.produce("a sequence again", _records("forged", producer=ident, epoch=0, sequence=1))
    forger.produce("older sequences in one", _records("f", "g", producer=ident, epoch=0, sequence=0))
    forger.produce("a newer epoch in the middle", _records("forged", producer=ident, epoch=3, sequence=7))
    forger.produce("a made-up producer", _records("forged", producer=_MADE_UP_ID, epoch=0, sequence=0))
    forger.produce(
        "in a transaction, with the id of one without",
        _records("forged", producer=ident, epoch=0, sequence=2, transactional=True),
        transactional_id="owner",
    )


def _with_all_known(wire: Wire, owner: Producer, ident: int) -> None:
    """The forger knows ids, epochs and sequences, and has rights of its own."""
    forger = Forger(wire, owner, "knows")
    me, epoch = owner.id, owner.epoch
    mine = _records("forged", producer=me, epoch=epoch, sequence=2, transactional=True)
    for label, name in (("the owner's id", "owner"), ("its own id", "forger"), ("no id", None)):
        forger.produce(f"in the transaction with {label}", mine, transactional_id=name)
    forger.produce("outside of the transaction", _records("forged", producer=me, epoch=epoch, sequence=2))
    for label, name in (("the owner's id", "owner"), ("its own id", "forger")):
        forger.adds(f"with {label}", name, me, epoch)
        forger.adds_as_a_broker(f"with {label}", name, me, epoch)
        forger.adds_offsets(f"with {label}", name, me, epoch)
        forger.commits_offsets(f"with {label}", name, me, epoch)
        forger.ends(f"with {label}", name, me, epoch)
        forger.ends(f"with {label}", name, me, epoch, version=5)
    forger.initializes("with the owner's id", "owner")
    forger.initializes("with the owner's id and pair", "owner", producer_id=me, producer_epoch=epoch)
    forger.initializes("without a name, with the owner's pair", None, producer_id=me, producer_epoch=epoch)
    forger.marks("with the owner's pair", me, epoch, 0)
    forger.marks("of one without a transaction", ident, 0, 0)


def _restrict(wire: Wire) -> None:
    """127.0.0.1 may do everything. The forger may write the topic, and use a transactional id and a group."""
    rules = [
        (resource, "kafka-cluster" if resource == _CLUSTER else "*", "127.0.0.1", _ALL)
        for resource in (_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID)
    ]
    rules += [
        (_TOPIC, TOPIC, _FORGER, _WRITE),
        (_TOPIC, TOPIC, _FORGER, _READ),
        (_GROUP, GROUP, _FORGER, _READ),
        (_TRANSACTIONAL_ID, "forger", _FORGER, _WRITE),
    ]
    creations = [
        {
            "resource_type": resource,
            "resource_name": name,
            "resource_pattern_type": 3,
            "principal": "User:ANONYMOUS",
            "host": host,
            "operation": operation,
            "permission_type": 3,
        }
        for resource, name, host, operation in rules
    ]
    # One request: after its first part alone the client would have lost the right to the others.
    answer = wire.ask_quietly(ApiKey.CREATE_ACLS, 3, creations=creations)
    assert {int(one.error_code) for one in answer.results} == {0}, answer
    metadata = {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}
    wait_until(
        "the rules are in force",
        lambda: [
            int(wire.ask_quietly(ApiKey.METADATA, 12, on=where, **metadata).topics[0].error_code)
            for where in ("main", _FORGER)
        ],
        lambda codes: codes == [0, 0],
        pause_seconds=0.02,
    )
    wait_until(
        "others are denied",
        lambda: int(
            wire.ask_quietly(
                ApiKey.INIT_PRODUCER_ID,
                5,
                on=_FORGER,
                transactional_id="nobody",
                transaction_timeout=1000,
            ).error_code
        ),
        lambda code: code == 53,
        pause_seconds=0.02,
    )


STORIES: Final[dict[str, Callable[[Wire], None]]] = {
    "forged-by-guesses": partial(forged, is_denied=False),
    "forged-with-rights": partial(forged, is_denied=True),
}
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {"forged-with-rights": _WITH_AUTHORIZER}
