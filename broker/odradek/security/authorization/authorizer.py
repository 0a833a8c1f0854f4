"""Decides whether a principal may do something, as Apache Kafka's StandardAuthorizer does.

    super user -> allowed | any DENY -> denied | any ALLOW -> allowed | the resource has ACLs -> denied
    | allow.everyone.if.no.acl.found

Decisions are kept until the ACLs change, in a bounded mapping that is emptied as a whole. `version` is another number
after each change: a decision that is kept elsewhere is kept with the number.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.errors import InvalidRequest, SettingError
from odradek.foundation.limits import AUTHORIZATION_DECISIONS_MAX
from odradek.security.authorization.acl_matching import AclIndex, Decision
from odradek.security.authorization.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclResourceType,
    check_principal,
    comparable_host,
)

# Kafka asks for this name first when it is asked for any name of a type, so that super users pass.
_ANY_NAME: Final = "hardcode"


def super_users(text: str) -> frozenset[str]:
    """The principals in a value of super.users. They are separated by semicolons: names of certificates have commas.

    Raises SettingError.
    """
    users = [user.strip() for user in text.split(";")]
    try:
        return frozenset(check_principal(user) for user in users if user)
    except InvalidRequest as error:
        raise SettingError(f"super.users: {error}") from error


class Authorizer:
    """The decisions of one process. `replace` gives it the ACLs of a new image of the cluster."""

    def __init__(
        self, *, super_users: frozenset[str] = frozenset(), allows_without_acl: bool = False
    ) -> None:
        self._super_users = super_users
        self._allows_without_acl = allows_without_acl
        self._index = AclIndex()
        self._decisions: dict[tuple[str, str, int, int, str | None], bool] = {}
        self.version = 0
        """Another number after each change of ACLs."""

    @property
    def index(self) -> AclIndex:
        """The ACLs that decide now."""
        return self._index

    def replace(self, index: AclIndex) -> None:
        """Decide by these ACLs from now on."""
        self._index = index
        self._decisions = {}
        self.version += 1

    def forget_remembered(self) -> None:
        """Have those that remember decisions ask again: what is answered is logged from now on."""
        self.version += 1

    def allows(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Whether `principal` may do `operation` to the resource, from the address `host`."""
        key = (principal, host, operation, resource_type, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._remember(key, self._decide(principal, host, operation, resource_type, name))
        return decision

    def allows_cluster(self, principal: str, host: str, operation: int) -> bool:
        return self.allows(principal, host, operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether `principal` may do it to any resource of the type (Kafka's authorizeByResourceType, KIP-679)."""
        key = (principal, host, operation, resource_type, None)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._remember(
                key,
                self._decide(principal, host, operation, resource_type, _ANY_NAME)
                or self._index.allows_any(principal, comparable_host(host), operation, resource_type),
            )
        return decision

    def operations(self, principal: str, host: str, resource_type: AclResourceType, name: str) -> int:
        """The allowed operations of the resource's type as bits: bit n for operation n (KIP-430)."""
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self.allows(principal, host, operation, resource_type, name)
        )

    def _decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        if principal in self._super_users:
            return True
        decision = self._index.decide(principal, comparable_host(host), operation, resource_type, name)
        return self._allows_without_acl if decision is Decision.NO_ACL else decision is Decision.ALLOWED

    def _remember(self, key: tuple[str, str, int, int, str | None], decision: bool) -> bool:
        if len(self._decisions) >= AUTHORIZATION_DECISIONS_MAX:
            self._decisions = {}
        self._decisions[key] = decision
        return decision
