"""The encryption, authentication and authorization of clients: parts of listeners and of the Cluster itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from odradek_operator.resources.schema import Choice, Flag, Text, Whole
from odradek_operator.resources.structure import Doc, Listing, Nested, Rule

CERTIFICATE_DAYS_MAX: Final = 36_500
SUPER_USERS_MAX: Final = 64
SECRET_NAME: Final = Text(
    min_length=1,
    max_length=253,
    pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
    what="the name of a Secret",
)
SECRET_KEY: Final = Text(
    min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$", what="a key of a Secret, as password"
)


class AuthenticationType(StrEnum):
    """The method by which a client proves its name."""

    SCRAM = "scram-sha-512"
    TLS = "tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerAuthentication:
    """The authentication of a listener's clients."""

    type: Annotated[
        AuthenticationType,
        Choice(AuthenticationType),
        Doc(
            "`scram-sha-512`: by a password, with SCRAM-SHA-512 or SCRAM-SHA-256. `tls`: by a certificate of the "
            "Cluster's authority for clients."
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerCertificate:
    """A certificate that is not of the Cluster's own authority, as cert-manager keeps one."""

    secret_name: Annotated[
        str,
        SECRET_NAME,
        Doc(
            "The Secret in the same namespace with `tls.crt` and `tls.key`. Brokers take a new certificate from it "
            "without a restart; the operator never reads it."
        ),
    ]
    authority: Annotated[
        str | None,
        Text(max_length=65_536, pattern=r"^-----BEGIN CERTIFICATE-----"),
        Doc(
            "The authority that clients are to trust for it, in PEM, for the Secrets of Users. Without it: their "
            "system's authorities."
        ),
    ] = None


TLS: Final = Flag()
AUTHENTICATION: Final = Nested(ListenerAuthentication)
AUTHENTICATION_DOC: Final = Doc("How clients prove their names. Without it: not at all.")
CERTIFICATE: Final = Nested(ListenerCertificate)
CERTIFICATE_DOC: Final = Doc(
    "Another certificate for this listener. Without it: one of the Cluster's own authority, which is renewed in time."
)
CERTIFICATE_RULES: Final = (
    Rule(
        "!has(self.authentication) || self.authentication.type != 'tls' || self.tls",
        "a certificate proves a client's name within TLS only: set tls to true",
    ),
    Rule("!has(self.certificate) || self.tls", "certificate is for a listener with tls: true"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalListener:
    """The security of the listener at 9092, which clients inside of Kubernetes use."""

    RULES: ClassVar[tuple[Rule, ...]] = CERTIFICATE_RULES

    tls: Annotated[bool, TLS, Doc("Encrypt connections.")] = True
    authentication: Annotated[ListenerAuthentication | None, AUTHENTICATION, AUTHENTICATION_DOC] = None
    certificate: Annotated[ListenerCertificate | None, CERTIFICATE, CERTIFICATE_DOC] = None


class AuthorizationType(StrEnum):
    """The kind of authorization."""

    ACL = "acl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """The rights of principals."""

    type: Annotated[
        AuthorizationType,
        Choice(AuthorizationType),
        Doc("`acl`: access control lists, as Users have them."),
    ] = AuthorizationType.ACL
    super_users: Annotated[
        tuple[str, ...],
        Listing(
            Text(
                min_length=6,
                max_length=256,
                pattern=r"^User:[^;]+$",
                what="a principal, as User:NAME or User:CN=NAME",
            ),
            max_items=SUPER_USERS_MAX,
        ),
        Doc(
            "Principals that may do everything: `User:NAME` of one with a password, `User:CN=NAME` of one with a "
            "certificate. Brokers and the operator are among them anyway."
        ),
    ] = ()
    allow_everyone_if_no_acl_found: Annotated[
        bool, Flag(), Doc("Allow everything on a resource that no access control list is about.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAuthority:
    """An authority of the Cluster's owner, as cert-manager keeps one."""

    secret_name: Annotated[
        str,
        SECRET_NAME,
        Doc(
            "The Secret in the same namespace with `tls.crt`, `tls.key` and, where another authority is above it, "
            '`ca.crt`. Its label `odradek.io/authority: "true"` lets the operator read it. A new key in it is '
            "announced, used and the former one retired, as for `odradek.io/rotate-authority`."
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """The certificates that the operator makes."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.renewalDays < self.validityDays && self.validityDays <= self.authorityValidityDays",
            "certificates must be renewed before they end: renewalDays < validityDays <= authorityValidityDays",
        ),
    )

    validity_days: Annotated[
        int,
        Whole(minimum=1, maximum=CERTIFICATE_DAYS_MAX),
        Doc("How many days a certificate of a broker or a User is good for."),
    ] = 90
    renewal_days: Annotated[
        int,
        Whole(minimum=0, maximum=CERTIFICATE_DAYS_MAX),
        Doc("How many days before its end a certificate or an authority is renewed."),
    ] = 30
    authority_validity_days: Annotated[
        int,
        Whole(minimum=1, maximum=CERTIFICATE_DAYS_MAX),
        Doc(
            "How many days an authority is good for. It is renewed with the same key, so nothing loses its trust."
        ),
    ] = 1825
    authority_overlap_days: Annotated[
        int,
        Whole(minimum=0, maximum=CERTIFICATE_DAYS_MAX),
        Doc(
            "How many days a new key of an authority is trusted before it signs, and the former one afterwards. 0 is "
            "a quarter of an hour. A value of the annotation `odradek.io/rotate-authority` that is new brings new keys."
        ),
    ] = 7
    cluster_authority: Annotated[
        OwnAuthority | None,
        Nested(OwnAuthority),
        Doc(
            "An authority of your own for brokers, controllers and the operator. It must have signed nothing else: a "
            "certificate of it may be taken for a broker's. Without it: one that the operator makes."
        ),
    ] = None
    clients_authority: Annotated[
        OwnAuthority | None,
        Nested(OwnAuthority),
        Doc("An authority of your own for clients. Without it: one that the operator makes."),
    ] = None
