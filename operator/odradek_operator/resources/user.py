"""The kind User: a client's name and how it is proved, what it may do and how much, and the Secret for connecting."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from odradek_operator.resources.conditions import (
    CONDITIONS,
    CONDITIONS_DOC,
    OBSERVED_GENERATION,
    OBSERVED_GENERATION_DOC,
    Condition,
)
from odradek_operator.resources.definition import AGE_COLUMN, READY_COLUMN, REASON_COLUMN, Column, Definition
from odradek_operator.resources.deletion import DeletionPolicy
from odradek_operator.resources.schema import INT64_MAX, Choice, Duration, Number, Text, Whole
from odradek_operator.resources.security import SECRET_KEY, SECRET_NAME, AuthenticationType
from odradek_operator.resources.structure import Doc, Listing, Nested, Rule
from odradek_operator.resources.topic import CLUSTER_DOC, CLUSTER_NAME

ACLS_MAX: Final = 256
OPERATIONS_MAX: Final = 16
# A certificate's common name has no more characters.
NAME_LENGTH_MAX: Final = 64
USER_NAME: Final = Text(
    min_length=1,
    max_length=NAME_LENGTH_MAX,
    pattern=r"^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$",
    what="a user's name: letters, digits, ., _ and -",
)


class UserAclResourceType(StrEnum):
    """The kind of resource that an access control list is about."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactionalId"


class AclPatternType(StrEnum):
    """The comparison of a resource's name."""

    LITERAL = "literal"
    PREFIX = "prefix"


class UserAclOperation(StrEnum):
    """An operation on a resource, by Kafka's words."""

    ALL = "All"
    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"


class AclType(StrEnum):
    """Whether it allows or denies."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class AclResource:
    """The resources that an access control list is about."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("(self.type == 'cluster') != has(self.name)", "give a name, unless type is cluster"),
    )

    type: Annotated[UserAclResourceType, Choice(UserAclResourceType), Doc("The kind of resource.")]
    name: Annotated[
        str | None,
        Text(min_length=1, max_length=249),
        Doc("Its name, or `*` for all; with patternType `prefix` how it begins."),
    ] = None
    pattern_type: Annotated[
        AclPatternType, Choice(AclPatternType), Doc("Whether `name` is the whole name or its beginning.")
    ] = AclPatternType.LITERAL


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRule:
    """The operations on some resources that the user may perform, or may not."""

    resource: Annotated[AclResource, Nested(AclResource), Doc("With what.")]
    operations: Annotated[
        tuple[UserAclOperation, ...],
        Listing(Choice(UserAclOperation), max_items=OPERATIONS_MAX, min_items=1),
        Doc("What. Read, Write, Delete and Alter imply Describe."),
    ]
    type: Annotated[AclType, Choice(AclType), Doc("Allow or deny. A denial beats every allowance.")] = (
        AclType.ALLOW
    )
    host: Annotated[str, Text(min_length=1, max_length=253), Doc("From which address, or `*` for all.")] = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """A key of a Secret in the User's namespace."""

    name: Annotated[str, SECRET_NAME, Doc('The Secret. It needs the label `odradek.io/password: "true"`.')]
    key: Annotated[
        str,
        SECRET_KEY,
        Doc("The key whose value is the password."),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordSource:
    """Where a password comes from."""

    secret_key_ref: Annotated[SecretKey, Nested(SecretKey), Doc("A key of a Secret.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPassword:
    """A password that its owner brings."""

    value_from: Annotated[PasswordSource, Nested(PasswordSource), Doc("Where it comes from.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAuthentication:
    """The method by which the user proves its name."""

    RULES: ClassVar = (
        Rule(
            "!has(self.password) || !has(self.type) || self.type == 'scram-sha-512'",
            "a password is for the type scram-sha-512: with tls a certificate proves the name. Take one away",
        ),
    )

    type: Annotated[
        AuthenticationType,
        Choice(AuthenticationType),
        Doc("`scram-sha-512`: by a password. `tls`: by a certificate. The operator makes both."),
    ] = AuthenticationType.SCRAM
    password: Annotated[
        UserPassword | None,
        Nested(UserPassword),
        Doc(
            "A password of your own, for SCRAM-SHA-512. A change is followed within a minute, and ends the former "
            "password at once. Without it: one that the operator makes."
        ),
    ] = None
    overlap: Annotated[
        int,
        Duration(),
        Doc(
            "How long the former password stays good after a rotation. The new one is for the other mechanism, "
            "SCRAM-SHA-256 or SCRAM-SHA-512; the Secret has both its name and the password."
        ),
    ] = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """The quotas of the user, on each broker."""

    producer_byte_rate: Annotated[
        int | None, Whole(minimum=1, maximum=INT64_MAX), Doc("Bytes of requests to produce in a second.")
    ] = None
    consumer_byte_rate: Annotated[
        int | None, Whole(minimum=1, maximum=INT64_MAX), Doc("Bytes of fetched records in a second.")
    ] = None
    request_percentage: Annotated[
        int | None, Whole(minimum=1, maximum=10_000), Doc("Time of a broker; 100 is all of it.")
    ] = None
    controller_mutation_rate: Annotated[
        float | None,
        Number(minimum=0.001),
        Doc("Partitions created and deleted in a second, in the whole cluster."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSpec:
    """The user that is wanted."""

    RULES: ClassVar = (
        Rule("self.cluster == oldSelf.cluster", "cluster cannot be changed; make another User"),
        Rule(
            "(has(self.name) ? self.name : '') == (has(oldSelf.name) ? oldSelf.name : '')",
            "name cannot be changed; make another User",
        ),
        Rule(
            "(has(self.secretName) ? self.secretName : '') == (has(oldSelf.secretName) ? oldSelf.secretName : '')",
            "secretName cannot be changed; make another User",
        ),
    )

    cluster: Annotated[str, CLUSTER_NAME, CLUSTER_DOC]
    name: Annotated[
        str | None,
        USER_NAME,
        Doc("The user's name, where it is not the resource's. It cannot be changed."),
    ] = None
    authentication: Annotated[
        UserAuthentication, Nested(UserAuthentication), Doc("How the user proves its name.")
    ] = UserAuthentication()
    listener: Annotated[
        str | None,
        Text(min_length=1, max_length=15),
        Doc(
            "The listener that the Secret is for, or `internal`. Without it: the first one with this authentication, "
            "the internal one before others."
        ),
    ] = None
    secret_name: Annotated[
        str | None,
        SECRET_NAME,
        Doc("The Secret's name, where it is not the resource's. It cannot be changed."),
    ] = None
    acls: Annotated[
        tuple[AclRule, ...],
        Listing(Nested(AclRule), max_items=ACLS_MAX),
        Doc("All of the user's access control lists: others that name it are taken away."),
    ] = ()
    quotas: Annotated[Quotas, Nested(Quotas), Doc("The user's quotas; others are taken away.")] = Quotas()
    deletion_policy: Annotated[
        DeletionPolicy,
        Choice(DeletionPolicy),
        Doc(
            "Whether the user's password, access control lists and quotas go when this resource is deleted. The Secret "
            "always goes."
        ),
    ] = DeletionPolicy.DELETE


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStatus:
    """The user as it was found."""

    observed_generation: Annotated[int | None, OBSERVED_GENERATION, OBSERVED_GENERATION_DOC] = None
    conditions: Annotated[tuple[Condition, ...], CONDITIONS, CONDITIONS_DOC] = ()
    owner_uid: Annotated[
        str | None,
        Text(max_length=64),
        Doc("The uid of the resource that owns the user: this one's, once it does."),
    ] = None
    principal: Annotated[
        str | None, Text(max_length=256), Doc("The name in access control lists and super users.")
    ] = None
    secret: Annotated[
        str | None, Text(max_length=253), Doc("The Secret with everything that a client needs.")
    ] = None
    secret_version: Annotated[
        str | None,
        Text(max_length=64),
        Doc("The version of the Secret whose password brokers have."),
    ] = None
    mechanism: Annotated[str | None, Text(max_length=64), Doc("The mechanism of the password.")] = None
    former_until: Annotated[
        str | None,
        Text(form="date-time", max_length=64),
        Doc("Until when the former password is good, after a rotation."),
    ] = None
    certificate_until: Annotated[
        str | None,
        Text(form="date-time", max_length=64),
        Doc("When the certificate ends; it is renewed before."),
    ] = None


USER: Final = Definition(
    kind="User",
    plural="users",
    short_name="ou",
    doc="A user of a Cluster.",
    spec=UserSpec,
    status=UserStatus,
    rules=(
        Rule(
            f"has(self.spec.name) || size(self.metadata.name) <= {NAME_LENGTH_MAX}",
            f"a user's name has at most {NAME_LENGTH_MAX} characters; set spec.name",
        ),
    ),
    columns=(
        Column(name="Cluster", path=".spec.cluster"),
        Column(name="Authentication", path=".spec.authentication.type"),
        Column(name="Secret", path=".status.secret"),
        READY_COLUMN,
        REASON_COLUMN,
        Column(name="Principal", path=".status.principal", priority=1),
        AGE_COLUMN,
    ),
)
