"""The records that a member holds, and its answers for them that are not sent yet."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.client.share.deliveries import Acknowledgement, PartitionDelivery, ShareRecord
from odradek.client.share.sessions import Answers
from odradek.foundation.errors import InvalidRecordState, InvalidRequest
from odradek.foundation.ids import TopicPartition


class HeldRecords:
    """By the broker that gave them: an answer goes to it, also when the partition has another leader since."""

    def __init__(self) -> None:
        self._givers: dict[TopicPartition, dict[int, int]] = {}
        """The broker that gave each record without an answer, by partition and offset."""
        self._renewed: set[tuple[TopicPartition, int]] = set()
        """Those of them whose lock begins again, and which need an answer later."""
        self._answers: dict[int, dict[TopicPartition, dict[int, int]]] = {}

    def add(self, broker_id: int, deliveries: Mapping[TopicPartition, PartitionDelivery]) -> None:
        """Hold what a broker gave. Gaps and damaged records have their answers already."""
        for key, delivery in deliveries.items():
            if delivery.settled:
                self._answers_of(broker_id, key).update(delivery.settled)
            for one in delivery.blocks:
                offsets = (record.offset for record in one.block.records())
                self._givers.setdefault(key, {}).update(dict.fromkeys(offsets, broker_id))

    def answer(self, record: ShareRecord, kind: Acknowledgement) -> None:
        """Answer for one record. Raises InvalidRecordState for one that is not held."""
        key = record.topic_partition
        held = self._givers.get(key, {})
        if record.offset not in held:
            raise InvalidRecordState(
                f"record {record.offset} of {key} was answered before, or is not of the last poll"
            )
        self._answers_of(held[record.offset], key)[record.offset] = int(kind)
        if kind is Acknowledgement.RENEW:
            self._renewed.add((key, record.offset))
            return
        self._renewed.discard((key, record.offset))
        del held[record.offset]
        if not held:
            del self._givers[key]

    def accept_all(self) -> None:
        """Accept every record that has no answer."""
        for key, held in self._givers.items():
            for offset, broker_id in held.items():
                self._answers_of(broker_id, key)[offset] = int(Acknowledgement.ACCEPT)
        self._givers.clear()
        self._renewed.clear()

    def require_answers(self) -> None:
        """Raises InvalidRequest when a record has no answer, and is not renewed."""
        for key, held in self._givers.items():
            for offset in held:
                if (key, offset) not in self._renewed:
                    raise InvalidRequest(
                        f"record {offset} of {key} from the last poll has no answer; call acknowledge for each one"
                    )

    @property
    def is_any(self) -> bool:
        """Whether a record has no answer."""
        return bool(self._givers)

    def forget_of(self, broker_id: int) -> None:
        """The broker gives to others what it gave here: an answer would be refused."""
        self._answers.pop(broker_id, None)
        for key in list(self._givers):
            held = {offset: giver for offset, giver in self._givers[key].items() if giver != broker_id}
            if held:
                self._givers[key] = held
            else:
                del self._givers[key]
        self._renewed = {
            (key, offset) for key, offset in self._renewed if offset in self._givers.get(key, {})
        }

    @property
    def brokers(self) -> list[int]:
        """Those for which there are answers."""
        return list(self._answers)

    def take_answers(self, broker_id: int) -> Answers:
        """The answers for a broker, which are to be sent now."""
        return self._answers.pop(broker_id, {})

    def has_renewal(self, broker_id: int) -> bool:
        return any(
            Acknowledgement.RENEW in answers.values() for answers in self._answers.get(broker_id, {}).values()
        )

    def _answers_of(self, broker_id: int, key: TopicPartition) -> dict[int, int]:
        return self._answers.setdefault(broker_id, {}).setdefault(key, {})
