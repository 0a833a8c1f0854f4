"""Requests of users and clients, as handlers read them.

Written by `odradek.handlers.request_types`; edits are lost.
"""

from __future__ import annotations

from typing import ClassVar, Final

from odradek.protocol.api import ApiKey


class SaslHandshakeRequest:
    __slots__ = ()
    mechanism: str


class DescribeAclsRequest:
    __slots__ = ()
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class AclCreation:
    __slots__ = ()
    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class CreateAclsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"creations": AclCreation}
    creations: tuple[AclCreation, ...]


class DeleteAclsFilter:
    __slots__ = ()
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class DeleteAclsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"filters": DeleteAclsFilter}
    filters: tuple[DeleteAclsFilter, ...]


class SaslAuthenticateRequest:
    __slots__ = ()
    auth_bytes: bytes


class ComponentData:
    __slots__ = ()
    entity_type: str
    match_type: int
    match: str | None


class DescribeClientQuotasRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"components": ComponentData}
    components: tuple[ComponentData, ...]
    strict: bool


class EntityData:
    __slots__ = ()
    entity_type: str
    entity_name: str | None


class OpData:
    __slots__ = ()
    key: str
    value: float
    remove: bool


class EntryData:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"entity": EntityData, "ops": OpData}
    entity: tuple[EntityData, ...]
    ops: tuple[OpData, ...]


class AlterClientQuotasRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"entries": EntryData}
    entries: tuple[EntryData, ...]
    validate_only: bool


class UserName:
    __slots__ = ()
    name: str


class DescribeUserScramCredentialsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"users": UserName}
    users: tuple[UserName, ...] | None


class ScramCredentialDeletion:
    __slots__ = ()
    name: str
    mechanism: int


class ScramCredentialUpsertion:
    __slots__ = ()
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class AlterUserScramCredentialsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {
        "deletions": ScramCredentialDeletion,
        "upsertions": ScramCredentialUpsertion,
    }
    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]


TYPES: Final[dict[int, type]] = {
    ApiKey.SASL_HANDSHAKE: SaslHandshakeRequest,
    ApiKey.DESCRIBE_ACLS: DescribeAclsRequest,
    ApiKey.CREATE_ACLS: CreateAclsRequest,
    ApiKey.DELETE_ACLS: DeleteAclsRequest,
    ApiKey.SASL_AUTHENTICATE: SaslAuthenticateRequest,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: DescribeClientQuotasRequest,
    ApiKey.ALTER_CLIENT_QUOTAS: AlterClientQuotasRequest,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: DescribeUserScramCredentialsRequest,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: AlterUserScramCredentialsRequest,
}
