"""AlterUserScramCredentials: set and delete SCRAM passwords of users, without seeing one (KIP-554).

The client sends a salted password, of which the keys that are kept are made. A salted password is as good as the
password, so the request is never logged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from odradek.broker.requests import change_log
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.describe_user_scram_credentials import MECHANISM_NUMBERS
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import AdminParts
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import RequestError, ResourceNotFound
from odradek.foundation.security_errors import (
    DuplicateResource,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller.client_configs import ClientConfigChange
from odradek.security.authentication.scram import ITERATIONS_MAX, ITERATIONS_MIN, ScramCredential
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

_Part = ScramCredentialDeletion | ScramCredentialUpsertion
_MECHANISMS: Final = {number: name for name, number in MECHANISM_NUMBERS.items()}
# The salt of a credential stands in a node of the registry.
_SALT_BYTES_MAX: Final = 1024


async def handle(request: AlterUserScramCredentialsRequest, context: RequestContext[AdminParts]) -> Message:
    async with Leftovers() as kept:
        counts: dict[str, int] = kept.until_end({})
        errors: dict[str, RequestError | None] = kept.until_end({})
        changes: list[ClientConfigChange] = kept.until_end([])
        turn = Turn()
        for part in _parts(request):
            if turn.is_over():
                await turn.next()
            counts[part.name] = counts.get(part.name, 0) + 1
        for part in _parts(request):
            if turn.is_over():
                await turn.next()
            try:
                entity, mechanism = _check_part(part)
                if counts[part.name] > 1:
                    raise DuplicateResource("A user credential cannot be altered twice in the same request")
                if isinstance(part, ScramCredentialUpsertion):
                    text = _text(part, mechanism)
                elif mechanism in context.broker.images.current.client_configs.get(entity, {}):
                    text = None
                else:
                    raise ResourceNotFound("Attempt to delete a user credential that does not exist")
                changes.append(ClientConfigChange(entity, {mechanism: text}))
                errors[part.name] = None
            except RequestError as error:
                errors[part.name] = without_trace(error)
        if changes:
            await context.broker.active_controller.change_client_configs(changes)
            for change in changes:
                if turn.is_over():
                    await turn.next()
                change_log.log_changed_credentials(context, change.entity, change.texts)
        return await make_in_turns(
            context,
            len(errors),
            lambda: context.response(
                results=({"user": name, **error_fields(error)} for name, error in errors.items())
            ),
        )


def _parts(request: AlterUserScramCredentialsRequest) -> Iterator[_Part]:
    yield from request.deletions
    yield from request.upsertions


def _check_part(part: _Part) -> tuple[ClientEntity, str]:
    if not part.name:
        raise UnacceptableCredential("Username must not be empty")
    mechanism = _MECHANISMS.get(part.mechanism)
    if mechanism is None:
        raise UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    return ClientEntity(user=part.name), mechanism


def _text(part: ScramCredentialUpsertion, mechanism: str) -> str:
    """The credential as the registry has it. Raises UnacceptableCredential."""
    if part.iterations < ITERATIONS_MIN:
        raise UnacceptableCredential("Too few iterations")
    if part.iterations > ITERATIONS_MAX:
        raise UnacceptableCredential("Too many iterations")
    if not part.salt or not part.salted_password or len(part.salt) > _SALT_BYTES_MAX:
        raise UnacceptableCredential("The salt and the salted password must not be empty")
    return ScramCredential.of_salted_password(
        mechanism,
        salt=bytes(part.salt),
        salted_password=bytes(part.salted_password),
        iterations=part.iterations,
    ).text
