"""Gives a Cluster's ZooKeeper to its brokers, before clients are admitted that are not ours.

ZooKeeper's own root and the steps to the Cluster's are made or taken, so that no client can put anything there or lock
others out. Each node of the Cluster is asked for its access list. One that an earlier login owns gets the present one:
a Cluster that is made again on kept volumes, or a backup, has such nodes. One that is open to all is the controllers'
to protect, which know what is secret. While there is any, this raises.

Clients have /consumers. ZooKeeper bounds how many nodes and bytes are below it (a quota).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.security import ACL, Id, Permissions

from odradek_operator.foundation.zookeeper_login import USER, ZookeeperLogin
from odradek_operator.gateways.zookeeper_members import SECONDS_MAX, EnsembleError, call_with_client

CONSUMERS: Final = "/consumers"
_QUOTAS: Final = "/zookeeper/quota"
_ANYBODY: Final = Id("world", "anyone")
_OF_CLIENTS: Final = Permissions.READ | Permissions.WRITE | Permissions.CREATE | Permissions.DELETE
_ASKED_AT_ONCE_MAX: Final = 128
_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedRegistry:
    """What is protected: the Cluster below `root`. The quota is of all that clients have there.

    With `keeps_former` owners keep their rights beside the new one: brokers and controllers still log in as these.
    """

    root: str
    login: ZookeeperLogin
    nodes_max: int
    bytes_max: int
    keeps_former: bool = False


async def protect_registry(addresses: Sequence[str], wanted: ProtectedRegistry) -> None:
    """Raises EnsembleError, also where nodes are open to all."""
    await call_with_client(addresses, lambda client: _protect(client, wanted), login=wanted.login)


def _protect(client: KazooClient, wanted: ProtectedRegistry) -> None:
    owner = Id("digest", wanted.login.owner)
    owned = [ACL(Permissions.ALL, owner), ACL(Permissions.READ, _ANYBODY)]
    steps = list(itertools.accumulate(wanted.root.strip("/").split("/"), "{}/{}".format))
    for path in ("/", "/zookeeper", _QUOTAS, *(f"/{step}" for step in steps[:-1])):
        _take(client, path, owned)
    _make(client, wanted.root, owned)
    _make(client, wanted.root + CONSUMERS, [owned[0], ACL(_OF_CLIENTS, _ANYBODY)])
    _set_quota(client, wanted, owned)
    open_nodes = list(_give_to_owner(client, wanted, owner))
    if open_nodes:
        named = ", ".join(open_nodes[:_NAMED_MAX]) + (", …" if len(open_nodes) > _NAMED_MAX else "")
        raise EnsembleError(
            f"{len(open_nodes)} nodes of ZooKeeper are open to all ({named}); the active controller protects them"
        )


def _take(client: KazooClient, path: str, access: list[ACL]) -> None:
    """A node that is the brokers' alone, made where it is missing."""
    if not _make(client, path, access) and set(client.get_acls(path)[0]) != set(access):
        client.set_acls(path, access)


def _make(client: KazooClient, path: str, access: list[ACL]) -> bool:
    """Make a node where it is missing; whether it was."""
    if client.exists(path) is not None:
        return False
    try:
        client.create(path, b"", acl=access)
    except NodeExistsError:
        return False
    return True


def _set_quota(client: KazooClient, wanted: ProtectedRegistry, access: list[ACL]) -> None:
    # Soft limits only log. The odd text is how ZooKeeper writes it, for servers that know no hard ones.
    limits = f"count=-1,bytes=-1=;byteHardLimit={wanted.bytes_max};countHardLimit={wanted.nodes_max}".encode()
    path = _QUOTAS + wanted.root + CONSUMERS
    for step in itertools.accumulate(path.removeprefix(_QUOTAS + "/").split("/"), "{}/{}".format):
        _make(client, f"{_QUOTAS}/{step}", access)
    node = f"{path}/zookeeper_limits"
    try:
        client.create(node, limits, acl=access)
    except NodeExistsError:
        if client.get(node)[0] != limits:
            client.set(node, limits)
    # ZooKeeper counts what is there once this node is made.
    _make(client, f"{path}/zookeeper_stats", access)


def _give_to_owner(client: KazooClient, wanted: ProtectedRegistry, owner: Id) -> Iterator[str]:
    """Have `owner` own all nodes of the Cluster; those that all may change. What clients have is left out."""
    place_of_clients = wanted.root + CONSUMERS
    waiting = deque([wanted.root])
    while waiting:
        paths = [waiting.popleft() for _ in range(min(len(waiting), _ASKED_AT_ONCE_MAX))]
        # Asked together, and answered in their order.
        asked = [(path, client.get_acls_async(path), client.get_children_async(path)) for path in paths]
        for path, of_access, of_children in asked:
            try:
                entries, stat = of_access.get(timeout=SECONDS_MAX)
                children = of_children.get(timeout=SECONDS_MAX)
            except NoNodeError:
                continue
            changed = list(_entries_of(entries, owner, keeps_former=wanted.keeps_former))
            if changed != entries:
                _change(client, path, changed, stat.aversion)
            if path == place_of_clients:
                continue
            if any(one.id.scheme in ("world", "ip") and one.perms & ~Permissions.READ for one in entries):
                yield path
            waiting.extend(f"{path}/{child}" for child in children)


def _change(client: KazooClient, path: str, entries: list[ACL], version: int) -> None:
    try:
        client.set_acls(path, entries, version)
    except NoNodeError:
        return


def _entries_of(entries: Sequence[ACL], owner: Id, *, keeps_former: bool) -> Iterator[ACL]:
    """A node's access list with the present owner in place of former ones, or beside them."""
    former = [one for one in entries if one.id.scheme == "digest" and one.id.id.partition(":")[0] == USER]
    if former and ACL(Permissions.ALL, owner) not in former:
        yield ACL(Permissions.ALL, owner)
    for one in entries:
        if one not in former or one.id == owner or keeps_former:
            yield one
