"""The rights of the client of one request. Decisions are lines in a log of their own, and denials are counted.

Existence is tested after rights, so a name that is hidden looks like one that is missing. Errors name nothing.

The log is that of Kafka's authorizer (`kafka.authorizer.logger`), in its words: a denial at INFO, and what was allowed
at DEBUG. Questions that only filter an answer are not logged. It is declared here alone. Kafka also names the rule that
decided.
"""

from __future__ import annotations

import logging
from typing import Final

from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.counters import RequestCounters
from odradek.foundation.errors import RequestError
from odradek.foundation.ids import TopicId
from odradek.foundation.limits import AUDIT_LINES_PER_MINUTE_MAX, AUDIT_NAME_CHARACTERS_MAX
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.security_errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
)
from odradek.foundation.transaction_errors import TransactionalIdAuthorizationFailed
from odradek.network.connection import Connection
from odradek.security.authorization.acls import CLUSTER_NAME, AclOperation, AclResourceType
from odradek.security.authorization.authorizer import Authorizer
from odradek.wire.protocol.api import ApiKey

LOGGER_NAME: Final = "odradek.authorizer"

_logger: Final = logging.getLogger(LOGGER_NAME)
_denied_lines: Final = RateLimitedLog(
    _logger, "denied operations", lines_per_minute_max=AUDIT_LINES_PER_MINUTE_MAX
)
_allowed_lines: Final = RateLimitedLog(
    _logger, "allowed operations", lines_per_minute_max=AUDIT_LINES_PER_MINUTE_MAX
)
_TYPE_NAMES: Final = {
    AclResourceType.TOPIC: "Topic",
    AclResourceType.GROUP: "Group",
    AclResourceType.CLUSTER: "Cluster",
    AclResourceType.TRANSACTIONAL_ID: "TransactionalId",
    AclResourceType.DELEGATION_TOKEN: "DelegationToken",
    AclResourceType.USER: "User",
}
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
    """The rights of the client of one request. `may` logs the decision; `could` does not, for lists and fallbacks."""

    __slots__ = ("_authorizer", "_context")

    def __init__(self, authorizer: Authorizer, context: AnyContext) -> None:
        self._authorizer = authorizer
        self._context = context

    @property
    def version(self) -> int:
        """Another number after each change of the ACLs."""
        return self._authorizer.version

    @property
    def api_version(self) -> int:
        """The version of the request."""
        return self._context.header.api_version

    def name_of_id(self, topic_id: TopicId | None) -> str | None:
        """The name of the topic with this id; None where there is none."""
        if topic_id is None:
            return None
        found = self._context.broker.images.current.topics_by_id.get(topic_id)
        return None if found is None else found.name

    def could(
        self, operation: AclOperation, resource_type: AclResourceType, name: str = CLUSTER_NAME
    ) -> bool:
        context = self._context
        return self._authorizer.allows(context.principal, context.client_host, operation, resource_type, name)

    def may(
        self,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str = CLUSTER_NAME,
        *,
        count: int = 1,
    ) -> bool:
        """`count` is how often the request names the resource."""
        is_allowed = self.could(operation, resource_type, name)
        context = self._context
        if not is_allowed:
            context.broker.counters.denied += 1
        if not is_allowed or logs_allowed():
            _note(
                context.principal,
                context.client_host,
                operation,
                resource_type,
                name,
                api_name(context.header.api_key),
                is_allowed=is_allowed,
                count=count,
            )
        return is_allowed

    def may_instead(
        self, operation: AclOperation, resource_type: AclResourceType, name: str = CLUSTER_NAME
    ) -> bool:
        """As `may`, for one of several rights of which each is enough: the last one's denial is logged, with `may`."""
        return self.could(operation, resource_type, name) and self.may(operation, resource_type, name)

    def may_any(self, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Whether the client may do it to at least one resource of the type. Kafka logs no such decision."""
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


def logs_allowed() -> bool:
    """Whether decisions that allow are logged. What remembers a decision must ask again then."""
    return _logger.isEnabledFor(logging.DEBUG)


def api_name(api_key: int) -> str:
    """The name of an API as Kafka writes it: `CreateTopics`."""
    return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))


def _note(
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str,
    request: str,
    *,
    is_allowed: bool = False,
    count: int = 1,
) -> None:
    """Log a decision in Kafka's words."""
    log = _allowed_lines.debug if is_allowed else _denied_lines.info
    log(
        "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s with "
        "resourceRefCount = %d",
        _format_name(principal),
        "Allowed" if is_allowed else "Denied",
        operation.name,
        host,
        _TYPE_NAMES[resource_type],
        _format_name(name),
        request,
        count,
    )


def _format_name(name: str) -> str:
    """A name from a client, of bounded length and without characters that could begin another line or hide one."""
    cut = name if len(name) <= AUDIT_NAME_CHARACTERS_MAX else name[:AUDIT_NAME_CHARACTERS_MAX] + "…"
    return cut if cut.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in cut)
