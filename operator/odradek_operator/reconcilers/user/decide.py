"""The decision about one User: a pure function of the wanted state and the actual state.

A new password goes to the brokers before it goes into the Secret, so what a Secret says is always good. A run that is
cut off in between makes another one, that no client knows. The former password is good for a while: it is for
the other mechanism of SCRAM.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from odradek.security.authorization import acls
from odradek.security.authorization.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from odradek_operator.desired.client_properties import Password
from odradek_operator.desired.user_secret import user_files
from odradek_operator.gateways.users import (
    ChangeAcls,
    ChangeQuotas,
    RemovePassword,
    SetPassword,
)
from odradek_operator.reconcilers.decisions import (
    REFUSED_AGAIN_SECONDS,
    UNREACHABLE_AGAIN_SECONDS,
)
from odradek_operator.reconcilers.user.facts import (
    Action,
    ActualUserState,
    DesiredUser,
    UserDecision,
    WriteSecret,
)
from odradek_operator.resources.conditions import format_timestamp, ready_condition
from odradek_operator.resources.user import AclPatternType, AclRule, AclType, UserAclResourceType, UserStatus

FIRST_MECHANISM: Final = "SCRAM-SHA-512"
# No event shows that the owner of a password has changed it: the operator may not watch Secrets.
PASSWORD_AGAIN_SECONDS: Final = 60.0
_OTHER_MECHANISM: Final = {"SCRAM-SHA-512": "SCRAM-SHA-256", "SCRAM-SHA-256": "SCRAM-SHA-512"}
_RESOURCE_TYPES: Final = {
    UserAclResourceType.TOPIC: acls.AclResourceType.TOPIC,
    UserAclResourceType.GROUP: acls.AclResourceType.GROUP,
    UserAclResourceType.CLUSTER: acls.AclResourceType.CLUSTER,
    UserAclResourceType.TRANSACTIONAL_ID: acls.AclResourceType.TRANSACTIONAL_ID,
}
_OPERATIONS: Final = {"".join(part.capitalize() for part in one.name.split("_")): one for one in AclOperation}
_QUOTA_KEYS: Final = {
    "producer_byte_rate": "producer_byte_rate",
    "consumer_byte_rate": "consumer_byte_rate",
    "request_percentage": "request_percentage",
    "controller_mutation_rate": "controller_mutation_rate",
}


def decide(desired: DesiredUser, actual: ActualUserState) -> UserDecision:
    """The next steps, or the status to write where there are none."""
    if desired.is_deleted:
        # The record of what goes with its resource has it, and the user goes when the resource has gone.
        return UserDecision(actions=desired.release_steps())
    if actual.older is not None:
        message = f"the user {desired.user} belongs to the User {actual.older}; delete one of the two"
        return UserDecision.with_condition(
            desired, ready_condition(False, "UserTaken", message), *desired.release_steps()
        )
    absence = UserDecision.without_cluster(desired, actual.reachability, actual.problem)
    if absence is not None:
        return absence
    if desired.is_paused:
        return UserDecision(
            status=desired.status, conditions=(ready_condition(None, "Paused", "nothing is looked at"),)
        )
    if released := desired.release_steps():
        return UserDecision(actions=released)
    if actual.failure is not None:
        refused = ready_condition(False, actual.failure.reason, actual.failure.message)
        again = REFUSED_AGAIN_SECONDS if actual.failure.is_lasting else UNREACHABLE_AGAIN_SECONDS
        return UserDecision.with_condition(desired, refused, again_seconds=again)
    for reason, problem in (
        ("NoListener", actual.connection_problem),
        ("NoPassword", actual.password_problem),
        ("SecretTaken", actual.secret_problem),
        ("NoAuthorizer", _authorizer_problem(desired, actual)),
    ):
        if problem:
            condition = ready_condition(False, reason, problem)
            return UserDecision.with_condition(desired, condition, again_seconds=REFUSED_AGAIN_SECONDS)
    steps = (*_plan_former(desired, actual), *_plan_rights(desired, actual), *_plan_login(desired, actual))
    return UserDecision(actions=steps) if steps else _decide_settled(desired, actual)


def needs_login(desired: DesiredUser, actual: ActualUserState) -> bool:
    """Whether the User needs a new password or certificate."""
    secret = actual.secret
    if secret is None or secret.login is None:
        return True
    if desired.password_source is None:
        return secret.rotation != desired.rotation
    # Its owner rotates it, and has clients that know its mechanism.
    brought = Password(user=desired.user, mechanism=FIRST_MECHANISM, password=actual.brought or "")
    return secret.login.credential != brought


def next_mechanism(actual: ActualUserState) -> str:
    """The mechanism of a new password: not that of the present one, which stays good for a while."""
    login = None if actual.secret is None else actual.secret.login
    if login is None or not isinstance(login.credential, Password):
        return FIRST_MECHANISM
    return _OTHER_MECHANISM.get(login.credential.mechanism, FIRST_MECHANISM)


# --- deletion -----------------------------------------------------------------------------------------------------


def _plan_former(desired: DesiredUser, actual: ActualUserState) -> list[Action]:
    """Take away what the user had under another principal: with a password it is named otherwise."""
    steps: list[Action] = []
    former, name = actual.former, (desired.status.principal or "").removeprefix("User:")
    if former is not None and name and name != desired.principal_name:
        if former.acls:
            steps.append(ChangeAcls((), tuple(sorted(former.acls))))
        if former.quotas:
            steps.append(ChangeQuotas(name, dict.fromkeys(former.quotas)))
    return steps


# --- rights and quotas --------------------------------------------------------------------------------------------


def _authorizer_problem(desired: DesiredUser, actual: ActualUserState) -> str:
    if actual.user.acls is not None or not desired.spec.acls:
        return ""
    return (
        "the Cluster has no authorization, so access control lists would limit no client: give it "
        "spec.authorization, or take acls away here"
    )


def acls_of(desired: DesiredUser) -> frozenset[AclBinding]:
    """The user's access control lists as brokers have them."""
    principal = f"User:{desired.principal_name}"
    return frozenset(binding for rule in desired.spec.acls for binding in _bindings(rule, principal))


def _bindings(rule: AclRule, principal: str) -> list[AclBinding]:
    kind = _RESOURCE_TYPES[rule.resource.type]
    is_prefix = rule.resource.pattern_type is AclPatternType.PREFIX
    pattern = ResourcePattern(
        kind,
        rule.resource.name or CLUSTER_NAME,
        PatternType.PREFIXED
        if is_prefix and kind is not acls.AclResourceType.CLUSTER
        else PatternType.LITERAL,
    )
    permission = PermissionType.ALLOW if rule.type is AclType.ALLOW else PermissionType.DENY
    return [
        AclBinding(pattern, AccessControlEntry(principal, rule.host, _OPERATIONS[one], permission))
        for one in rule.operations
    ]


def _plan_rights(desired: DesiredUser, actual: ActualUserState) -> list[Action]:
    steps: list[Action] = []
    seen = actual.user
    if seen.acls is not None:
        wanted = acls_of(desired)
        add, remove = wanted - seen.acls, seen.acls - wanted
        if add or remove:
            steps.append(ChangeAcls(tuple(sorted(add)), tuple(sorted(remove))))
    quotas = _quotas_of(desired)
    changes: dict[str, float | None] = {
        key: value for key, value in quotas.items() if seen.quotas.get(key) != value
    }
    changes |= {key: None for key in seen.quotas if key not in quotas}
    if changes:
        steps.append(ChangeQuotas(desired.principal_name, changes))
    return steps


def _quotas_of(desired: DesiredUser) -> dict[str, float]:
    quotas = desired.spec.quotas
    found = {key: getattr(quotas, field) for field, key in _QUOTA_KEYS.items()}
    return {key: float(value) for key, value in found.items() if value is not None}


# --- the login ----------------------------------------------------------------------------------------------------


def _plan_login(desired: DesiredUser, actual: ActualUserState) -> list[Action]:
    assert actual.connection is not None and actual.now is not None
    if needs_login(desired, actual):
        login = actual.fresh
        assert login is not None
        steps: list[Action] = []
        if isinstance(login.credential, Password):
            steps.append(_set_password(login.credential))
        return [*steps, WriteSecret(login, is_new=True)]
    secret = actual.secret
    assert secret is not None and secret.login is not None
    credential = secret.login.credential
    kept = credential.mechanism if isinstance(credential, Password) else None
    steps = [
        RemovePassword(desired.user, one)
        for one in sorted(actual.user.mechanisms - {kept})
        if kept is None or _former_has_ended(desired.status, actual.now)
    ]
    if isinstance(credential, Password) and not actual.password_set:
        is_known = kept in actual.user.mechanisms and desired.status.secret_version == secret.version
        if not is_known:
            # It was edited, or taken away from the brokers.
            steps.append(_set_password(credential))
    files = user_files(desired.user, actual.connection, secret.login)
    wanted = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    if wanted != dict(secret.files):
        steps.append(WriteSecret(secret.login, is_new=False))
    return steps


def _set_password(password: Password) -> SetPassword:
    return SetPassword(password.user, password.mechanism, password.password)


def _former_has_ended(status: UserStatus, now: datetime) -> bool:
    return status.former_until is not None and now >= datetime.fromisoformat(status.former_until)


def _decide_settled(desired: DesiredUser, actual: ActualUserState) -> UserDecision:
    secret, now = actual.secret, actual.now
    assert secret is not None and secret.login is not None and now is not None
    credential = secret.login.credential
    kept = credential.mechanism if isinstance(credential, Password) else None
    former_until = None
    if kept is not None and actual.user.mechanisms - {kept}:
        overlap = timedelta(milliseconds=desired.spec.authentication.overlap)
        # A second is what the status can show.
        former_until = desired.status.former_until or format_timestamp(now + overlap)
    until = secret.certificate_until
    status = replace(
        desired.status,
        owner_uid=desired.uid,
        principal=f"User:{desired.principal_name}",
        secret=desired.secret,
        secret_version=secret.version,
        mechanism=kept,
        former_until=former_until,
        certificate_until=None if until is None else format_timestamp(until),
    )
    again = None if desired.password_source is None else PASSWORD_AGAIN_SECONDS
    message = f"the Secret {desired.secret} has what a client needs"
    if former_until is not None:
        left = (datetime.fromisoformat(former_until) - now).total_seconds()
        again = min(max(1.0, left), again or left)
        message += f"; the former password is good until {former_until}"
    return UserDecision(
        status=status, conditions=(ready_condition(True, "Ready", message),), again_seconds=again
    )
