"""The brokers' state of users: credentials of SCRAM, access control lists, quotas; and the steps that change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek.client.admin.admin import Admin
from odradek.client.admin.scram import ScramPassword, ScramRemoval
from odradek.client.client import Client
from odradek.foundation.client_entities import DEFAULT, ClientEntity
from odradek.foundation.errors import OdradekError, ResourceNotFound
from odradek.foundation.security_errors import SecurityDisabled
from odradek.security.authorization.acls import AclBinding, PatternType
from odradek.security.authorization.filters import AclFilter

_TYPE: Final = "User:"
# In access control lists: all principals.
_EVERYONE: Final = "*"


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


def plan_removal(user: str, principal_name: str, seen: SeenUser) -> Sequence[UserStep]:
    """The steps after which brokers know nothing of a user."""
    steps: list[UserStep] = [RemovePassword(user, one) for one in sorted(seen.mechanisms)]
    if seen.acls:
        steps.append(ChangeAcls((), tuple(sorted(seen.acls))))
    if seen.quotas:
        steps.append(ChangeQuotas(principal_name, dict.fromkeys(seen.quotas)))
    return steps


class BrokerUsers:
    """Users of one cluster. All calls raise OdradekError."""

    def __init__(self, client: Client) -> None:
        self._admin = Admin(client)

    async def list_names(self) -> frozenset[str]:
        """The names that have a password, access control lists or quotas: as a principal has them, without its type."""
        names = set(await self._admin.scram.describe())
        names |= {
            entry.entity.user
            for entry in await self._admin.quotas.describe()
            if entry.entity.user is not None
        }
        try:
            principals = {one.entry.principal for one in await self._admin.acls.list()}
        except SecurityDisabled:
            principals = set()
        names |= {one.removeprefix(_TYPE) for one in principals if one.startswith(_TYPE)}
        return frozenset(names - {DEFAULT, _EVERYONE})

    async def remove(self, name: str, *, user: str) -> None:
        """Have brokers forget a user: `name` as in `describe`."""
        for step in plan_removal(name, user, await self.describe(name, user=user)):
            await self.carry_out(step)

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
