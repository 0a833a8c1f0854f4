"""Translates kazoo's errors into those of `metadata.registry.store`."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo import exceptions as kazoo_errors

from odradek.foundation.errors import OdradekError
from odradek.foundation.registry_errors import (
    NodeExists,
    NodeNotEmpty,
    NoNode,
    StoreAccessDenied,
    StoreConnectionLost,
    StoreError,
    StoreSessionExpired,
    VersionConflict,
)
from odradek.metadata.registry.store import Operation

# Errors that end a connection, or follow its end: the request may or may not have been done.
_UNKNOWN_OUTCOME = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.OperationTimeoutError,
    kazoo_errors.RequestTimeoutError,
    kazoo_errors.SessionMovedError,
    kazoo_errors.NotReadOnlyCallError,
    kazoo_errors.ThrottledOpError,
)
_DENIED = (
    kazoo_errors.NoAuthError,
    kazoo_errors.AuthFailedError,
    kazoo_errors.InvalidACLError,
    kazoo_errors.SessionClosedRequireSaslError,
)
# The marks, in the answer to a batch, of operations that were not tried or were undone.
_COLLATERAL = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)


def store_error(failure: BaseException, path: str) -> OdradekError | ValueError:
    """The error to raise for `failure` of a request about `path`."""
    if isinstance(failure, kazoo_errors.NoNodeError):
        return NoNode(f"the registry has no node {path}, or not its parent")
    if isinstance(failure, kazoo_errors.NodeExistsError):
        return NodeExists(f"the registry has a node {path} already")
    if isinstance(failure, kazoo_errors.BadVersionError):
        return VersionConflict(f"{path} has another version in the registry")
    if isinstance(failure, kazoo_errors.NotEmptyError):
        return NodeNotEmpty(f"{path} has children in the registry and cannot be deleted")
    if isinstance(failure, kazoo_errors.NoChildrenForEphemeralsError):
        return NoNode(f"the parent of {path} is ephemeral and cannot have children")
    if isinstance(failure, kazoo_errors.SessionExpiredError):
        return StoreSessionExpired("the session with ZooKeeper is over; open a new one")
    if isinstance(failure, _UNKNOWN_OUTCOME):
        return StoreConnectionLost(
            f"ZooKeeper did not answer about {path}: the request may have been done; read again"
        )
    if isinstance(failure, _DENIED):
        return StoreAccessDenied(
            f"ZooKeeper does not let this user do that to {path}: "
            "check zookeeper.digest.user, zookeeper.digest.password and the node's access list"
        )
    if isinstance(failure, kazoo_errors.BadArgumentsError):
        return ValueError(f"{path!r} is not a path for ZooKeeper")
    return StoreError(f"ZooKeeper could not do what was asked about {path}: {failure!r}")


def batch_error(
    results: Sequence[object], operations: Sequence[Operation]
) -> OdradekError | ValueError | None:
    """The error to raise for the answer to a batch: the failure of the one operation to blame. None without one."""
    for index, (result, operation) in enumerate(zip(results, operations, strict=False)):
        if isinstance(result, BaseException) and not isinstance(result, _COLLATERAL):
            error = store_error(result, operation.path)
            if isinstance(error, StoreError):
                error.operation = index
            return error
    if any(isinstance(result, BaseException) for result in results):
        return StoreError(
            f"ZooKeeper did none of {len(operations)} operations and did not say why: {results!r}"
        )
    return None
