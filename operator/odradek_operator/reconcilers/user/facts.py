"""The values of a decision about a User: desired, actual, and the steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from odradek_operator.desired.user_secret import UserConnection, UserLogin
from odradek_operator.gateways.users import SeenUser, UserStep
from odradek_operator.reconcilers.decisions import (
    ActualOf,
    DecisionOf,
    DesiredOf,
    RemoveFinalizer,
)
from odradek_operator.resources.security import AuthenticationType
from odradek_operator.resources.user import SecretKey, UserSpec, UserStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredUser(DesiredOf[UserSpec, UserStatus]):
    """A User as it was read. `rotation` is the annotation that asks for a new password."""

    rotation: str = ""

    @property
    def user(self) -> str:
        """The name that logs in."""
        return self.spec.name or self.name

    @property
    def secret(self) -> str:
        return self.spec.secret_name or self.name

    @property
    def password_source(self) -> SecretKey | None:
        """The key of a Secret that has the password; None where the operator makes it."""
        password = self.spec.authentication.password
        return None if password is None or self.has_certificate else password.value_from.secret_key_ref

    @property
    def has_certificate(self) -> bool:
        """Whether it proves its name by a certificate."""
        return self.spec.authentication.type is AuthenticationType.TLS

    @property
    def principal_name(self) -> str:
        """The principal without its type, as quotas have it."""
        return f"CN={self.user}" if self.has_certificate else self.user


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSeen:
    """The User's Secret. `login` is None where it holds none that is still good; `certificate_until` is its end."""

    version: str
    rotation: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    login: UserLogin | None = None
    certificate_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualUserState(ActualOf):
    """The actual state of a User. `former` is what brokers know of its earlier principal, where that is another one.

    `connection` is None with a `connection_problem`. `secret_problem` is why the Secret cannot be made. `brought` is
    the password that its owner brings, None with a `password_problem`. `fresh` is a login to give where a new one is
    needed. `password_set`: this run has given brokers the password of the Secret.
    """

    now: datetime | None = None
    user: SeenUser = field(default_factory=SeenUser)
    former: SeenUser | None = None
    secret: SecretSeen | None = None
    connection: UserConnection | None = None
    connection_problem: str = ""
    secret_problem: str = ""
    brought: str | None = field(default=None, repr=False)
    password_problem: str = ""
    fresh: UserLogin | None = None
    password_set: bool = False


@dataclass(frozen=True, slots=True)
class WriteSecret:
    """Write the Secret with this login. `is_new` when clients get another one by it."""

    login: UserLogin
    is_new: bool


Action = UserStep | WriteSecret | RemoveFinalizer


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDecision(DecisionOf[Action, UserStatus]):
    """A decision about a User."""
