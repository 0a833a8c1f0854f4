"""One line in the log for each topic created, deleted or extended, and each change of settings, with the client.

The controller's process writes it, also for forwarded requests: they keep their client's id and address. A topic that
a Metadata request creates is logged by the broker that received the request. Values of secrets are hidden.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from odradek.broker.requests.config_resources import ConfigResourceType, RequestedResource
from odradek.broker.requests.context import AnyContext
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.limits import CHANGE_LINES_PER_MINUTE_MAX
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.settings.broker_settings import find_setting

if TYPE_CHECKING:
    from odradek.security.authorization.acls import AclBinding

_lines: Final = RateLimitedLog(
    logging.getLogger(__name__),
    "topics and settings that were changed",
    lines_per_minute_max=CHANGE_LINES_PER_MINUTE_MAX,
)

_OPERATIONS: Final = {0: "set to", 1: "deleted", 2: "appended", 3: "without"}


def client_of(context: AnyContext) -> str:
    """`client 'ID' at ADDRESS`; a broker's own request has no address here."""
    where = f" at {context.client_host}" if context.client_host else ""
    return f"client {context.header.client_id!r}{where}"


def log_created_topic(
    context: AnyContext, name: str, *, partitions: int, replicas: int, config: Mapping[str, str]
) -> None:
    settings = "".join(
        f", {key}={value if value.isprintable() else repr(value)}" for key, value in sorted(config.items())
    )
    _lines.info(
        "topic %s was made for %s: partitions=%d, replicas=%d%s",
        name,
        client_of(context),
        partitions,
        replicas,
        settings,
    )


def log_auto_created_topic(context: AnyContext, name: str, *, partitions: int) -> None:
    """A topic that a client's Metadata request created (auto.create.topics.enable)."""
    _lines.info(
        "topic %s was made for %s, which asked for its metadata: partitions=%d",
        name,
        client_of(context),
        partitions,
    )


def log_deleted_topic(context: AnyContext, name: str) -> None:
    _lines.info("topic %s was deleted for %s", name, client_of(context))


def log_added_partitions(context: AnyContext, name: str, *, partitions: int) -> None:
    _lines.info("topic %s was grown to %d partitions for %s", name, partitions, client_of(context))


def log_removed_broker(context: AnyContext, broker_id: int) -> None:
    _lines.info("broker %d was removed from the cluster for %s", broker_id, client_of(context))


def log_changed_feature(context: AnyContext, name: str, *, level: int) -> None:
    _lines.info("feature %s was finalized at level %d for %s", name, level, client_of(context))


def log_changed_settings(
    context: AnyContext, resource: RequestedResource, changes: Iterable[tuple[str, int, str | None]]
) -> None:
    """`changes` are (key, operation on the wire, value) of IncrementalAlterConfigs."""
    words = (
        f"{key} {_OPERATIONS[operation]}" + ("" if operation == 1 else f" {_printable(resource, key, value)}")
        for key, operation, value in changes
    )
    _log_change(context, resource, words)


def log_replaced_settings(
    context: AnyContext, resource: RequestedResource, texts: Mapping[str, str | None]
) -> None:
    """All settings of a resource were replaced (AlterConfigs)."""
    words = [f"{key} set to {_printable(resource, key, value)}" for key, value in texts.items()]
    _log_change(context, resource, [*words, "all others deleted"])


def log_changed_quotas(context: AnyContext, entity: ClientEntity, texts: Mapping[str, str | None]) -> None:
    words = ", ".join(
        f"{key} deleted" if text is None else f"{key} set to {text}" for key, text in texts.items()
    )
    name = str(entity)
    _lines.info(
        "quotas of %s were changed for %s: %s",
        name if name.isprintable() else repr(name),
        client_of(context),
        words,
    )


def log_changed_credentials(
    context: AnyContext, entity: ClientEntity, texts: Mapping[str, str | None]
) -> None:
    """`texts` are by mechanism; they are never shown."""
    words = ", ".join(f"{key} {'deleted' if text is None else 'set'}" for key, text in texts.items())
    _lines.info("credentials of %r were changed for %s: %s", str(entity), client_of(context), words)


def _log_change(context: AnyContext, resource: RequestedResource, words: Iterable[str]) -> None:
    try:
        kind = ConfigResourceType(resource.resource_type).name.lower().replace("_", " ")
    except ValueError:
        return
    name = resource.resource_name or "default"
    _lines.info("settings of %s %s were changed for %s: %s", kind, name, client_of(context), ", ".join(words))


def _printable(resource: RequestedResource, key: str, value: str | None) -> str | None:
    if resource.resource_type == ConfigResourceType.BROKER:
        setting = find_setting(key)
        if setting is None or setting.is_sensitive:
            return "[hidden]"
    # A line break would start a line that no module logged.
    return value if value is None or value.isprintable() else repr(value)


def log_changed_acl(context: AnyContext, binding: AclBinding, word: str) -> None:
    """An ACL that was added or removed. Names are quoted: clients choose them."""
    pattern, entry = binding
    _lines.info(
        "an ACL was %s for %s: %s %s to %r from %r on %s %s %r",
        word,
        client_of(context),
        entry.permission.name,
        entry.operation.name,
        entry.principal,
        entry.host,
        pattern.pattern_type.name,
        pattern.type.name,
        pattern.name,
    )
