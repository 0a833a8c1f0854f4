"""Which names a caller of the HTTP port may see: those that it may describe.

Every caller gets every number. Of the names of topics, groups, users, client ids and addresses it gets those that its
principal may describe from its address. Without an authorizer that is every name, but none for `User:ANONYMOUS` where
all listeners ask for a login or a certificate.

A port without protection (`port_guard`) has no logins, so it shows no more than a listener without them: its callers
are `User:ANONYMOUS`. But a caller on this machine may see all there, and may do what needs a right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, Protocol

from odradek.foundation.ids import ANONYMOUS
from odradek.foundation.metrics import Metric, Sample
from odradek.foundation.settings.protection import WITH_SASL, WITH_TLS
from odradek.security.authorization.acls import AclOperation, AclResourceType

if TYPE_CHECKING:
    from odradek.broker.process.broker_process import AnyBroker
    from odradek.foundation.settings.broker_settings import Settings
    from odradek.security.authorization.authorizer import Authorizer

# What a label of a metric names. Users, client ids and addresses are seen with the right to describe the cluster.
LABEL_RESOURCES: Final[Mapping[str, AclResourceType]] = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactional_id": AclResourceType.TRANSACTIONAL_ID,
    "user": AclResourceType.CLUSTER,
    "client_id": AclResourceType.CLUSTER,
    "ip": AclResourceType.CLUSTER,
}
_CLUSTER_NAME: Final = "kafka-cluster"


class Names(Protocol):
    """The names that one caller may see."""

    def may_see(self, resource_type: AclResourceType, name: str) -> bool:
        """Whether the caller may see that name."""


class AllNames:
    """For a caller on this machine, and where every client may do everything."""

    def may_see(self, resource_type: AclResourceType, name: str) -> bool:
        return True


class NoNames:
    """For a caller of another machine where all clients log in, and during the start."""

    def may_see(self, resource_type: AclResourceType, name: str) -> bool:
        return False


class DescribableNames:
    """By the access control lists, for `principal` at `host`."""

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host

    def may_see(self, resource_type: AclResourceType, name: str) -> bool:
        known = _CLUSTER_NAME if resource_type is AclResourceType.CLUSTER else name
        return bool(
            self._authorizer.allows(self._principal, self._host, AclOperation.DESCRIBE, resource_type, known)
        )


def names_for(broker: AnyBroker, host: str, principal: str | None = None) -> Names:
    """The names of `broker` that a caller at the address `host` may see.

    `principal` is None on a port without protection.
    """
    if principal is None and ip_address(host).is_loopback:
        return AllNames()
    if not broker.settings.authorizer_class_name:
        is_named = principal not in (None, ANONYMOUS)
        return AllNames() if is_named or admits_anonymous(broker.settings) else NoNames()
    authorizer = broker.parts.shared.authorizer if broker.is_serving else None
    return NoNames() if authorizer is None else DescribableNames(authorizer, principal or ANONYMOUS, host)


def may_alter(broker: AnyBroker, host: str, principal: str | None) -> bool:
    """Whether a caller may do what changes the broker: Alter on the cluster.

    Without protection of the port, or without an authorizer, callers on this machine may, and no others.
    """
    authorizer = broker.parts.shared.authorizer if broker.is_serving else None
    if principal is None or not broker.settings.authorizer_class_name:
        return ip_address(host).is_loopback
    return authorizer is not None and authorizer.allows_cluster(principal, host, AclOperation.ALTER)


def admits_anonymous(settings: Settings) -> bool:
    """Whether a client can reach some listener without a login or a certificate."""
    for endpoint in settings.listener_endpoints:
        protocol = endpoint.security_protocol
        if protocol in WITH_SASL:
            continue
        if (
            protocol not in WITH_TLS
            or settings.listener_value(endpoint.listener_name, "ssl.client.auth") != "required"
        ):
            return True
    return False


class _RememberedNames:
    """Asks once for each name: thousands of samples have the same. A sample without a topic or group names none."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._seen: dict[tuple[AclResourceType, str], bool] = {}

    def may_see(self, resource_type: AclResourceType, name: str) -> bool:
        if resource_type is AclResourceType.CLUSTER:
            name = _CLUSTER_NAME
        elif not name:
            return True
        seen = self._seen.get((resource_type, name))
        if seen is None:
            seen = self._seen[resource_type, name] = self._names.may_see(resource_type, name)
        return seen


def visible_samples(collected: Mapping[Metric, Iterable[Sample]], names: Names) -> dict[Metric, list[Sample]]:
    """The samples without those that have a name that the caller may not see."""
    if isinstance(names, AllNames):
        return {metric: list(samples) for metric, samples in collected.items()}
    visible = _RememberedNames(names).may_see
    found: dict[Metric, list[Sample]] = {}
    for metric, samples in collected.items():
        named = [
            (position, LABEL_RESOURCES[label])
            for position, label in enumerate(metric.labels)
            if label in LABEL_RESOURCES
        ]
        seen = [
            sample
            for sample in samples
            if all(visible(resource_type, sample.labels[position]) for position, resource_type in named)
        ]
        if seen or not named:
            found[metric] = seen
    return found
