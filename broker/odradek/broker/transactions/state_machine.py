"""The transactional ids of one partition of `__transaction_state`: what its records mean, and changes under way.

One change of an id is under way at a time. While it is written, and until all markers of an ended transaction are
there, the id is pending and requests for it get CONCURRENT_TRANSACTIONS. The state in memory is that of the log: it
changes when the write is committed, so a write that fails leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odradek.broker.coordination.records import kind_of
from odradek.broker.coordination.shard import Shard, StateMachine
from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.coordination.writer import OnWritten
from odradek.broker.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    PREPARE_STATES,
    TransactionMetadata,
    TransactionState,
)
from odradek.broker.transactions.schema import (
    KIND_TRANSACTION,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from odradek.foundation.errors import OdradekError


@dataclass(slots=True, eq=False)
class TransactionalId:
    """One id: `metadata` is what the log has. `pending` is the state that is being written, None for none."""

    name: str
    metadata: TransactionMetadata
    pending: TransactionState | None = None
    markers: object | None = None
    """The attempt that sends the markers, while there is one (`marker_sender.MarkerRound`)."""

    @property
    def is_pending(self) -> bool:
        return self.pending is not None or self.markers is not None


class TransactionStateMachine:
    """A `StateMachine`. It writes through `shard`.

    `resume` is called after a load with each id whose markers are to be sent. `version_level` gives the finalized
    transaction.version, which says how values are written.
    """

    def __init__(
        self,
        shard: Shard[StateMachine],
        *,
        resume: Callable[[Shard[TransactionStateMachine], TransactionalId], None],
        version_level: Callable[[], int],
    ) -> None:
        self.shard = shard
        self.ids: dict[str, TransactionalId] = {}
        self._resume = resume
        self._version_level = version_level

    def add(self, name: str, metadata: TransactionMetadata) -> TransactionalId:
        """A new id, which stays if its first write succeeds."""
        assert name not in self.ids, f"the transactional id {name!r} exists"
        found = self.ids[name] = TransactionalId(name, metadata)
        return found

    # --- changes --------------------------------------------------------------------------------------------

    def write(self, found: TransactionalId, metadata: TransactionMetadata, on_written: OnWritten) -> None:
        """Write the next value of an id, which is pending until then. Once written it counts."""
        assert found.pending is None, f"two changes of {found.name!r} at once"
        found.pending = metadata.state
        records = [(encode_key(found.name), encode_value(metadata, version_level=self._version_level()))]

        def end_write(error: OdradekError | None) -> None:
            found.pending = None
            if error is None:
                found.metadata = metadata
            elif found.metadata.producer_epoch == NO_PRODUCER_EPOCH:
                self.ids.pop(found.name, None)
            on_written(error)

        self.shard.writer.submit(records, end_write)

    def remove(self, expired: list[TransactionalId], on_removed: OnWritten) -> None:
        """Write the tombstones of ids, which are pending until then, and forget the ids."""
        for found in expired:
            assert found.pending is None, f"two changes of {found.name!r} at once"
            found.pending = TransactionState.DEAD
        records: list[EncodedRecord] = [(encode_key(found.name), None) for found in expired]

        def end_removal(error: OdradekError | None) -> None:
            for found in expired:
                found.pending = None
                if error is None:
                    self.ids.pop(found.name, None)
            on_removed(error)

        self.shard.writer.submit(records, end_removal)

    # --- records --------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> bool:
        if kind_of(key) != KIND_TRANSACTION:
            return False
        name = decode_key(key)
        if value is None:
            self.ids.pop(name, None)
        else:
            self.ids[name] = TransactionalId(name, decode_value(value))
        return True

    # --- life -----------------------------------------------------------------------------------------------

    def on_loaded(self) -> None:
        """Send the markers of every transaction whose outcome is decided: the last coordinator may have sent none."""
        for found in list(self.ids.values()):
            if found.metadata.state in PREPARE_STATES:
                self._resume(self.shard, found)  # type: ignore[arg-type]

    def on_load_failed(self) -> None:
        self.ids.clear()

    def on_unloaded(self, error: OdradekError) -> None:
        """The markers of this term end with it: their attempts belong to the shard."""
        for found in self.ids.values():
            found.markers = None
        self.ids.clear()
