"""The rights of the client of one request. A denial is a line in a log of its own, and counted.

Existence is tested after rights, so a name that is hidden looks like one that is missing. Errors name nothing.
"""

from __future__ import annotations

import logging
from typing import Final

from odradek.authorization.acls import CLUSTER_NAME, AclOperation, AclResourceType
from odradek.authorization.authorizer import Authorizer
from odradek.foundation.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    RequestError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from odradek.foundation.limits import DENIAL_LINES_PER_MINUTE_MAX, DENIAL_NAME_CHARACTERS_MAX
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.handlers.context import RequestContext
from odradek.handlers.counters import RequestCounters
from odradek.protocol.api import ApiKey
from odradek.transport.connection import Connection

LOGGER_NAME: Final = "odradek.authorizer"

_lines: Final = RateLimitedLog(
    logging.getLogger(LOGGER_NAME), "denied operations", lines_per_minute_max=DENIAL_LINES_PER_MINUTE_MAX
)
_ERRORS: Final[dict[AclResourceType, type[RequestError]]] = {
    AclResourceType.TOPIC: TopicAuthorizationFailed,
    AclResourceType.GROUP: GroupAuthorizationFailed,
    AclResourceType.CLUSTER: ClusterAuthorizationFailed,
    AclResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}
_TEXTS: Final = {
    AclResourceType.TOPIC: "Topic authorization failed.",
    AclResourceType.GROUP: "Group authorization failed.",
    AclResourceType.CLUSTER: "Cluster authorization failed.",
    AclResourceType.TRANSACTIONAL_ID: "Transactional id authorization failed.",
}


class Rights:
    """The rights of the client of one request. `may` notes a denial; `could` does not, for lists and fallbacks."""

    __slots__ = ("_authorizer", "_context")

    def __init__(self, authorizer: Authorizer, context: RequestContext) -> None:
        self._authorizer = authorizer
        self._context = context

    @property
    def version(self) -> int:
        """Another number after each change of the ACLs."""
        return self._authorizer.version

    def could(
        self, operation: AclOperation, resource_type: AclResourceType, name: str = CLUSTER_NAME
    ) -> bool:
        context = self._context
        return self._authorizer.allows(context.principal, context.client_host, operation, resource_type, name)

    def may(self, operation: AclOperation, resource_type: AclResourceType, name: str = CLUSTER_NAME) -> bool:
        if self.could(operation, resource_type, name):
            return True
        context = self._context
        context.broker.counters.denied += 1
        api = ApiKey(context.header.api_key).name
        _note(context.principal, context.client_host, operation, resource_type, name, api)
        return False

    def may_any(self, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Whether the client may do it to at least one resource of the type."""
        return self._authorizer.allows_any(
            self._context.principal, self._context.client_host, operation, resource_type
        )

    def refusal(
        self, operation: AclOperation, resource_type: AclResourceType, name: str = CLUSTER_NAME
    ) -> RequestError | None:
        """The error of a denied operation; None for an allowed one."""
        return None if self.may(operation, resource_type, name) else error_for(resource_type)

    def require(
        self, operation: AclOperation, resource_type: AclResourceType, name: str = CLUSTER_NAME
    ) -> None:
        """Raises the error of a denied operation."""
        error = self.refusal(operation, resource_type, name)
        if error is not None:
            raise error


def error_for(resource_type: AclResourceType) -> RequestError:
    """The error of a denied operation on a resource of the type."""
    return _ERRORS[resource_type](_TEXTS[resource_type])


def is_broker(authorizer: Authorizer, connection: Connection, counters: RequestCounters) -> bool:
    """Whether the peer may send the private requests between brokers and controllers."""
    host = str(connection.peer[0]) if connection.peer else ""
    if authorizer.allows(
        connection.principal, host, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        return True
    counters.denied += 1
    _note(
        connection.principal,
        host,
        AclOperation.CLUSTER_ACTION,
        AclResourceType.CLUSTER,
        CLUSTER_NAME,
        "a broker's own",
    )
    return False


def _note(
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str,
    request: str,
) -> None:
    """Log a denial in Kafka's words. Names come from clients: they are quoted and cut off."""
    shown = name if len(name) <= DENIAL_NAME_CHARACTERS_MAX else name[:DENIAL_NAME_CHARACTERS_MAX] + "…"
    _lines.info(
        "Principal = %r is Denied operation = %s from host = %s on resource = %s:%r for request = %s",
        principal,
        operation.name,
        host,
        resource_type.name,
        shown,
        request,
    )
