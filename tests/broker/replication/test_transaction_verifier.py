"""Questions to transaction coordinators: batched, one request under way, each answered for itself."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from odradek.broker.replication.transaction_verifier import Question, Refusals, TransactionVerifier
from odradek.foundation import errors, transaction_errors
from odradek.foundation.ids import TopicPartition
from odradek.foundation.transaction_errors import ConcurrentTransactions
from odradek.metadata.image.image import ImageHolder
from odradek.metadata.image.topic_names import TRANSACTION_STATE
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.framing import parse_request_header
from tests.support.coordinator_world import image
from tests.support.loop import run
from tests.support.stories import told_by

A, B, C = (TopicPartition("t", number) for number in range(3))


class Coordinator:
    """A `BrokerTransport` to one coordinator: it answers with codes by id, once it may."""

    def __init__(self) -> None:
        self.codes: dict[str, list[int]] = {}
        self.asked: list[dict[str, tuple[bool, list[TopicPartition]]]] = []
        self.failure: Exception | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def send(self, broker_id: int, request: Any) -> Any:
        frame = memoryview(request.pack(1, "test"))[4:]
        header = parse_request_header(frame)
        asked = codec.decode_request(ApiKey.ADD_PARTITIONS_TO_TXN, 5, frame, header.body_position)
        rows: dict[str, tuple[bool, list[TopicPartition]]] = {}
        results = []
        for one in asked.transactions:
            partitions = [
                TopicPartition(topic.name, index) for topic in one.topics for index in topic.partitions
            ]
            rows[one.transactional_id] = (one.verify_only, partitions)
            codes = self.codes.get(one.transactional_id) or [0]
            code = codes[0] if len(codes) == 1 else codes.pop(0)
            results.append(
                {
                    "transactional_id": one.transactional_id,
                    "topic_results": [
                        {
                            "name": topic.name,
                            "results_by_partition": [
                                {"partition_index": index, "partition_error_code": code}
                                for index in topic.partitions
                            ],
                        }
                        for topic in one.topics
                    ],
                }
            )
        self.asked.append(rows)
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        answer = messages.response(
            ApiKey.ADD_PARTITIONS_TO_TXN, 5, error_code=0, results_by_transaction=results
        )
        return request.parse(
            memoryview(codec.encode_response(ApiKey.ADD_PARTITIONS_TO_TXN, 5, 1, answer))[4:]
        )

    def interrupt(self, broker_id: int) -> None:
        """Nothing waits on a connection."""


def question(
    name: str = "x", *partitions: TopicPartition, producer_id: int = 1, epoch: int = 0, adds: bool = True
) -> Question:
    return Question(name, producer_id, epoch, adds, partitions or (A,))


def in_story(story: Any, *, has_coordinator: bool = True) -> None:
    """Run a story with a coordinator and a verifier that asks it."""

    async def scenario() -> None:
        images = ImageHolder(image({TRANSACTION_STATE: 5} if has_coordinator else {}, brokers=(0,)))
        settings: Any = SimpleNamespace(
            add_partitions_to_txn_retry_backoff_ms=20, add_partitions_to_txn_retry_backoff_max_ms=100
        )
        coordinator = Coordinator()
        verifier = TransactionVerifier(coordinator, images, current_settings=lambda: settings)
        await story(coordinator, verifier)
        await verifier.close()

    run(scenario())


def begin(verifier: TransactionVerifier, asked: Question, **fields: Any) -> asyncio.Task[Refusals]:
    return asyncio.ensure_future(verifier.verify(asked, **fields))


@told_by(in_story, gives=2)
async def test_questions_wait_for_the_request_under_way_and_leave_together(
    coordinator: Coordinator, verifier: TransactionVerifier
) -> None:
    coordinator.may_answer.clear()
    coordinator.codes = {"y": [90]}
    first = begin(verifier, question("x", A))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = [
        begin(verifier, question("y", B, producer_id=2)),
        begin(verifier, question("z", A, C, producer_id=3, adds=False)),
        begin(verifier, question("x", B)),
        begin(verifier, question("x", C)),
    ]
    await asyncio.sleep(1)
    assert coordinator.asked == [{"x": (False, [A])}]
    coordinator.may_answer.set()
    assert await first == {}
    fenced, verified, *added = await asyncio.gather(*others)
    assert coordinator.asked[1:] == [{"y": (False, [B]), "z": (True, [A, C]), "x": (False, [B, C])}]
    assert [type(error) for error in fenced.values()] == [transaction_errors.ProducerFenced]
    assert list(fenced) == [B]
    assert verified == {} and added == [{}, {}]
    assert verifier.requests == 2


@told_by(in_story, gives=2)
async def test_a_newer_instance_takes_the_place_of_an_older_one(
    coordinator: Coordinator, verifier: TransactionVerifier
) -> None:
    coordinator.may_answer.clear()
    begin(verifier, question("first"))
    await asyncio.sleep(0.001)
    old = begin(verifier, question("x", A, epoch=3))
    await asyncio.sleep(0.001)
    new = begin(verifier, question("x", A, epoch=4))
    await asyncio.sleep(0.001)
    late = begin(verifier, question("x", A, epoch=2))
    other_way = begin(verifier, question("x", A, epoch=4, adds=False))
    coordinator.may_answer.set()
    assert [type(error) for error in (await old).values()] == [transaction_errors.InvalidProducerEpoch]
    assert [type(error) for error in (await late).values()] == [transaction_errors.InvalidProducerEpoch]
    assert [type(error) for error in (await other_way).values()] == [errors.CoordinatorLoadInProgress]
    assert await new == {}


@told_by(in_story, gives=2)
async def test_a_transaction_that_is_ending_is_asked_for_again_for_a_while(
    coordinator: Coordinator, verifier: TransactionVerifier
) -> None:
    coordinator.codes = {"x": [51, 51, 0], "y": [51]}
    started = asyncio.get_running_loop().time()
    assert await verifier.verify(question("x"), retries=True) == {}
    assert abs(asyncio.get_running_loop().time() - started - 0.04) < 0.001
    (error,) = (await verifier.verify(question("y"), retries=True)).values()
    assert isinstance(error, ConcurrentTransactions)
    assert abs(asyncio.get_running_loop().time() - started - 0.14) < 0.001
    asked = len(coordinator.asked)
    assert len(await verifier.verify(question("y"))) == 1
    assert len(coordinator.asked) == asked + 1


@told_by(in_story, gives=2)
async def test_a_coordinator_that_does_not_answer_is_asked_again_by_the_client(
    coordinator: Coordinator, verifier: TransactionVerifier
) -> None:
    for failure in (ConnectionResetError("gone"), errors.FrameError("cut off"), ValueError("a defect")):
        coordinator.failure = failure
        (error,) = (await verifier.verify(question())).values()
        assert isinstance(error, errors.CoordinatorLoadInProgress)
    coordinator.failure = None
    assert await verifier.verify(question()) == {}
    coordinator.may_answer.clear()
    waiting = begin(verifier, question())
    await asyncio.sleep(1)
    await verifier.close()
    (error,) = (await waiting).values()
    assert isinstance(error, errors.CoordinatorNotAvailable)


@told_by(in_story, has_coordinator=False, gives=2)
async def test_without_a_coordinator_there_is_nothing_to_ask(
    coordinator: Coordinator, verifier: TransactionVerifier
) -> None:
    (error,) = (await verifier.verify(question())).values()
    assert isinstance(error, errors.CoordinatorNotAvailable)
    assert coordinator.asked == []
