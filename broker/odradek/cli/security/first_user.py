"""`odradek users bootstrap`: opens the registry that a node or a cluster will use, and writes a user into it."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence

import click

from odradek.broker.process.environment import REGISTRY_FILE
from odradek.cli.security.users import MECHANISM_DEFAULT
from odradek.cli.security.users_run import read_password, say_done
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.property_files import read_entries
from odradek.foundation.errors import SettingError
from odradek.foundation.private_files import make_private_directory
from odradek.foundation.settings.areas.zookeeper import ZookeeperSettings
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.image.first_users import write_first_user
from odradek.metadata.registry.registries import open_registry
from odradek.security.authentication.scram import SALT_BYTES, ScramCredential, check_user_name

_CONNECT = "zookeeper.connect"


def bootstrap(
    session: CommandSession,
    *,
    name: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    data: str | None,
    zookeeper: str | None,
    config: str | None,
    unprotected: bool,
    **source: str | None,
) -> None:
    check_user_name(name)
    registry, entries = registry_of(
        data=data, zookeeper=zookeeper, config=config, may_be_unprotected=unprotected
    )
    wanted = mechanisms or (MECHANISM_DEFAULT,)
    password = read_password(name, **source)
    was_there = bootstrap_user(
        registry, entries, name=name, password=password, mechanisms=wanted, iterations=iterations
    )
    say_done(session, name, "replaced" if was_there else "set", wanted)


def registry_of(
    *, data: str | None, zookeeper: str | None, config: str | None, may_be_unprotected: bool
) -> tuple[str, Mapping[str, str]]:
    """(the registry by name, the entries of the file).

    Raises SettingError, and UsageError unless one is named. Raises UsageError too for a ZooKeeper whose nodes every
    client may change, unless that is meant.
    """
    if data is not None and zookeeper is not None:
        raise click.UsageError("--data and --zookeeper exclude each other; give one of them")
    entries = {} if config is None else read_entries(config, what="--config")
    if data is not None:
        entries = {"log.dirs": data}
    connect = zookeeper or entries.get(_CONNECT)
    if connect:
        if not may_be_unprotected and not ZookeeperSettings(entries).zookeeper_set_acl:
            raise click.UsageError(
                "every client of ZooKeeper could read and replace the keys of this user. Give --config FILE with "
                "zookeeper.set.acl=true, zookeeper.digest.user and zookeeper.digest.password, as brokers have them. "
                "Or give --unprotected, if no other client reaches ZooKeeper"
            )
        return connect, entries
    if "log.dirs" not in entries and "log.dir" not in entries:
        raise click.UsageError(
            "name the registry: --data DIR for a single node, --zookeeper CONNECT for a cluster, or --config FILE"
        )
    directory = Settings(
        {key: entries[key] for key in ("log.dirs", "log.dir") if key in entries}
    ).log_directories[0]
    try:
        make_private_directory(directory, may_be_link=True)
    except OSError as failure:
        raise SettingError(f"the data directory {directory}: {failure.strerror}") from failure
    return f"sqlite:{os.path.join(directory, REGISTRY_FILE)}", entries


def bootstrap_user(
    registry: str,
    entries: Mapping[str, str],
    *,
    name: str,
    password: str,
    mechanisms: Sequence[str],
    iterations: int,
) -> bool:
    """Whether the user had one of the passwords before. Raises StoreError, also for a registry in use."""
    credentials = {
        mechanism: ScramCredential.of_password(
            mechanism, password, salt=secrets.token_bytes(SALT_BYTES), iterations=iterations
        ).text
        for mechanism in mechanisms
    }
    return asyncio.run(_write(registry, entries, name, credentials))


async def _write(registry: str, entries: Mapping[str, str], name: str, credentials: dict[str, str]) -> bool:
    store = await open_registry(registry, entries=entries)
    try:
        return await write_first_user(store, name, credentials)
    finally:
        await store.close()
