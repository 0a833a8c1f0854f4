"""Whether a setting that is to be unset is one: a broker unsets what it does not know without an error, as Kafka's."""

from __future__ import annotations

from collections.abc import Collection

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.client import Client
from odradek.client.results import ResourceType
from odradek.foundation.errors import InvalidConfig
from odradek.foundation.security_errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
)
from odradek.foundation.words import nearest_name

# Settings of one listener. A broker names those that are set.
_LISTENER_PREFIX = "listener.name."


async def require_known_keys(client: Client, kind: ResourceType, name: str, keys: Collection[str]) -> None:
    """Raises InvalidConfig for a key that the topic, broker, group or subscription does not have, with the nearest one.

    Also raises as `ConfigAdmin.describe`, but lets pass where the settings may not be described.
    """
    if kind is ResourceType.BROKER and not name:
        # The common default has only what is set; each broker has all keys.
        name = str(min(client.cluster.brokers, default=""))
    try:
        known = {entry.name for entry in await ConfigAdmin(client).describe(kind, name)}
    except (ClusterAuthorizationFailed, GroupAuthorizationFailed, TopicAuthorizationFailed):
        return
    for key in keys:
        if key in known or key.startswith(_LISTENER_PREFIX):
            continue
        noun = kind.name.lower().replace("_", "-")
        nearest = nearest_name(key, known)
        hint = f"`odradek configs describe {noun} {name} --all` lists all"
        if nearest is not None:
            hint = f"did you mean {nearest}?"
        raise InvalidConfig(f"{noun} {name!r} has no setting {key}; {hint}")
