"""Changes of ACLs: the nodes of the patterns concerned, each written whole.

Only what decides for the cluster may use it, within a decision of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.authorization.acls import AccessControlEntry, AclBinding, ResourcePattern, check_binding
from odradek.authorization.filters import AclFilter
from odradek.authorization.index import AclIndex
from odradek.cluster import acl_nodes
from odradek.cluster.image import ImageHolder
from odradek.controller.registry_writer import RegistryWriter
from odradek.controller.requests import Outcome
from odradek.foundation.errors import InvalidRequest, RequestError
from odradek.foundation.limits import ACLS_CHANGED_PER_REQUEST_MAX
from odradek.registry.store import Create, Delete, Operation, Put, Store

DeletedAcls = Sequence[AclBinding] | RequestError
Entries = dict[ResourcePattern, dict[AccessControlEntry, None]]

_NONE: Final = AclIndex()


class AclChanges:
    """Keeps nothing of its own. Both raise StoreError when the registry fails."""

    def __init__(self, store: Store, images: ImageHolder, writer: RegistryWriter) -> None:
        self._store = store
        self._images = images
        self._writer = writer

    @property
    def _index(self) -> AclIndex:
        return self._images.current.acls or _NONE

    async def create(self, bindings: Sequence[AclBinding]) -> list[Outcome]:
        """Add ACLs; one outcome each, in order, None for success. One that is there already is no error.

        Raises InvalidRequest for too many at once.
        """
        if len(bindings) > ACLS_CHANGED_PER_REQUEST_MAX:
            raise InvalidRequest(
                f"{len(bindings)} ACLs are to be created at once, and {ACLS_CHANGED_PER_REQUEST_MAX} may be; "
                "split the request"
            )
        outcomes: list[Outcome] = []
        wanted: Entries = {}
        for binding in bindings:
            try:
                check_binding(binding)
            except RequestError as error:
                outcomes.append(error)
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
        for one in filters:
            try:
                one.check()
            except RequestError as error:
                deleted.append(error)
                continue
            found = list(self._index.matching(one))
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
        groups: list[list[Operation]] = []
        for pattern, entries in wanted.items():
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
