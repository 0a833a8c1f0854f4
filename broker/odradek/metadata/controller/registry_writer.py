"""The only place where the cluster's metadata is written: the registry first, then the image and its subscribers.

Every write checks in the same step that this controller's term continues. So a controller that has a successor without
knowing it (a long pause, an expired session) changes nothing. A write becomes changes of nodes. The image is built from
them as every broker builds it, and they go to the change log. So a write has one interpretation only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from odradek.foundation.errors import NotController, PolicyViolation
from odradek.foundation.registry_errors import StoreError, StoreWriteTooLarge, VersionConflict
from odradek.foundation.turn_limits import NODE_CHANGES_PER_TURN_MAX, REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller.terms import ControllerTerm
from odradek.metadata.image import paths
from odradek.metadata.image.change_log import ChangeLog, NodeChange
from odradek.metadata.image.image import ClusterImage, ImageHolder
from odradek.metadata.image.image_building import apply, apply_in_turns, weight_of
from odradek.metadata.image.loading import load_nodes
from odradek.metadata.registry.store import ANY_VERSION, Create, Delete, Operation, Put, Store, size_bytes

# Of a node's data; a partition's state has fewer.
_ELEMENT_BYTES: Final = 256
_NO_TERM: Final = ControllerTerm(-1, 0, 0)


class RegistryWriter:
    """The active controller's writes to the registry. Call `begin` first."""

    def __init__(self, store: Store, images: ImageHolder) -> None:
        self._store = store
        self._images = images
        self._ended = ""
        self.on_failure: Callable[[StoreError | NotController], None] | None = None
        """Called for each write that failed: the registry and the image may differ from then on."""
        self.term = _NO_TERM
        self.change_log = ChangeLog(0)

    def end(self, reason: str) -> None:
        """Write nothing any more: the image may lack what the registry has, or another term may have begun."""
        self._ended = self._ended or reason

    async def begin(self, term: ControllerTerm) -> None:
        """Load the registry at the start of a term. Raises StoreError."""
        nodes = await load_nodes(self._store)
        self.term = term
        self.change_log = ChangeLog(term.epoch, nodes)
        self._images.replace(await apply_in_turns(ClusterImage(), nodes))

    async def write(self, operations: Sequence[Operation]) -> None:
        """Write all or none, then update the image and the change log.

        Raises NotController when another term has begun or this one was ended. Raises PolicyViolation for more than the
        registry takes at once, and what the operations raise.
        """
        if self._ended:
            raise NotController(f"this controller's term is over: {self._ended}; nothing was changed")
        try:
            await self._write_fenced(operations)
        except StoreWriteTooLarge as failure:
            # The registry got no request: this request ends, not the term.
            raise PolicyViolation(f"What is asked for cannot be kept: {failure}.") from failure
        except (StoreError, NotController) as failure:
            if self.on_failure is not None:
                self.on_failure(failure)
            raise
        changes: list[NodeChange] = []
        turn = Turn(NODE_CHANGES_PER_TURN_MAX)
        for operation in operations:
            if turn.is_over():
                await turn.next()
            if (change := _change(operation)) is not None:
                changes.append(change)
        # Few changes of many quotas are prepared too: their subscribers read all of them.
        quotas = len(self._images.current.client_configs)
        weight = weight_of(self._images.current, changes)
        if weight <= REQUEST_ELEMENTS_PER_TURN_MAX and quotas <= NODE_CHANGES_PER_TURN_MAX:
            self.observe(changes)
            return
        # Only decisions write and observe, one at a time: the image stays as it is until the new one is there.
        image = await apply_in_turns(self._images.current, changes)
        await self._images.prepare(image)
        self._publish(image, changes)
        await self._images.complete()

    async def write_in_parts(self, groups: Iterable[Sequence[Operation]]) -> None:
        """Write groups of operations in their order, as many in one step as the registry takes; none is parted.

        Each part is in the image before the next is written. A controller that dies in between leaves the rest undone:
        so the first parts must be such that the next term completes them. Raises as `write`.
        """
        bytes_max = self.write_bytes_max
        left_bytes = bytes_max or 0
        part: list[Operation] = []
        turn = Turn()
        async with Leftovers() as kept:
            for group in groups:
                if turn.is_over(sum(map(_elements, group))):
                    await turn.next()
                if bytes_max is not None:
                    group_bytes = sum(map(size_bytes, group))
                    if part and group_bytes > left_bytes:
                        await self.write(part)
                        part, left_bytes = [], bytes_max
                    left_bytes -= group_bytes
                part.extend(group)
            if part:
                await self.write(kept.until_end(part))

    @property
    def write_bytes_max(self) -> int | None:
        """The most bytes that one `write` may write, by `size_bytes`; None where the registry bounds nothing."""
        bytes_max = self._store.write_bytes_max
        return None if bytes_max is None else bytes_max - size_bytes(self.term.fence)

    async def _write_fenced(self, operations: Sequence[Operation]) -> None:
        try:
            await self._store.multi([self.term.fence, *operations])
        except VersionConflict as conflict:
            if (await self._store.get(paths.CONTROLLER_EPOCH)).version != self.term.epoch_version:
                raise NotController(
                    f"another controller's term began after term {self.term.epoch}; nothing was changed"
                ) from conflict
            raise

    def observe(self, changes: Sequence[NodeChange]) -> None:
        """Add to the image and the change log what others wrote: brokers register themselves."""
        if not changes:
            return
        self._publish(apply(self._images.current, changes), changes)

    def _publish(self, image: ClusterImage, changes: Sequence[NodeChange]) -> None:
        self.change_log.append(changes)
        if image is not self._images.current:
            self._images.replace(image)


def _elements(operation: Operation) -> int:
    """How many elements of a turn an operation counts as: a topic's node has all of its partitions."""
    data = operation.data if isinstance(operation, Create | Put) else b""
    return 1 + len(data) // _ELEMENT_BYTES


def _change(operation: Operation) -> NodeChange | None:
    """The node after an operation that was done. The version matters where it is given: a partition's state."""
    if isinstance(operation, Create):
        return NodeChange(operation.path, operation.data, 0)
    if isinstance(operation, Put):
        return NodeChange(
            operation.path, operation.data, 0 if operation.version == ANY_VERSION else operation.version + 1
        )
    if isinstance(operation, Delete):
        return NodeChange(operation.path, None)
    return None
