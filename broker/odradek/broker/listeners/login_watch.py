"""Ends the connections of what a login rests on and is gone: a deleted credential of SCRAM, an ended delegation token.

A changed password ends none, as in Kafka: it holds from the next login on. A token ends when it is deleted, when its
expiry was moved to the past, and by itself. So there is one timer, for the token that ends first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from odradek.broker.requests.sasl_dispatch import login_of
from odradek.foundation.client_entities import ClientEntity
from odradek.security.authentication.delegation_tokens import BY_TOKEN

if TYPE_CHECKING:
    from odradek.metadata.image.image import ClusterImage, ImageHolder
    from odradek.network.connection import Connection
    from odradek.network.listener import Listener
    from odradek.security.authentication.delegation_tokens import DelegationToken

logger = logging.getLogger(__name__)

ClientConfigs = Mapping[ClientEntity, Mapping[str, str]]
Tokens = Mapping[str, "DelegationToken"]
# The wall clock may be set while a timer runs, so none runs longer.
_TIMER_SECONDS_MAX: Final = 60.0
_MS_PER_SECOND: Final = 1000


class LoginWatch:
    """Follows the users and tokens of `images` until `stop`, for the connections of `listeners`."""

    def __init__(
        self, images: ImageHolder, listeners: Callable[[], Iterable[Listener]], *, now_ms: Callable[[], int]
    ) -> None:
        """`now_ms` is in milliseconds since 1970."""
        self._listeners = listeners
        self._images = images
        self._now_ms = now_ms
        self._timer: asyncio.TimerHandle | None = None
        self._unsubscribe = images.subscribe(self._apply_change)
        self._end_by_time()

    def stop(self) -> None:
        """Follow no more."""
        self._unsubscribe()
        if self._timer is not None:
            self._timer.cancel()

    def _apply_change(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.client_configs is not new.client_configs:
            drop_logins(self._listeners(), find_deleted_logins(old.client_configs, new.client_configs))
        if old.tokens is not new.tokens:
            drop_tokens(self._listeners(), new.tokens, self._now_ms())
            self._set_timer()

    def _end_by_time(self) -> None:
        drop_tokens(self._listeners(), self._images.current.tokens, self._now_ms())
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._now_ms()
        ends = [token.end_ms for token in self._images.current.tokens.values() if not token.has_ended(now_ms)]
        if ends:
            seconds = min((min(ends) + 1 - now_ms) / _MS_PER_SECOND, _TIMER_SECONDS_MAX)
            self._timer = asyncio.get_running_loop().call_later(seconds, self._end_by_time)


def find_deleted_logins(old: ClientConfigs, new: ClientConfigs) -> set[tuple[str, str]]:
    """(user, mechanism) of what `old` has and `new` has not. Other keys of the same users may be among them."""
    return {
        (entity.user, key)
        for entity, texts in old.items()
        if isinstance(entity.user, str) and new.get(entity) is not texts
        for key in texts.keys() - new.get(entity, {}).keys()
    }


def drop_logins(listeners: Iterable[Listener], logins: set[tuple[str, str]]) -> None:
    """End the connections that logged in by one of these (user, mechanism), at once."""
    if logins:
        _drop(listeners, lambda one: login_of(one) in logins, why="its user's credential was deleted")


def drop_tokens(listeners: Iterable[Listener], tokens: Tokens, now_ms: int) -> None:
    """End the connections that logged in by a token which is not among `tokens`, or has ended, at once."""

    def has_ended(connection: Connection) -> bool:
        token_id = connection.state.get(BY_TOKEN)
        token = tokens.get(token_id) if token_id else None
        return bool(token_id) and (token is None or token.has_ended(now_ms))

    _drop(listeners, has_ended, why="the delegation token of its login has ended")


def _drop(listeners: Iterable[Listener], is_over: Callable[[Connection], bool], *, why: str) -> None:
    for listener in listeners:
        for connection in filter(is_over, list(listener.connections)):
            logger.info("%r is ended: %s", connection, why)
            connection.abort()
