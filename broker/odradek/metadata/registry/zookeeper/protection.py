"""Finds the nodes in ZooKeeper that others may change, or read where they hold secrets, and protects them.

A node is *open* when its access list gives any client more than `security.build_owned_acl` does. Such an entry has the
scheme `world` or `ip`, which no login backs. A node is *foreign* when this user may not change its access list. A node
that was open gets the access list of a new one, without what else was in it: any client could have added that.

Access lists are not inherited, so each node is asked about: two requests each, and a few nodes at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kazoo.security import ACL, Permissions

from odradek.foundation.limits import REGISTRY_NODES_CHECKED_AT_ONCE_MAX
from odradek.foundation.registry_errors import NoNode, StoreAccessDenied, VersionConflict
from odradek.metadata.registry.zookeeper.security import build_owned_acl, too_wide

if TYPE_CHECKING:
    from kazoo.protocol.states import ZnodeStat

_CERTIFICATE: Final = "x509"
_LETTERS: Final = (
    (Permissions.CREATE, "c"),
    (Permissions.DELETE, "d"),
    (Permissions.READ, "r"),
    (Permissions.WRITE, "w"),
    (Permissions.ADMIN, "a"),
)


class OpenNode(NamedTuple):
    """A node that is open, with the entries that make it so, or one that is foreign, with all that can be read.

    An entry is as ZooKeeper's command line has it: `world:anyone:cdrwa`.
    """

    path: str
    entries: tuple[str, ...]
    is_foreign: bool = False


class AccessLists(Protocol):
    """The access lists and the children of nodes, as one user sees them. Raises NoNode, StoreAccessDenied."""

    async def access_list(self, path: str) -> tuple[Sequence[ACL], ZnodeStat]: ...

    async def set_access_list(self, path: str, entries: Sequence[ACL], *, version: int) -> None:
        """Raises VersionConflict when the list is not of this version."""

    async def children(self, path: str) -> list[str]: ...


class NodeProtection:
    """Works for the user of `nodes`, whose entries have `own_ids`: pairs of a scheme and an id.

    All methods raise StoreConnectionLost and StoreSessionExpired.
    """

    def __init__(self, nodes: AccessLists, own_ids: frozenset[tuple[str, str]]) -> None:
        self._nodes = nodes
        self._own_ids = own_ids

    async def find_open(self, paths: Sequence[str], *, with_children: bool) -> AsyncIterator[OpenNode]:
        """The nodes at `paths` that are open or foreign, and those below them. Missing ones are left out."""
        waiting = list(reversed(paths))
        while waiting:
            some = [waiting.pop() for _ in range(min(len(waiting), REGISTRY_NODES_CHECKED_AT_ONCE_MAX))]
            for found, children in await asyncio.gather(*(self._look(path, with_children) for path in some)):
                if found is not None:
                    yield found
                waiting += children

    async def _look(self, path: str, with_children: bool) -> tuple[OpenNode | None, list[str]]:
        children: list[str] = []
        try:
            entries, _ = await self._nodes.access_list(path)
            found = self._judge_node(path, entries)
            if with_children:
                names = await self._nodes.children(path)
                children = [f"{'' if path == '/' else path}/{name}" for name in names]
        except NoNode:
            return None, []
        except StoreAccessDenied:
            return OpenNode(path, (), is_foreign=True), []
        return found, children

    async def protect(self, path: str) -> OpenNode | None:
        """Give an open node the access list of a new one. What was found; None for a protected or missing node.

        A foreign node stays as it is.
        """
        while True:
            try:
                entries, stat = await self._nodes.access_list(path)
                found = self._judge_node(path, entries)
                if found is not None and not found.is_foreign:
                    await self._nodes.set_access_list(path, build_owned_acl(path), version=stat.aversion)
                return found
            except VersionConflict:
                continue  # Another client changed the list.
            except NoNode:
                return None
            except StoreAccessDenied:
                return OpenNode(path, (), is_foreign=True)

    def _judge_node(self, path: str, entries: Sequence[ACL]) -> OpenNode | None:
        if wide := too_wide(path, entries):
            return OpenNode(path, tuple(map(_text, wide)))
        if self._own_ids and not any(map(self._is_own, entries)):
            return OpenNode(path, tuple(map(_text, entries)), is_foreign=True)
        return None

    def _is_own(self, entry: ACL) -> bool:
        is_own = (entry.id.scheme, entry.id.id) in self._own_ids or entry.id.scheme == _CERTIFICATE
        return is_own and bool(entry.perms & Permissions.ADMIN)


def _text(entry: ACL) -> str:
    # The id of a digest ends in a hash of the password.
    name = entry.id.id.partition(":")[0] if entry.id.scheme == "digest" else entry.id.id
    return f"{entry.id.scheme}:{name}:{''.join(letter for bit, letter in _LETTERS if entry.perms & bit)}"
