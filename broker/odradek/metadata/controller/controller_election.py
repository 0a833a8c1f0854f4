"""Which of several controllers is the active one: the holder of `/controller`.

The ephemeral node and the new epoch in `/controller_epoch` are written together, and only if the epoch is still the one
that was read. So no two terms have one epoch, and a term begins exactly when the epoch rises. Every write of the active
controller carries `ControllerTerm.fence`, a check of that node's version. Once another term has begun, nothing of the
old one is written any more, whether or not its controller knows.

A term ends when the session expires, when the registry did not answer for the session's timeout, or by `resign`. It
also ends when the node is deleted, which is how an operator asks for another controller. The same controller may be
elected again, for another term.

A node that this process left in an earlier session is replaced at once. So is one that an earlier run with the same
`identity` left, instead of after that run's session timeout. An identity is a text that only one process at a time can
have. Where two have it all the same, each replaces the other once at most: one that was elected before does not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from odradek.foundation.clock import Clock
from odradek.foundation.registry_errors import NodeExists, NoNode, StoreError, VersionConflict
from odradek.metadata.controller.terms import ControllerTerm
from odradek.metadata.image import nodes, paths
from odradek.metadata.registry.session_task import SessionTask
from odradek.metadata.registry.store import Check, Create, Delete, Node, Operation, Put, Store, get_or_none

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionCallbacks:
    """The owner's callbacks, on the event loop. They report that its term begins, that its term is over and why, and
    which controller is active (None without one).
    """

    on_elected: Callable[[ControllerTerm], None]
    on_lost: Callable[[str], None]
    on_controller: Callable[[int | None], None] = lambda controller_id: None


class ControllerElection(SessionTask):
    """One candidate, from `start` to `resign` or `stop`; it may start again."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        controller_id: int,
        identity: str,
        callbacks: ElectionCallbacks,
        address: tuple[str, int] = ("", -1),
    ) -> None:
        """`address` is the host and port at which brokers reach this controller."""
        super().__init__(store, path=paths.CONTROLLER, name=f"controller-{controller_id}")
        self._clock = clock
        self._controller_id = controller_id
        self._identity = identity
        self._callbacks = callbacks
        self._address = address
        # The term in which this controller is the active one; None when it is not.
        self.term: ControllerTerm | None = None
        self._session_id: int | None = None
        # The active controller, as far as this process knows.
        self.active_id: int | None = None

    def start(self) -> None:
        """Become a candidate."""
        self._start_reconciling()

    async def resign(self) -> None:
        """End the term, if there is one, and the candidacy: another controller is elected at once.

        `on_lost` is called first, so that nothing begins that a successor would have to end.
        """
        await self._stop_reconciling()
        self._on_lost("it resigned")
        try:
            epoch = await get_or_none(self._store, paths.CONTROLLER_EPOCH)
            there = await get_or_none(self._store, paths.CONTROLLER)
            if epoch is None or there is None or there.owner != self._store.session_id:
                return
            # With the epoch: a successor's node must stay.
            await self._store.multi(
                [Check(paths.CONTROLLER_EPOCH, epoch.version), Delete(paths.CONTROLLER, there.version)]
            )
        except StoreError as error:
            logger.info("%s resigns, and the registry will notice by itself: %s", self._name, error)

    async def stop(self) -> None:
        """As `resign`."""
        await self.resign()

    # --- candidacy -----------------------------------------------------------------------------------------------

    def _on_lost(self, reason: str) -> None:
        term, self.term = self.term, None
        if term is not None:
            logger.warning(
                "%s is no longer the active controller (epoch %d): %s", self._name, term.epoch, reason
            )
            self._notify(partial(self._callbacks.on_lost, reason))

    async def _reconcile(self) -> None:
        while True:
            # Read before the node there: another election in between makes the write fail.
            epoch = await get_or_none(self._store, paths.CONTROLLER_EPOCH)
            there = await get_or_none(self._store, paths.CONTROLLER)
            session_id = self._store.session_id
            if self.term is not None:
                if self._still_holds(there, epoch, session_id=session_id):
                    return
                self._on_lost("its node in the registry is gone")
            if there is not None and not self._may_replace(there, session_id=session_id):
                self._note_active(nodes.read_controller(paths.CONTROLLER, there.data))
                return
            if there is None:
                self._note_active(None)
            try:
                await self._store.multi(self._candidacy(epoch, there))
            except (NodeExists, NoNode, VersionConflict):
                # Another candidate was faster, or the read was stale.
                await self._store.sync()
                continue
            self._check_session(session_id)
            self._begin_term(epoch, session_id=session_id)
            return

    def _still_holds(self, there: Node | None, epoch: Node | None, *, session_id: int) -> bool:
        return (
            self.term is not None
            and there is not None
            and there.owner == session_id == self._session_id
            and epoch is not None
            and epoch.version == self.term.epoch_version
        )

    def _may_replace(self, there: Node, *, session_id: int) -> bool:
        """Whether we left that node: by a write whose answer was lost, in an earlier session, or in an earlier run."""
        if there.owner in (session_id, self._session_id):
            return True
        has_run = self._session_id is not None
        identity = nodes.read_identity(paths.CONTROLLER, there.data)
        return not has_run and bool(identity) and identity == self._identity

    def _candidacy(self, epoch: Node | None, there: Node | None) -> list[Operation]:
        text = str(_epoch(epoch) + 1).encode()
        host, port = self._address
        data = nodes.write_controller(
            self._controller_id, wall_ms=self._clock.wall_ms(), identity=self._identity, host=host, port=port
        )
        return [
            Create(paths.CONTROLLER_EPOCH, text)
            if epoch is None
            else Put(paths.CONTROLLER_EPOCH, text, epoch.version),
            *([] if there is None else [Delete(paths.CONTROLLER, there.version)]),
            Create(paths.CONTROLLER, data, ephemeral=True),
        ]

    def _begin_term(self, epoch: Node | None, *, session_id: int) -> None:
        version = 0 if epoch is None else epoch.version + 1
        term = ControllerTerm(self._controller_id, _epoch(epoch) + 1, version)
        self.term, self._session_id = term, session_id
        logger.info("%s is the active controller, with epoch %d", self._name, term.epoch)
        self._note_active(self._controller_id)
        self._notify(partial(self._callbacks.on_elected, term))

    def _note_active(self, controller_id: int | None) -> None:
        if controller_id != self.active_id:
            self.active_id = controller_id
            self._notify(partial(self._callbacks.on_controller, controller_id))


def _epoch(node: Node | None) -> int:
    return 0 if node is None else int(node.data)
