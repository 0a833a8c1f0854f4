"""Stories of transactional ids: the tables of InitProducerId, AddPartitionsToTxn and EndTxn, asked of a broker.

A transaction's end takes a moment, in which everything is answered with CONCURRENT_TRANSACTIONS: `settled` asks again
until that is over. When it comes depends on the run, so it is not compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from odradek.foundation.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from odradek.foundation.transaction_errors import ConcurrentTransactions
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import codes_of
from tests.compat.golden.stories_records import make_topic
from tests.compat.golden.stories_versions import Fields, sweep
from tests.compat.golden.wire import Wire

TOPIC: Final = "in-transactions"
_BUSY: Final = codes_of(
    ConcurrentTransactions, CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
)
SECONDS_MAX: Final = 30


def settled(wire: Wire, label: str, api: ApiKey, version: int, **fields: Any) -> Any:
    """Ask until no change of the id is under way, and note that answer."""
    end = time.monotonic() + SECONDS_MAX
    while True:
        answer = wire.ask_quietly(api, version, **fields)
        if not _codes(answer) & _BUSY:
            break
        assert time.monotonic() < end, f"{label}: still {answer}"
        time.sleep(0.02)
    wire.answers[label] = wire.plain(answer)
    return answer


def _codes(answer: Any) -> set[int]:
    found = {int(getattr(answer, "error_code", 0))}
    topics = list(getattr(answer, "results_by_topic_v3_and_below", ()))
    for one in getattr(answer, "results_by_transaction", ()):
        topics += one.topic_results
    for topic in topics:
        found |= {int(one.partition_error_code) for one in topic.results_by_partition}
    return found


def found_coordinator(wire: Wire, name: str) -> None:
    """Look for the coordinator until the topic is there, as clients do."""
    end = time.monotonic() + SECONDS_MAX
    while True:
        answer = wire.ask_quietly(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[name])
        if int(answer.coordinators[0].error_code) == 0:
            return
        assert time.monotonic() < end, f"no coordinator of {name}: {answer}"
        time.sleep(0.05)


def initialize(wire: Wire, label: str, name: str | None, *, version: int = 5, **fields: Any) -> Any:
    asked = {"transactional_id": name, "transaction_timeout": 60_000, **fields}
    return settled(wire, label, ApiKey.INIT_PRODUCER_ID, version, **asked)


class Producer:
    """One transactional id, with what the coordinator gave it last."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.wire = wire
        self.name = name
        found_coordinator(wire, name)
        self.take(initialize(wire, f"{name}: begins", name))

    def take(self, answer: Any) -> None:
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    def _named(self, shift: int, producer_id: int | None) -> Fields:
        return {
            "transactional_id": self.name,
            "producer_id": self.id if producer_id is None else producer_id,
            "producer_epoch": self.epoch + shift,
        }

    def end(
        self, label: str, version: int, *, commit: bool, shift: int = 0, producer_id: int | None = None
    ) -> Any:
        """EndTxn with this epoch, or one that is `shift` away."""
        answer = settled(
            self.wire,
            f"{self.name}: {label}",
            ApiKey.END_TXN,
            version,
            committed=commit,
            **self._named(shift, producer_id),
        )
        if version >= 5 and int(answer.error_code) == 0:
            self.take(answer)
        return answer

    def add(
        self,
        label: str,
        *,
        verify: bool = False,
        shift: int = 0,
        producer_id: int | None = None,
        **topics: Any,
    ) -> None:
        """AddPartitionsToTxn as leaders send it."""
        transaction = {
            **self._named(shift, producer_id),
            "verify_only": verify,
            "topics": [
                {"name": name.replace("_", "-"), "partitions": numbers} for name, numbers in topics.items()
            ],
        }
        settled(
            self.wire, f"{self.name}: {label}", ApiKey.ADD_PARTITIONS_TO_TXN, 5, transactions=[transaction]
        )

    def described(self, label: str) -> None:
        """DescribeTransactions, once markers that are due are written."""
        while True:
            answer = self.wire.ask_quietly(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self.name])
            if not answer.transaction_states[0].transaction_state.startswith("Prepare"):
                break
            time.sleep(0.02)
        plain = self.wire.plain(answer.transaction_states[0])
        for topic in plain["topics"]:
            topic["partitions"].sort()  # Kafka's are in the order of a hash
        plain["transaction_start_time"] = (
            "<time>" if answer.transaction_states[0].transaction_start_time else None
        )
        self.wire.answers[f"{self.name}: {label}"] = plain


# --- every version ----------------------------------------------------------------------------------------------


def transactions_sweep(wire: Wire) -> None:
    make_topic(wire, TOPIC)
    producer = Producer(wire, "swept")
    me = {"producer_id": producer.id, "producer_epoch": 0}
    named = {"transactional_id": "swept", **me}
    topics = [{"name": TOPIC, "partitions": [0]}]
    sweep(wire, ApiKey.DESCRIBE_TRANSACTIONS, lambda _: {"transactional_ids": ["no-such-id", ""]})
    sweep(wire, ApiKey.LIST_TRANSACTIONS, lambda _: {"state_filters": ["Empty", "Odd"]})
    sweep(
        wire,
        ApiKey.END_TXN,
        lambda version: {**named, "committed": version < 5, "producer_epoch": 0 if version < 5 else 7},
    )
    missing = [{"name": "no-such-topic", "partitions": [0]}]
    sweep(
        wire,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        lambda version: (
            {"transactions": [{**named, "verify_only": True, "topics": topics}]}
            if version >= 4
            else {
                "v3_and_below_transactional_id": "swept",
                "v3_and_below_producer_id": producer.id,
                "v3_and_below_producer_epoch": 0,
                "v3_and_below_topics": topics + missing,
            }
        ),
    )
    sweep(wire, ApiKey.ADD_OFFSETS_TO_TXN, lambda _: {**named, "producer_epoch": 5, "group_id": "sweepers"})
    update = {"feature": "transaction.version", "max_version_level": 2}
    sweep(wire, ApiKey.UPDATE_FEATURES, lambda _: {"feature_updates": [update]})
    for version in range(6):
        initialize(wire, f"with an id: INIT_PRODUCER_ID {version}", "swept", version=version)


# --- the tables -------------------------------------------------------------------------------------------------


def initialization_story(wire: Wire) -> None:
    """InitProducerId: the epochs that it answers, and the producers that it fences."""
    producer = Producer(wire, "starter")
    me = producer.id
    initialize(wire, "a new instance", "starter")
    initialize(wire, "goes on", "starter", producer_id=me, producer_epoch=1)
    initialize(wire, "the same again", "starter", producer_id=me, producer_epoch=1)
    initialize(wire, "and again", "starter", producer_id=me, producer_epoch=1)
    initialize(wire, "a zombie", "starter", producer_id=me, producer_epoch=0)
    initialize(wire, "from the future", "starter", producer_id=me, producer_epoch=9)
    initialize(wire, "another producer", "starter", producer_id=me + 4000, producer_epoch=2)
    initialize(wire, "a zombie in version 3", "starter", version=3, producer_id=me, producer_epoch=0)
    initialize(wire, "an epoch alone", "starter", producer_epoch=1)
    initialize(wire, "a producer alone", "starter", producer_id=me)
    initialize(wire, "no name", "")
    for timeout_ms in (0, -1, 900_000, 900_001):
        initialize(wire, f"timeout {timeout_ms}", "starter", transaction_timeout=timeout_ms)


def first_generation_story(wire: Wire) -> None:
    """EndTxn 4 in every state: the epoch stays."""
    make_topic(wire, TOPIC, partitions=2)
    one = Producer(wire, "first")
    one.end("commit of nothing", 4, commit=True)
    one.end("abort of nothing", 4, commit=False)
    for outcome in (True, False):
        word = "commit" if outcome else "abort"
        settled(
            wire,
            f"first: adds before {word}",
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id="first",
            v3_and_below_producer_id=one.id,
            v3_and_below_producer_epoch=one.epoch,
            v3_and_below_topics=[{"name": TOPIC, "partitions": [0, 1]}],
        )
        one.described(f"open before {word}")
        one.end(f"{word} of a zombie", 4, commit=outcome, shift=-1)
        one.end(f"{word} from the future", 4, commit=outcome, shift=1)
        one.end(f"{word} of another", 4, commit=outcome, producer_id=one.id + 4000)
        one.end(f"{word} of another in version 1", 1, commit=outcome, shift=1)
        one.end(word, 4, commit=outcome)
        one.end(f"{word} again", 4, commit=outcome)
        one.end(f"the opposite of {word}", 4, commit=not outcome)
        one.described(f"after {word}")


def second_generation_story(wire: Wire) -> None:
    """EndTxn 5 in every state: each end raises the epoch."""
    make_topic(wire, TOPIC, partitions=2)
    one = Producer(wire, "second")
    one.end("Empty, commit", 5, commit=True)
    one.end("Empty, commit retried", 5, commit=True, shift=-1)
    one.end("Empty, abort retried", 5, commit=False, shift=-1)
    one.end("Empty, abort", 5, commit=False)
    one.end("CompleteAbort, abort retried", 5, commit=False, shift=-1)
    one.end("CompleteAbort, commit", 5, commit=True)
    one.end("CompleteAbort, commit retried", 5, commit=True, shift=-1)
    one.end("CompleteAbort, abort", 5, commit=False)
    one.add("asks before it adds", verify=True, in_transactions=[0])
    one.add("adds", in_transactions=[0])
    one.add("adds the same", in_transactions=[0])
    one.add("asks for both", verify=True, in_transactions=[0, 1])
    one.add("a zombie asks", verify=True, shift=-1, in_transactions=[0])
    one.add("another asks", verify=True, producer_id=one.id + 4000, in_transactions=[0])
    one.add("a zombie adds", shift=-1, in_transactions=[1])
    one.add("adds to no topic", in_transactions=[1], no_such_topic=[0])
    one.described("open")
    one.end("Ongoing, commit retried", 5, commit=True, shift=-1)
    one.end("Ongoing, abort retried", 5, commit=False, shift=-1)
    one.end("Ongoing, commit", 5, commit=True)
    one.end("CompleteCommit, commit retried", 5, commit=True, shift=-1)
    one.end("CompleteCommit, abort retried", 5, commit=False, shift=-1)
    one.end("CompleteCommit, commit", 5, commit=True)
    one.described("committed")
    one.end("CompleteCommit, abort", 5, commit=False)
    one.add("adds again", in_transactions=[1])
    one.end("Ongoing, abort", 5, commit=False)
    one.described("aborted")


def fencing_story(wire: Wire) -> None:
    """A new instance while the old one has a transaction open."""
    make_topic(wire, TOPIC)
    old = Producer(wire, "fenced")
    old.add("the old one adds", in_transactions=[0])
    asked: Fields = {"transactional_id": "fenced", "transaction_timeout": 60_000}
    wire.ask("the new one asks first", ApiKey.INIT_PRODUCER_ID, 5, **asked)
    initialize(wire, "the new one begins", "fenced")
    old.add("the old one adds more", in_transactions=[0])
    old.end("the old one commits", 5, commit=True)
    old.end("the old one commits in version 1", 1, commit=True)
    old.described("afterwards")


STORIES: Final[dict[str, Callable[[Wire], None]]] = {
    "transactional-ids": initialization_story,
    "transactions-first-generation": first_generation_story,
    "transactions-second-generation": second_generation_story,
    "transactions-fenced": fencing_story,
}
VERSIONS: Final[dict[str, Callable[[Wire], None]]] = {"transactions-in-every-version": transactions_sweep}
