"""The rounds of Users. Each takes them by itself.

After a step on the brokers nothing is asked again. They learn of a change one after another, and one might answer that
does not know it yet. The next run looks again.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from odradek.client.client import Client
from odradek.foundation.errors import OdradekError
from odradek_operator.desired.client_properties import Credential, Password
from odradek_operator.desired.security import decode_secret
from odradek_operator.desired.user_secret import (
    PKCS12_FILE,
    PKCS12_PASSWORD_FILE,
    ROTATION_ANNOTATION,
    UserLogin,
    user_files,
    user_secret,
)
from odradek_operator.foundation.certificates import KeyPair, facts_of, issue, pkcs12_of
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import CLUSTERS, USERS, Json, metadata, owner_reference
from odradek_operator.gateways.secrets import Secrets, SecretTaken
from odradek_operator.gateways.users import (
    BrokerUsers,
    ChangeAcls,
    ChangeQuotas,
    RemovePassword,
    SeenUser,
    SetPassword,
    UserStep,
)
from odradek_operator.reconcilers.broker_failures import failure_of, is_unreachable
from odradek_operator.reconcilers.decisions import Reachability, Work
from odradek_operator.reconcilers.declared import DeclaredThing
from odradek_operator.reconcilers.rounds import ClusterAccess, ReconciledKind, Rounds
from odradek_operator.reconcilers.user.connecting import (
    CannotConnect,
    ClusterFacts,
    NoPassword,
    read_password,
)
from odradek_operator.reconcilers.user.decide import FIRST_MECHANISM, decide, needs_login, next_mechanism
from odradek_operator.reconcilers.user.facts import (
    Action,
    ActualUserState,
    DesiredUser,
    SecretSeen,
    UserDecision,
    WriteSecret,
)
from odradek_operator.resources.conditions import is_ready
from odradek_operator.resources.user import UserSpec, UserStatus

# 192 bits, in letters and digits: nothing has to escape them.
_PASSWORD_BYTES: Final = 24


@dataclass(slots=True)
class UserWork(Work[DesiredUser, ActualUserState, UserDecision]):
    """A User on its way through the rounds, and what it works with. `secret` is its Secret as it was read."""

    users: BrokerUsers | None = None
    cluster: ClusterFacts | None = None
    secret: Json | None = None


def read_user(body: Json, now: datetime) -> UserWork:
    desired = DesiredUser.read(body, spec=UserSpec, status=UserStatus)
    annotations = metadata(body).get("annotations") or {}
    desired = replace(desired, rotation=str(annotations.get(ROTATION_ANNOTATION) or ""))
    return UserWork(body, desired, ActualUserState(now=now), UserDecision())


async def run_users(
    rounds: Rounds[UserWork], works: Sequence[UserWork], client: Client, cluster: Json
) -> None:
    users, facts = BrokerUsers(client), ClusterFacts(cluster, Secrets(rounds.environment.kubernetes))
    for work in works:
        work.users, work.cluster = users, facts
    await rounds.run_each(works, partial(_run_one, rounds))


async def _run_one(rounds: Rounds[UserWork], work: UserWork) -> None:
    work.actual = replace(work.actual, now=rounds.environment.now())
    await _observe_brokers(work)
    if not work.desired.is_deleted:
        await _observe_secret(rounds, work)
    await rounds.take_rounds(work)
    _wake_console(rounds, work)


def _wake_console(rounds: Rounds[UserWork], work: UserWork) -> None:
    """Have the Cluster look whose console logs in as this User: its pod mounts the Secret, and a new login rolls it."""
    assert work.cluster is not None
    before, after = work.desired.status, work.decision.status
    if after is None or work.cluster.console_user != work.desired.name:
        return
    is_changed = (before.secret, before.secret_version) != (after.secret, after.secret_version)
    if is_changed or is_ready(before.conditions) != is_ready(work.decision.conditions):
        rounds.environment.wake(Key(CLUSTERS.kind, rounds.namespace, work.desired.spec.cluster))


# --- observing --------------------------------------------------------------------------------------------------------


async def _observe_brokers(work: UserWork) -> None:
    assert work.users is not None
    desired = work.desired
    former_name = (desired.status.principal or "").removeprefix("User:")
    try:
        seen = await work.users.describe(desired.user, user=desired.principal_name)
        former = None
        if former_name and former_name != desired.principal_name:
            former = await work.users.describe(desired.user, user=former_name)
    except OdradekError as failure:
        _fail_on_brokers(work, failure)
        return
    work.actual = replace(work.actual, user=seen, former=former)


def _fail_on_brokers(work: UserWork, failure: OdradekError) -> None:
    if is_unreachable(failure):
        problem = f"the brokers do not answer: {failure}; it is tried again"
        work.actual = replace(work.actual, reachability=Reachability.UNREACHABLE, problem=problem)
    else:
        work.actual = replace(work.actual, failure=failure_of(failure))


async def _observe_secret(rounds: Rounds[UserWork], work: UserWork) -> None:
    assert work.cluster is not None
    try:
        connection = await work.cluster.read_connection(work.desired.spec)
        work.actual = replace(work.actual, connection=connection)
        await _read_secret(rounds, work)
        if (source := work.desired.password_source) is not None:
            secrets_of_all = Secrets(rounds.environment.kubernetes)
            brought = await read_password(secrets_of_all, rounds.namespace, source)
            work.actual = replace(work.actual, brought=brought)
        if needs_login(work.desired, work.actual):
            work.actual = replace(work.actual, fresh=await _make_login(rounds, work))
    except CannotConnect as problem:
        work.actual = replace(work.actual, connection_problem=str(problem))
    except SecretTaken as problem:
        work.actual = replace(work.actual, secret_problem=str(problem))
    except NoPassword as problem:
        work.actual = replace(work.actual, password_problem=str(problem))


async def _read_secret(rounds: Rounds[UserWork], work: UserWork) -> None:
    name = work.desired.secret
    found = await Secrets(rounds.environment.kubernetes).read(rounds.namespace, name)
    if found is None:
        return
    owners = metadata(found).get("ownerReferences") or ()
    if not any(one.get("uid") == work.desired.uid for one in owners):
        raise SecretTaken(name)
    work.secret = found
    work.actual = replace(work.actual, secret=await _parse_secret(rounds, work, found))


async def _parse_secret(rounds: Rounds[UserWork], work: UserWork, secret: Json) -> SecretSeen:
    files = decode_secret(secret)
    login = await _parse_login(
        rounds, work, {name: text.decode("utf-8", "replace") for name, text in files.items()}
    )
    if login is not None and work.desired.has_certificate:
        store: dict[str, bytes] = {
            name: files[name] for name in (PKCS12_FILE, PKCS12_PASSWORD_FILE) if name in files
        }
        login = replace(login, store=store) if len(store) == 2 else None
    until = None
    if login is not None and isinstance(login.credential, KeyPair):
        until = facts_of(login.credential.certificate).not_after
    return SecretSeen(
        version=str(metadata(secret).get("resourceVersion")),
        rotation=str((metadata(secret).get("annotations") or {}).get(ROTATION_ANNOTATION) or ""),
        files=files,
        login=login,
        certificate_until=until,
    )


async def _parse_login(rounds: Rounds[UserWork], work: UserWork, files: dict[str, str]) -> UserLogin | None:
    """The Secret's credentials, if they are of the wanted kind and good for a while yet."""
    user = work.desired.user
    if not work.desired.has_certificate:
        mechanism, password = files.get("sasl.mechanism"), files.get("password")
        if not mechanism or not password or files.get("username") != user:
            return None
        return UserLogin(credential=Password(user=user, mechanism=mechanism, password=password))
    certificate, key = files.get("user.crt"), files.get("user.key")
    if not certificate or not key or not await _is_good(rounds, work, certificate):
        return None
    return UserLogin(credential=KeyPair(certificate, key))


async def _is_good(rounds: Rounds[UserWork], work: UserWork, certificate: str) -> bool:
    assert work.cluster is not None
    authority, (_, renewal_days) = await work.cluster.read_authority("clients-ca"), work.cluster.days
    try:
        name = facts_of(certificate).common_name
    except ValueError:
        return False
    renewal, now = timedelta(days=renewal_days), rounds.environment.now()
    return name == work.desired.user and authority.has_signed(certificate, now=now, renewal=renewal)


async def _make_login(rounds: Rounds[UserWork], work: UserWork) -> UserLogin:
    """A new password or certificate. No client knows it yet."""
    assert work.cluster is not None
    user = work.desired.user
    if not work.desired.has_certificate:
        if work.actual.brought is not None:
            brought = Password(user=user, mechanism=FIRST_MECHANISM, password=work.actual.brought)
            return UserLogin(credential=brought)
        password = secrets.token_hex(_PASSWORD_BYTES)
        credential: Credential = Password(user=user, mechanism=next_mechanism(work.actual), password=password)
        return UserLogin(credential=credential)
    authority = (await work.cluster.read_authority("clients-ca")).issuing
    pair = issue(authority, user, days=work.cluster.days[0], now=rounds.environment.now())
    password = secrets.token_hex(_PASSWORD_BYTES)
    store = pkcs12_of(pair, authority.certificate, name=user, password=password)
    return UserLogin(credential=pair, store={PKCS12_FILE: store, PKCS12_PASSWORD_FILE: password.encode()})


# --- steps ------------------------------------------------------------------------------------------------------------


async def take_user_step(rounds: Rounds[UserWork], work: UserWork, step: Action) -> bool:
    if isinstance(step, WriteSecret):
        await _write_secret(rounds, work, step)
        return True
    assert work.users is not None and isinstance(step, UserStep)
    try:
        await work.users.carry_out(step)
    except OdradekError as failure:
        _fail_on_brokers(work, failure)
        return False
    is_set = work.actual.password_set or isinstance(step, SetPassword)
    name = work.desired.principal_name
    former = work.actual.former
    if isinstance(step, ChangeQuotas) and step.user != name:
        former = None
    elif isinstance(step, ChangeAcls) and former is not None and not step.add:
        former = apply_step(former, step)
        work.actual = replace(work.actual, user=apply_step(work.actual.user, step))
    else:
        work.actual = replace(work.actual, user=apply_step(work.actual.user, step))
    work.actual = replace(work.actual, password_set=is_set, former=former)
    return True


async def _write_secret(rounds: Rounds[UserWork], work: UserWork, step: WriteSecret) -> None:
    desired, connection = work.desired, work.actual.connection
    assert connection is not None
    manifest = user_secret(
        desired.secret,
        rounds.namespace,
        owner=owner_reference(work.body),
        cluster=desired.spec.cluster,
        user=desired.name,
        rotation=desired.rotation,
        files=user_files(desired.user, connection, step.login),
    )
    work.secret = await Secrets(rounds.environment.kubernetes).write(manifest, work.secret)
    work.actual = replace(work.actual, secret=await _parse_secret(rounds, work, work.secret), fresh=None)
    if step.is_new:
        # What was the former password until now is replaced, and the present one becomes the former.
        work.desired = replace(desired, status=replace(desired.status, former_until=None))
        message = f"the Secret {desired.secret} has a new login"
        await rounds.environment.report_event(work.body, "LoginIssued", message)


def apply_step(seen: SeenUser, step: UserStep) -> SeenUser:
    """Brokers' knowledge of the user after a step."""
    match step:
        case SetPassword(_, mechanism, _):
            return replace(seen, mechanisms=seen.mechanisms | {mechanism})
        case RemovePassword(_, mechanism):
            return replace(seen, mechanisms=seen.mechanisms - {mechanism})
        case ChangeAcls(add, remove):
            return replace(seen, acls=((seen.acls or frozenset()) | set(add)) - set(remove))
        case ChangeQuotas(_, values):
            left = {key: value for key, value in seen.quotas.items() if values.get(key, 0.0) is not None}
            return replace(seen, quotas=left | {k: v for k, v in values.items() if v is not None})


async def remove_users(
    client: Client, entries: Sequence[DeclaredThing], *, cluster: Json, clusters: ClusterAccess
) -> Mapping[str, str]:
    """Have brokers forget users whose resources are gone: their passwords, access control lists and quotas."""
    users = BrokerUsers(client)
    problems: dict[str, str] = {}
    for entry in entries:
        try:
            await users.remove(entry.thing, user=entry.id)
        except OdradekError as failure:
            if is_unreachable(failure):
                raise
            problems[entry.uid] = str(failure)
    return problems


USER_KIND: Final = ReconciledKind(
    api=USERS,
    status=UserStatus,
    rounds_max=6,
    read=read_user,
    get_name=lambda work: work.desired.user,
    # Before brokers get anything: a user that no record has would outlive its resource.
    get_id=lambda work: work.desired.principal_name,
    remove=remove_users,
    decide=decide,
    run_rounds=run_users,
    take_step=take_user_step,
)
