"""The brokers' state of users: credentials of SCRAM, access control lists, quotas; and the steps that change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from odradek.client.admin.admin import Admin
from odradek.client.admin.scram import ScramPassword, ScramRemoval
from odradek.client.client import Client
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.errors import OdradekError, ResourceNotFound
from odradek.foundation.security_errors import SecurityDisabled
from odradek.security.authorization.acls import AclBinding, PatternType
from odradek.security.authorization.filters import AclFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenUser:
    """`mechanisms` for which the user has a credential. `acls` is None where brokers have no authorizer."""

    mechanisms: frozenset[str] = frozenset()
    acls: frozenset[AclBinding] | None = frozenset()
    quotas: Mapping[str, float] = field(default_factory=dict)


# --- steps --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetPassword:
    """Give the user this password for one mechanism."""

    user: str
    mechanism: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RemovePassword:
    """Take the user's credential for one mechanism away."""

    user: str
    mechanism: str


@dataclass(frozen=True, slots=True)
class ChangeAcls:
    """Add some access control lists and take others away."""

    add: tuple[AclBinding, ...]
    remove: tuple[AclBinding, ...]


@dataclass(frozen=True, slots=True)
class ChangeQuotas:
    """Set quotas by key; those with None are taken away."""

    user: str
    values: Mapping[str, float | None]


UserStep = SetPassword | RemovePassword | ChangeAcls | ChangeQuotas


class BrokerUsers:
    """Users of one cluster. All calls raise OdradekError."""

    def __init__(self, client: Client) -> None:
        self._admin = Admin(client)

    async def describe(self, name: str, *, user: str) -> SeenUser:
        """A user as brokers know it. `name` logs in, with SCRAM; `user` is the principal's name, as in quotas."""
        mechanisms = (await self._admin.scram.describe([name])).get(name, {})
        quotas: dict[str, float] = {}
        for entry in await self._admin.quotas.describe(ClientEntity(user=user), is_strict=True):
            quotas.update(entry.values)
        return SeenUser(
            mechanisms=frozenset(mechanisms), acls=await self._describe_acls(f"User:{user}"), quotas=quotas
        )

    async def _describe_acls(self, principal: str) -> frozenset[AclBinding] | None:
        try:
            return frozenset(await self._admin.acls.list(AclFilter(principal=principal)))
        except SecurityDisabled:
            return None

    async def carry_out(self, step: UserStep) -> None:
        """Take a step. Raises OdradekError."""
        match step:
            case SetPassword(user, mechanism, password):
                answer = await self._admin.scram.alter([ScramPassword(user, mechanism, password)])
                _raise_first(answer.values())
            case RemovePassword(user, mechanism):
                answer = await self._admin.scram.alter(removals=[ScramRemoval(user, mechanism)])
                _raise_first(one for one in answer.values() if not isinstance(one, ResourceNotFound))
            case ChangeAcls(add, remove):
                if add:
                    _raise_first(await self._admin.acls.create(add))
                if remove:
                    removed = await self._admin.acls.delete([_filter(one) for one in remove])
                    _raise_first(one for one in removed if isinstance(one, OdradekError))
            case ChangeQuotas(user, values):
                await self._admin.quotas.alter(ClientEntity(user=user), values)


def _raise_first(answers: Iterable[OdradekError | None]) -> None:
    for answer in answers:
        if answer is not None:
            raise answer


def _filter(binding: AclBinding) -> AclFilter:
    pattern, entry = binding
    return AclFilter(
        type=pattern.type,
        name=pattern.name,
        pattern_type=PatternType(pattern.pattern_type),
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission=entry.permission,
    )
