"""Changes of ACLs: the nodes of the patterns concerned, each written whole.

Only what decides for the cluster may use it, within a decision of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import InvalidRequest, RequestError
from odradek.foundation.limits import ACLS_CHANGED_PER_REQUEST_MAX
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller.registry_writer import RegistryWriter
from odradek.metadata.controller.requests import Outcome
from odradek.metadata.image import acl_nodes
from odradek.metadata.image.image import ImageHolder
from odradek.metadata.registry.store import Create, Delete, Operation, Put, Store
from odradek.security.authorization.acl_matching import AclIndex
from odradek.security.authorization.acls import AccessControlEntry, AclBinding, ResourcePattern, check_binding
from odradek.security.authorization.filters import AclFilter

DeletedAcls = Sequence[AclBinding] | RequestError
Entries = dict[ResourcePattern, dict[AccessControlEntry, None]]

_NONE: Final = AclIndex()


def check_change_count(acls: int) -> None:
    """Raises InvalidRequest for more ACLs than one request may create."""
    if acls > ACLS_CHANGED_PER_REQUEST_MAX:
        raise InvalidRequest(
            f"{acls} ACLs are to be created at once, and {ACLS_CHANGED_PER_REQUEST_MAX} may be; split the request"
        )


class AclChanges:
    """Keeps nothing of its own. Both raise StoreError when the registry fails."""

    def __init__(self, store: Store, images: ImageHolder, writer: RegistryWriter) -> None:
        self._store = store
        self._images = images
        self._writer = writer

    @property
    def _index(self) -> AclIndex:
        # An index is as long as it has ACLs, and counts them each time that it is asked for its truth.
        acls = self._images.current.acls
        return _NONE if acls is None else acls

    async def create(self, bindings: Sequence[AclBinding]) -> list[Outcome]:
        """Add ACLs; one outcome each, in order, None for success. One that is there already is no error.

        Raises InvalidRequest for too many at once.
        """
        check_change_count(len(bindings))
        turn = Turn()
        outcomes: list[Outcome] = []
        wanted: Entries = {}
        for binding in bindings:
            if turn.is_over():
                await turn.next()
            try:
                check_binding(binding)
            except RequestError as error:
                outcomes.append(without_trace(error))
                continue
            self._entries(wanted, binding.pattern)[binding.entry] = None
            outcomes.append(None)
        await self._write(wanted)
        return outcomes

    async def delete(self, filters: Sequence[AclFilter]) -> list[DeletedAcls]:
        """Remove the ACLs that match; for each filter those that it removed, or its error.

        Raises InvalidRequest, with nothing removed, when too many match.
        """
        deleted: list[DeletedAcls] = []
        wanted: Entries = {}
        total = 0
        turn = Turn()
        for one in filters:
            if turn.is_over():
                await turn.next()
            try:
                one.check()
            except RequestError as error:
                deleted.append(without_trace(error))
                continue
            found: list[AclBinding] = []
            for pattern in self._index.patterns_for(one):
                if turn.is_over():
                    await turn.next()
                found += self._index.matching_at(pattern, one)
            total += len(found)
            if total > ACLS_CHANGED_PER_REQUEST_MAX:
                raise InvalidRequest(
                    f"The filters match more than {ACLS_CHANGED_PER_REQUEST_MAX} ACLs, so none was deleted; "
                    "use narrower ones"
                )
            for binding in found:
                self._entries(wanted, binding.pattern).pop(binding.entry, None)
            deleted.append(found)
        await self._write(wanted)
        return deleted

    def _entries(self, wanted: Entries, pattern: ResourcePattern) -> dict[AccessControlEntry, None]:
        if pattern not in wanted:
            wanted[pattern] = dict.fromkeys(self._index.entries(pattern))
        return wanted[pattern]

    async def _write(self, wanted: Entries) -> None:
        made: set[str] = set()
        turn = Turn()
        async with Leftovers() as kept:
            groups: list[list[Operation]] = kept.until_end([])
            for pattern, entries in kept.until_end(wanted).items():
                if turn.is_over(1 + len(entries)):
                    await turn.next()
                there = self._index.entries(pattern)
                if tuple(entries) != there:
                    groups.append(await self._operations(pattern, tuple(entries), made))
            await self._writer.write_in_parts(groups)

    async def _operations(
        self, pattern: ResourcePattern, entries: Sequence[AccessControlEntry], made: set[str]
    ) -> list[Operation]:
        """Write one pattern's node. `made` are the parents that this change has made already."""
        path = acl_nodes.path_of(pattern)
        if not entries:
            return [Delete(path)]
        data = acl_nodes.write_acls(entries)
        if self._index.entries(pattern):
            return [Put(path, data)]
        operations: list[Operation] = []
        for parent in acl_nodes.parents_of(pattern):
            if parent not in made and not await self._store.exists(parent):
                operations.append(Create(parent))
            made.add(parent)
        return [*operations, Create(path, data)]
