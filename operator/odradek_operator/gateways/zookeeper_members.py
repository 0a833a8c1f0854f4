"""The voters of a ZooKeeper ensemble, read and changed while it runs (ZooKeeper's dynamic reconfiguration).

kazoo blocks, so each call runs in a thread with a session of its own, which ends with it. Nothing is tried again here:
the next reading shows whether an interrupted change was made.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from odradek_operator.foundation.zookeeper_login import ZookeeperLogin

SECONDS_MAX: Final = 8.0
_CONFIG: Final = "/zookeeper/config"
_VOTER: Final = re.compile(r"^server\.(\d+)=\S*:participant", re.MULTILINE)
_VERSION: Final = re.compile(r"^version=([0-9a-f]+)$", re.MULTILINE)
Result = TypeVar("Result")
# kazoo logs each lost connection, and a server that leaves causes one.
logging.getLogger("kazoo").setLevel(logging.ERROR)


class EnsembleError(Exception):
    """The ensemble does not answer, or refuses; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleConfiguration:
    """The agreed configuration: the ids of servers that vote, from 1, and its version, hexadecimal."""

    voters: tuple[int, ...]
    version: str


async def read_configuration(addresses: Sequence[str]) -> EnsembleConfiguration:
    """The configuration in force; `addresses` are servers' hosts and ports. Raises EnsembleError."""
    return await call_with_client(addresses, lambda client: _parse_configuration(client.get(_CONFIG)[0]))


async def reconfigure(
    addresses: Sequence[str],
    *,
    joining: Sequence[str],
    leaving: Sequence[int],
    login: ZookeeperLogin | None = None,
) -> EnsembleConfiguration:
    """Let servers vote, named as in ZooKeeper's configuration, or vote no more, by id. Raises EnsembleError.

    All of it is one change: more than half of the old and of the new voters have it when this returns. Servers that
    check access lists need the `login`.
    """
    return await call_with_client(
        addresses,
        lambda client: _parse_configuration(
            client.reconfig(
                joining=",".join(joining) or None,
                leaving=",".join(str(one) for one in leaving) or None,
                new_members=None,
            )[0]
        ),
        login=login,
    )


async def call_with_client(
    addresses: Sequence[str], ask: Callable[[KazooClient], Result], *, login: ZookeeperLogin | None = None
) -> Result:
    """The answer of `ask`, in a thread and with a session of its own. Raises EnsembleError."""

    def call() -> Result:
        shown = [] if login is None else [("digest", login.super_credential)]
        client = KazooClient(hosts=",".join(addresses), timeout=SECONDS_MAX, auth_data=shown)
        try:
            client.start(timeout=SECONDS_MAX)
            return ask(client)
        finally:
            client.stop()
            client.close()

    try:
        return await asyncio.to_thread(call)
    except (KazooException, KazooTimeoutError, OSError) as error:
        raise EnsembleError(f"ZooKeeper: {type(error).__name__}: {error}") from error


def _parse_configuration(data: bytes) -> EnsembleConfiguration:
    text = data.decode()
    version = _VERSION.search(text)
    return EnsembleConfiguration(
        voters=tuple(sorted(int(one) for one in _VOTER.findall(text))), version=version[1] if version else "0"
    )
