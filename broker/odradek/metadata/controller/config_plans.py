"""The results of changes of settings, before anything is written: pure, and all the rules in one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.foundation.errors import InvalidConfig, InvalidRequest, SettingError, UnknownTopicOrPartition
from odradek.foundation.settings.areas.protection import STORES_OF_LISTENERS
from odradek.foundation.settings.broker_settings import Settings, all_settings, find_setting
from odradek.foundation.settings.declaration import Kind, Scope, Setting
from odradek.foundation.settings.protection import is_store_of_listener, missing_protection
from odradek.foundation.words import nearest_name
from odradek.metadata.controller.requests import AlterConfigOp, ConfigOperation, Resource
from odradek.metadata.image.client_metrics_configs import validate_client_metrics_config
from odradek.metadata.image.configs import find_topic_setting, validate_topic_config
from odradek.metadata.image.group_configs import find_group_setting, validate_group_config
from odradek.metadata.image.image import ClusterImage, ResourceKind, TopicImage
from odradek.metadata.image.paths import DEFAULT_BROKER

# Of an int32.
_BROKER_ID_DIGITS_MAX: Final = 10


def config_name(resource: Resource) -> str:
    """The resource's name in the registry: the default of all brokers is written `<default>`."""
    if resource.kind is ResourceKind.BROKER and not resource.name:
        return DEFAULT_BROKER
    return resource.name


def check_resource(resource: Resource, *, image: ClusterImage, own_name: str | None) -> None:
    """Raises the RequestError for a resource that is not there or cannot have settings.

    `own_name` is that of the broker that decides here, if it is one.
    """
    if resource.kind is ResourceKind.TOPIC:
        if resource.name not in image.topics:
            raise UnknownTopicOrPartition(f"The topic '{resource.name}' does not exist.")
    elif resource.kind is ResourceKind.BROKER:
        if resource.name not in ("", own_name) and not _is_broker(resource.name, image):
            known = sorted({*image.brokers, *image.registrations})
            raise InvalidRequest(
                f"Unexpected broker id, expected one of {known} or empty string, but received {resource.name}"
            )
    elif resource.kind is ResourceKind.GROUP:
        if not resource.name:
            raise InvalidRequest("Default group resources are not allowed; name a group.")
    elif not resource.name:
        raise InvalidRequest("Subscription name can't be empty; name a subscription for metrics of clients.")


def _is_broker(name: str, image: ClusterImage) -> bool:
    """Whether a broker has this id: it is a member, or was one and still has replicas or settings."""
    if len(name) > _BROKER_ID_DIGITS_MAX or not name.isdecimal() or str(int(name)) != name:
        return False
    if (
        int(name) in image.brokers
        or int(name) in image.registrations
        or (ResourceKind.BROKER, name) in image.configs
    ):
        return True
    return int(name) in _replicas.of(image.topics)


class _Replicas:
    """The brokers that have replicas, for the topics last asked about: a request may name many brokers."""

    def __init__(self) -> None:
        self._topics: Mapping[str, TopicImage] = {}
        self._ids: frozenset[int] = frozenset()

    def of(self, topics: Mapping[str, TopicImage]) -> frozenset[int]:
        if topics is not self._topics:
            self._ids = frozenset(
                broker for topic in topics.values() for one in topic.partitions for broker in one.replicas
            )
            self._topics = topics
        return self._ids


_replicas: Final = _Replicas()


def incremental_texts(
    resource: Resource, changes: Sequence[AlterConfigOp], *, before: Mapping[str, str]
) -> dict[str, str]:
    """The resource's texts after `changes` on top of `before`.

    Raises InvalidRequest for a duplicate key or a missing value. Raises InvalidConfig for an unknown key, or a list
    operation on a key of another type. Values are not looked at: see `validated`.
    """
    repeated = [key for key, count in Counter(change.key for change in changes).items() if count > 1]
    if repeated:
        raise InvalidRequest(f"Error due to duplicate config keys: {', '.join(sorted(repeated))}")
    texts = dict(before)
    for change in changes:
        if change.operation is ConfigOperation.DELETE:
            texts.pop(change.key, None)
            continue
        if change.value is None:
            raise InvalidRequest(f"Null value not supported for : {change.key}")
        if change.operation is ConfigOperation.SET:
            texts[change.key] = change.value
            continue
        setting = _setting(resource, change.key)
        if setting is None or setting.kind is not Kind.LIST:
            raise InvalidConfig(
                f"Can't {change.operation.name} to key {change.key} because its type is not LIST."
            )
        texts[change.key] = _edit_list(
            texts.get(change.key, setting.default_text), change.value, change.operation
        )
    return texts


def require_texts(texts: Mapping[str, str | None]) -> dict[str, str]:
    """The texts of a change that replaces all. Raises InvalidRequest for a value that is missing."""
    missing = [key for key, text in texts.items() if text is None]
    if missing:
        raise InvalidRequest(f"Null value not supported for : {', '.join(missing)}")
    return {key: text for key, text in texts.items() if text is not None}


def _edit_list(text: str | None, words: str, operation: ConfigOperation) -> str:
    parts = [part for part in (text or "").split(",") if part]
    named = words.split(",")
    if operation is ConfigOperation.SUBTRACT:
        removed = set(named)
        return ",".join(part for part in parts if part not in removed)
    there = set(parts)
    return ",".join([*parts, *(part for part in dict.fromkeys(named) if part not in there)])


def validate_texts(
    resource: Resource,
    texts: Mapping[str, str],
    *,
    before: Mapping[str, str],
    settings: Settings,
    static: Settings,
) -> dict[str, str]:
    """The texts, when the resource may have them.

    `settings` are the broker's current ones, `static` those it was started with. Raises InvalidConfig for topics
    and groups, and InvalidRequest for brokers, as Kafka does.
    """
    if resource.kind is ResourceKind.TOPIC:
        return validate_topic_config(texts, settings=settings)
    if resource.kind is ResourceKind.GROUP:
        return validate_group_config(texts, settings=settings)
    if resource.kind is ResourceKind.CLIENT_METRICS:
        return validate_client_metrics_config(texts)
    return _validate_broker_texts(resource, texts, before=before, static=static)


def _validate_broker_texts(
    resource: Resource, texts: Mapping[str, str], *, before: Mapping[str, str], static: Settings
) -> dict[str, str]:
    _check_listener_forms(texts, before=before)
    kept: dict[str, str] = {}
    stores: dict[str, str] = {}
    for key, text in texts.items():
        if is_store_of_listener(key):
            stores[key] = text
            continue
        broken = missing_protection(key, text, find_setting)
        # What an earlier version took stays until it is deleted; `DynamicSettings` leaves it out.
        if broken is not None and before.get(key) != text:
            raise InvalidRequest(str(broken))
        if broken is None:
            kept[key] = text
    _check_scopes(resource, (*kept, *stores), before=before)
    try:
        # The broker whose listener it is has tried the stores (`broker.requests.settings_trial`).
        for key, text in stores.items():
            setting = find_setting(key)
            if setting is not None:
                setting.parse(text)
        static.with_overrides(kept)
    except SettingError as error:
        raise InvalidRequest(str(error)) from None
    return dict(texts)


def _check_listener_forms(texts: Mapping[str, str], *, before: Mapping[str, str]) -> None:
    general = [key for key in texts if key in STORES_OF_LISTENERS and key not in before]
    if general:
        raise InvalidRequest(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"{_name_set(general)}; begin each with listener.name.NAME."
        )


def _check_scopes(resource: Resource, keys: Iterable[str], *, before: Mapping[str, str]) -> None:
    fixed: list[str] = []
    of_one_broker: list[str] = []
    for key in keys:
        setting = find_setting(key)
        if setting is None:
            # Kafka keeps unknown keys for its plugins, which this broker has none of: a slip would go unseen.
            if key in before:
                continue
            nearest = nearest_name(key, all_settings())
            hint = "" if nearest is None else f"; did you mean {nearest}?"
            raise InvalidRequest(f"Unknown broker config name: {key}{hint}")
        if not setting.is_dynamic:
            fixed.append(key)
        elif setting.scope is Scope.PER_BROKER and not setting.internal:
            of_one_broker.append(key)
    if fixed:
        raise InvalidRequest(
            f"Cannot update these configs dynamically: {_name_set(fixed)}; set them in server.properties and restart"
        )
    if of_one_broker and not resource.name:
        raise InvalidRequest(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"{_name_set(of_one_broker)}"
        )


def _name_set(keys: Iterable[str]) -> str:
    """Keys as Kafka 4.1's errors name them, which tools compare."""
    return f"Set({', '.join(keys)})"


def _setting(resource: Resource, key: str) -> Setting | None:
    if resource.kind is ResourceKind.TOPIC:
        return find_topic_setting(key)
    if resource.kind is ResourceKind.GROUP:
        return find_group_setting(key)
    if resource.kind is ResourceKind.CLIENT_METRICS:
        return None  # as in Kafka, its lists can only be set
    return find_setting(key)
