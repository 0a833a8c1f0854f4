"""What brokers refuse, in the words of a condition: a reason for programs, a sentence for people, whether to hurry."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.client.errors import ClientClosed, ClientTimeout, ConnectionFailed
from odradek.foundation import errors
from odradek.foundation.errors import OdradekError

# The cluster is not there, or busy with itself: nothing is wrong with what was asked.
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
# Somebody must change something first.
_LASTING = (
    errors.InvalidConfig,
    errors.InvalidTopic,
    errors.InvalidPartitions,
    errors.InvalidReplicationFactor,
    errors.InvalidReplicaAssignment,
    errors.InvalidRequest,
    errors.PolicyViolation,
    errors.TopicDeletionDisabled,
    errors.TopicAuthorizationFailed,
    errors.GroupAuthorizationFailed,
    errors.ClusterAuthorizationFailed,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that the brokers refused. `is_lasting` when trying again soon is of no use."""

    reason: str
    message: str
    is_lasting: bool


def failure_of(failure: OdradekError) -> Failure:
    """The failure as it is shown; its reason is Kafka's name of the error."""
    return Failure(type(failure).__name__, f"the brokers refuse it: {failure}", isinstance(failure, _LASTING))


def is_unreachable(failure: OdradekError) -> bool:
    """Whether the cluster could not be asked, or not now."""
    return isinstance(failure, _UNREACHABLE)
