"""Asks transaction coordinators whether partitions belong to a producer's transaction, or adds them to it (KIP-890).

A leader asks before it appends the first batch of a transaction. Questions to one coordinator wait while a request to
it is under way, and leave together in the next one (AddPartitionsToTxn, version 5). A producer that asks twice has its
partitions joined. A newer instance of it takes the place of an older one that waits.

What it leaves out: what each API answers its clients instead of the coordinator's errors.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from odradek.broker.replication.broker_transport import BrokerTransport, MessageRequest
from odradek.foundation.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FrameError,
    OdradekError,
    RequestError,
)
from odradek.foundation.ids import TopicPartition, by_topic
from odradek.foundation.limits import VERIFICATIONS_PER_REQUEST_MAX, VERIFICATIONS_WAITING_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.transaction_errors import ConcurrentTransactions, InvalidProducerEpoch
from odradek.metadata.image.image import ImageHolder
from odradek.metadata.image.topic_names import TRANSACTION_STATE
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import NONE, error_name, error_of
from odradek.wire.protocol.group_partitions import partition_of
from odradek.wire.protocol.messages import request

if TYPE_CHECKING:
    from odradek.wire.protocol.messages import Message
    from odradek.wire.protocol.responses.transactions import AddPartitionsToTxnResponse

logger = logging.getLogger(__name__)

VERSION: Final = 5

# Why partitions are refused; those that are not named are in the transaction.
Refusals = Mapping[TopicPartition, RequestError]


class Question(NamedTuple):
    """Whether `partitions` belong to a transaction. With `adds_partitions` they do afterwards."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds_partitions: bool
    partitions: tuple[TopicPartition, ...]


class _WaitingQuestion:
    """The questions of one transactional id that leave together."""

    __slots__ = ("answers", "partitions", "question")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.partitions: dict[TopicPartition, None] = {}
        self.answers: list[tuple[asyncio.Future[Refusals], tuple[TopicPartition, ...]]] = []

    def add(self, question: Question) -> asyncio.Future[Refusals]:
        self.partitions |= dict.fromkeys(question.partitions)
        answer: asyncio.Future[Refusals] = asyncio.get_running_loop().create_future()
        self.answers.append((answer, question.partitions))
        return answer

    def settle(self, refusals: Refusals) -> None:
        for answer, partitions in self.answers:
            if not answer.done():
                answer.set_result({one: refusals[one] for one in partitions if one in refusals})

    def refuse(self, error: RequestError) -> None:
        self.settle(dict.fromkeys(self.partitions, error))


class TransactionVerifier:
    """The questions of one broker. `transport` carries requests to brokers, this one among them."""

    def __init__(
        self, transport: BrokerTransport, images: ImageHolder, *, current_settings: Callable[[], Settings]
    ) -> None:
        self._transport = transport
        self._images = images
        self._current_settings = current_settings
        # By coordinator: what waits while a request is under way.
        self._queues: dict[int, dict[str, _WaitingQuestion]] = {}
        self._sending: set[int] = set()
        self._tasks = TaskOwner("verification")
        self._is_closed = False
        self.requests = 0
        self.questions = 0

    async def verify(self, question: Question, *, retries: bool = False) -> Refusals:
        """The partitions that are refused, and why.

        A transactional id may still be ending its last transaction; that is so right after each commit. With `retries`
        it is asked for again for a short time (add.partitions.to.txn.retry.backoff.*).
        """
        settings = self._current_settings()
        loop = asyncio.get_running_loop()
        retry_until = loop.time() + settings.add_partitions_to_txn_retry_backoff_max_ms / 1000
        pause_seconds = settings.add_partitions_to_txn_retry_backoff_ms / 1000
        while True:
            refusals = await self._ask(question)
            if not retries or not _are_concurrent(refusals) or loop.time() + pause_seconds > retry_until:
                return refusals
            await asyncio.sleep(pause_seconds)

    async def close(self) -> None:
        """Answer all that wait, and end the requests."""
        self._is_closed = True
        for queue in self._queues.values():
            _refuse(queue.values(), CoordinatorNotAvailable("the broker is stopping; ask again"))
        self._queues.clear()
        await self._tasks.close()

    def _ask(self, question: Question) -> asyncio.Future[Refusals]:
        self.questions += 1
        coordinator = self._coordinator(question.transactional_id)
        queue = {} if coordinator is None else self._queues.setdefault(coordinator, {})
        waiting = queue.get(question.transactional_id)
        if coordinator is None or self._is_closed:
            return _refuse_question(
                question, CoordinatorNotAvailable("no broker coordinates the transaction now; try again")
            )
        if waiting is not None and waiting.question[:4] != question[:4]:
            known = waiting.question
            asked_by, known_by = question[1:3], known[1:3]
            if asked_by == known_by:
                return _refuse_question(
                    question, CoordinatorLoadInProgress("the producer asks in two ways at once")
                )
            older = InvalidProducerEpoch(
                f"a newer instance of the transactional id {question.transactional_id!r} took over"
            )
            if asked_by < known_by:
                return _refuse_question(question, older)
            waiting.refuse(older)
            waiting = None
        if waiting is None:
            if len(queue) >= VERIFICATIONS_WAITING_MAX and question.transactional_id not in queue:
                return _refuse_question(
                    question, CoordinatorNotAvailable("too many transactions wait to be verified")
                )
            waiting = queue[question.transactional_id] = _WaitingQuestion(question)
        answer = waiting.add(question)
        if coordinator not in self._sending:
            self._sending.add(coordinator)
            self._tasks.start(self._drain(coordinator), name=f"ask-{coordinator}")
        return answer

    def _coordinator(self, transactional_id: str) -> int | None:
        """The broker that coordinates the id; None when there is none now."""
        image = self._images.current
        topic = image.topics.get(TRANSACTION_STATE)
        if topic is None:
            return None
        leader = topic.partitions[partition_of(transactional_id, len(topic.partitions))].leader
        return leader if leader in image.brokers else None

    async def _drain(self, broker_id: int) -> None:
        try:
            while queue := self._queues.get(broker_id):
                batch = [queue.pop(name) for name in list(islice(queue, VERIFICATIONS_PER_REQUEST_MAX))]
                await self._exchange(broker_id, batch)
            self._queues.pop(broker_id, None)
        finally:
            self._sending.discard(broker_id)

    async def _exchange(self, broker_id: int, batch: list[_WaitingQuestion]) -> None:
        self.requests += 1
        try:
            response = await self._transport.send(
                broker_id, MessageRequest(ApiKey.ADD_PARTITIONS_TO_TXN, VERSION, _message(batch))
            )
        except (OdradekError, FrameError, OSError) as error:
            _refuse(batch, CoordinatorLoadInProgress(f"broker {broker_id} has not answered: {error}"))
            return
        except asyncio.CancelledError:
            _refuse(batch, CoordinatorNotAvailable("the broker is stopping; ask again"))
            raise
        except Exception:
            # A defect. Without an answer the connections of these producers would wait for ever.
            logger.exception("broker %d could not be asked about transactions", broker_id)
            _refuse(batch, CoordinatorLoadInProgress(f"broker {broker_id} could not be asked; ask again"))
            return
        if response.error_code != NONE:
            _refuse(batch, _error(int(response.error_code), "the broker's question"))
            return
        codes = _codes(response)
        for waiting in batch:
            _settle(waiting, codes.get(waiting.question.transactional_id, {}))


def _codes(response: AddPartitionsToTxnResponse) -> dict[str, dict[TopicPartition, int]]:
    """The errors of an answer, by transactional id and partition."""
    return {
        one.transactional_id: {
            TopicPartition(topic.name, result.partition_index): int(result.partition_error_code)
            for topic in one.topic_results
            for result in topic.results_by_partition
        }
        for one in response.results_by_transaction
    }


def _settle(waiting: _WaitingQuestion, codes: Mapping[TopicPartition, int]) -> None:
    refusals: dict[TopicPartition, RequestError] = {}
    for partition in waiting.partitions:
        code = codes.get(partition)
        if code is None:
            refusals[partition] = CoordinatorLoadInProgress(
                f"the coordinator has not answered for {partition}"
            )
        elif code != NONE:
            refusals[partition] = _error(code, f"{waiting.question.transactional_id!r} on {partition}")
    waiting.settle(refusals)


def _error(code: int, what: str) -> RequestError:
    error = error_of(code, f"the transaction coordinator answered {what} with {error_name(code)}")
    assert error is not None, "only called for errors"
    return error


def _refuse(waiting: Iterable[_WaitingQuestion], error: RequestError) -> None:
    for one in waiting:
        one.refuse(error)


def _refuse_question(question: Question, error: RequestError) -> asyncio.Future[Refusals]:
    answer: asyncio.Future[Refusals] = asyncio.get_running_loop().create_future()
    answer.set_result(dict.fromkeys(question.partitions, error))
    return answer


def _are_concurrent(refusals: Refusals) -> bool:
    return any(isinstance(error, ConcurrentTransactions) for error in refusals.values())


def _message(batch: list[_WaitingQuestion]) -> Message:
    return request(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        VERSION,
        transactions=[
            {
                "transactional_id": waiting.question.transactional_id,
                "producer_id": waiting.question.producer_id,
                "producer_epoch": waiting.question.producer_epoch,
                "verify_only": not waiting.question.adds_partitions,
                "topics": [
                    {"name": name, "partitions": numbers}
                    for name, numbers in by_topic(waiting.partitions).items()
                ],
            }
            for waiting in batch
        ],
    )
