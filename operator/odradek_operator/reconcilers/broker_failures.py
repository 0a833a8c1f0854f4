"""Errors of brokers as conditions show them: a reason for programs, a sentence for people, and whether they last."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.client.errors import ClientClosed, ClientTimeout, ConnectionFailed
from odradek.foundation import errors, security_errors
from odradek.foundation.errors import OdradekError

# The cluster is away or changes its leaders: nothing is wrong with the request.
_UNREACHABLE = (
    ConnectionFailed,
    ClientTimeout,
    ClientClosed,
    errors.NotController,
    errors.BrokerNotAvailable,
    errors.RequestTimedOut,
    errors.CoordinatorNotAvailable,
    errors.CoordinatorLoadInProgress,
    errors.NotCoordinator,
    errors.LeaderNotAvailable,
    errors.NotLeaderOrFollower,
)
# Another try helps only after a change.
_LASTING = (
    errors.InvalidConfig,
    errors.InvalidTopic,
    errors.InvalidPartitions,
    errors.InvalidReplicationFactor,
    errors.InvalidReplicaAssignment,
    errors.InvalidRequest,
    errors.PolicyViolation,
    errors.TopicDeletionDisabled,
    security_errors.TopicAuthorizationFailed,
    security_errors.GroupAuthorizationFailed,
    security_errors.ClusterAuthorizationFailed,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that the brokers refused. `is_lasting` when another try soon cannot succeed."""

    reason: str
    message: str
    is_lasting: bool


def failure_of(failure: OdradekError) -> Failure:
    """The failure as it is shown; its reason is Kafka's name of the error."""
    return Failure(type(failure).__name__, f"the brokers refuse it: {failure}", isinstance(failure, _LASTING))


def is_unreachable(failure: OdradekError) -> bool:
    """Whether the cluster was away or not ready to answer."""
    return isinstance(failure, _UNREACHABLE)
