"""Opens a registry by its name, from a setting or an option:

sqlite:FILE                    one file, for one process
zookeeper:HOST:PORT,…/CHROOT   a ZooKeeper ensemble; `zookeeper:` may be left out

Each implementation is imported only when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.foundation.errors import SettingError
from odradek.metadata.registry.store import Store


async def open_registry(name: str, *, entries: Mapping[str, str] | None = None) -> Store:
    """Open the registry of that name; `entries` are the caller's settings, of which `zookeeper.*` are used.

    Raises SettingError for a wrong name or wrong settings, StoreError when the registry cannot be opened.
    """
    scheme, _, rest = name.partition(":")
    if scheme == "sqlite":
        if not rest:
            raise SettingError(
                f"the registry {name!r} names no file; it must be as sqlite:/var/lib/odradek/metadata/registry"
            )
        from odradek.metadata.registry.sqlite_store import SqliteStore

        return SqliteStore.open(rest)
    from odradek.foundation.settings.areas.zookeeper import ZookeeperSettings
    from odradek.metadata.registry.zookeeper_store import ZookeeperStore

    connect = rest if scheme == "zookeeper" else name
    return await ZookeeperStore.open(ZookeeperSettings({**(entries or {}), "zookeeper.connect": connect}))
