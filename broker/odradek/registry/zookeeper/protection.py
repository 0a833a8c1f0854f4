"""Finds the nodes in ZooKeeper that others may change, or read where they hold secrets, and protects them.

A node is *open* when its access list gives anybody more than `security.owned` does: by an entry of the scheme `world`,
or of `ip`, which no login backs. It is *foreign* when this user may not change its access list. A node that was open
gets the access list of a new one, without what else was in it: anybody could have added that.

Access lists are not inherited, so each node is asked about: two requests each, and a few nodes at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from kazoo.security import ACL, Permissions

from odradek.foundation.errors import NoNode, StoreAccessDenied, VersionConflict
from odradek.foundation.limits import REGISTRY_NODES_CHECKED_AT_ONCE_MAX
from odradek.registry.zookeeper.security import owned, too_wide

# Asks kazoo's client: the node's path, the method and its other arguments.
Ask = Callable[..., Awaitable[Any]]

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


class NodeProtection:
    """Works for the user of `ask`, whose entries have `own_ids`: pairs of a scheme and an id.

    All methods raise StoreConnectionLost and StoreSessionExpired.
    """

    def __init__(self, ask: Ask, own_ids: frozenset[tuple[str, str]]) -> None:
        self._ask = ask
        self._own_ids = own_ids

    async def found(self, paths: Sequence[str], *, with_children: bool) -> AsyncIterator[OpenNode]:
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
            entries, _ = await self._ask(path, "get_acls_async")
            found = self._judged(path, entries)
            if with_children:
                names = await self._ask(path, "get_children_async")
                children = [f"{'' if path == '/' else path}/{name}" for name in names]
        except NoNode:
            return None, []
        except StoreAccessDenied:
            return OpenNode(path, (), is_foreign=True), []
        return found, children

    async def protect(self, path: str) -> OpenNode | None:
        """Give an open node the access list of a new one. What was found; None for a node that is in order, or gone.

        A foreign node stays as it is.
        """
        while True:
            try:
                entries, stat = await self._ask(path, "get_acls_async")
                found = self._judged(path, entries)
                if found is not None and not found.is_foreign:
                    await self._ask(path, "set_acls_async", list(owned(path)), stat.aversion)
                return found
            except VersionConflict:
                continue  # Somebody else changed the list.
            except NoNode:
                return None
            except StoreAccessDenied:
                return OpenNode(path, (), is_foreign=True)

    def _judged(self, path: str, entries: Sequence[ACL]) -> OpenNode | None:
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
