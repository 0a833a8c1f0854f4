"""Ends the connections of users of SCRAM whose credential is deleted, when the broker learns of it.

A changed password ends none, as in Kafka: it holds from the next login on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.foundation.client_entities import ClientEntity
from odradek.handlers.sasl_dispatch import login_of

if TYPE_CHECKING:
    from odradek.cluster.image import ClusterImage, ImageHolder
    from odradek.transport.listener import Listener

logger = logging.getLogger(__name__)

ClientConfigs = Mapping[ClientEntity, Mapping[str, str]]


class LoginWatch:
    """Follows the users of `images` until `stop`, for the connections of `listeners`."""

    def __init__(self, images: ImageHolder, listeners: Callable[[], Iterable[Listener]]) -> None:
        self._listeners = listeners
        self.stop = images.subscribe(self._changed)

    def _changed(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.client_configs is not new.client_configs:
            drop_logins(self._listeners(), deleted_logins(old.client_configs, new.client_configs))


def deleted_logins(old: ClientConfigs, new: ClientConfigs) -> set[tuple[str, str]]:
    """(user, mechanism) of what `old` has and `new` has not. Other keys of the same users may be among them."""
    return {
        (entity.user, key)
        for entity, texts in old.items()
        if isinstance(entity.user, str) and new.get(entity) is not texts
        for key in texts.keys() - new.get(entity, {}).keys()
    }


def drop_logins(listeners: Iterable[Listener], logins: set[tuple[str, str]]) -> None:
    """End the connections that logged in by one of these (user, mechanism), at once."""
    if not logins:
        return
    for listener in listeners:
        for connection in list(listener.connections):
            if login_of(connection) in logins:
                logger.info("%r is ended: its user's credential was deleted", connection)
                connection.abort()
