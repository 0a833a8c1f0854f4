"""Configs of topics, brokers, groups and client-metrics: describe with sources, and change key by key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.client.checked_calls import checking_arguments
from odradek.client.client import Client
from odradek.client.connection import BrokerConnection
from odradek.client.errors import UnsupportedByBroker, error_for, raise_first
from odradek.client.results import AlterOperation, ConfigChange, ConfigEntry, ConfigSource, ResourceType
from odradek.foundation.client_limits import CONFIG_RESOURCES_PER_REQUEST_MAX
from odradek.foundation.errors import InvalidRequest, OdradekError
from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.cluster import (
        AlterConfigsResourceResponse,
        AlterConfigsResponse,
        DescribeConfigsResourceResult,
        DescribeConfigsResponse,
        DescribeConfigsResult,
        ListConfigResourcesResponse,
    )

DESCRIBE_VERSIONS = (1, 4)
ALTER_VERSIONS = (0, 1)
REPLACE_VERSIONS = (0, 2)
LIST_VERSIONS = (1, 1)
_OWN: Final = {ResourceType.TOPIC: ConfigSource.TOPIC, ResourceType.BROKER: ConfigSource.DYNAMIC_BROKER}
_Whom = Callable[[], Awaitable[BrokerConnection]]


@checking_arguments()
class ConfigAdmin:
    """The admin calls for configs. The name of the brokers' common default is the empty string."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list_names(self, resource_type: ResourceType) -> list[str]:
        """The resources of a kind that can be described: of groups and client-metrics those that have configs.

        Raises UnsupportedByBroker for brokers before Kafka 4.1.
        """

        async def attempt() -> ListConfigResourcesResponse:
            response: ListConfigResourcesResponse = await (await self._client.any_broker()).request(
                ApiKey.LIST_CONFIG_RESOURCES, versions=LIST_VERSIONS, resource_types=[resource_type]
            )
            return response

        response = await self._client.with_retries(attempt)
        raise_first([error_for(response.error_code, None, about="the list of resources")])
        return sorted(one.resource_name for one in response.config_resources)

    async def describe(
        self,
        resource_type: ResourceType,
        name: str,
        *,
        keys: Sequence[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> list[ConfigEntry]:
        """The configs in force, by key. Raises UnknownTopicOrPartition, NoSuchBroker, InvalidConfig, …"""
        results = await self._results(
            partial(self._of, resource_type, name),
            resource_type,
            [name],
            keys=keys,
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )
        raise_first(_failure(resource_type, result) for result in results)
        entries = [_entry(config) for result in results for config in result.configs]
        return sorted(entries, key=lambda entry: entry.name)

    async def describe_many(
        self, resource_type: ResourceType, names: Sequence[str], *, keys: Sequence[str] | None = None
    ) -> dict[str, list[ConfigEntry] | OdradekError]:
        """The configs in force of many topics or groups, by few requests. Each name has its configs or its error."""
        results = await self._results(self._client.any_broker, resource_type, names, keys=keys)
        return {
            result.resource_name: _failure(resource_type, result)
            or [_entry(config) for config in result.configs]
            for result in results
        }

    async def alter_many(
        self, resource_type: ResourceType, changes: Mapping[str, Sequence[ConfigChange]]
    ) -> dict[str, OdradekError | None]:
        """Change keys of many resources by one request to any broker. Each name has None or its error."""
        results = await self._alter_configs(
            self._client.any_broker, resource_type, changes, validate_only=False
        )
        return {result.resource_name: _failure(resource_type, result) for result in results}

    async def alter_all(
        self, resource_type: ResourceType, changes: Mapping[str, Sequence[ConfigChange]]
    ) -> None:
        """As `alter_many`. Raises the first error."""
        if changes:
            raise_first((await self.alter_many(resource_type, changes)).values())

    async def alter(
        self,
        resource_type: ResourceType,
        name: str,
        changes: Sequence[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> str | None:
        """Change some keys, all or none. Returns the broker's warning, or None.

        Raises InvalidConfig, UnknownTopicOrPartition, NoSuchBroker, …
        """
        whom = partial(self._of, resource_type, name)
        results = await self._alter_configs(whom, resource_type, {name: changes}, validate_only=validate_only)
        raise_first(_failure(resource_type, result) for result in results)
        return results[-1].error_message or None if results else None

    async def topic_warnings(self, names: Sequence[str]) -> dict[str, str]:
        """The broker's warning for each topic, as for a cleanup.policy that is not in effect yet."""
        whom = self._client.any_broker
        results = await self._results(whom, ResourceType.TOPIC, names, keys=["cleanup.policy"])
        return {
            one.resource_name: one.error_message
            for one in results
            if not one.error_code and one.error_message
        }

    async def _results(
        self,
        whom: _Whom,
        resource_type: ResourceType,
        names: Sequence[str],
        *,
        keys: Sequence[str] | None,
        **options: bool,
    ) -> Sequence[DescribeConfigsResult]:
        async def attempt(some: Sequence[str]) -> DescribeConfigsResponse:
            response: DescribeConfigsResponse = await (await whom()).request(
                ApiKey.DESCRIBE_CONFIGS,
                versions=DESCRIBE_VERSIONS,
                resources=[
                    {"resource_type": resource_type, "resource_name": name, "configuration_keys": keys}
                    for name in some
                ],
                **options,
            )
            return response

        results: list[DescribeConfigsResult] = []
        for start in range(0, len(names), CONFIG_RESOURCES_PER_REQUEST_MAX):
            asked = partial(attempt, names[start : start + CONFIG_RESOURCES_PER_REQUEST_MAX])
            results += (await self._client.with_retries(asked)).results
        return results

    async def _alter_configs(
        self,
        whom: _Whom,
        resource_type: ResourceType,
        changes: Mapping[str, Sequence[ConfigChange]],
        *,
        validate_only: bool,
    ) -> Sequence[AlterConfigsResourceResponse]:
        async def attempt() -> AlterConfigsResponse:
            connection = await whom()
            if not connection.offers(ApiKey.INCREMENTAL_ALTER_CONFIGS):
                return await self._replace_configs(
                    connection, resource_type, changes, validate_only=validate_only
                )
            response: AlterConfigsResponse = await connection.request(
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                versions=ALTER_VERSIONS,
                resources=[
                    {
                        "resource_type": resource_type,
                        "resource_name": name,
                        "configs": [
                            {"name": one.name, "config_operation": one.operation, "value": one.value}
                            for one in wanted
                        ],
                    }
                    for name, wanted in changes.items()
                ],
                validate_only=validate_only,
            )
            return response

        return (await self._client.with_retries(attempt)).responses

    async def _replace_configs(
        self,
        connection: BrokerConnection,
        resource_type: ResourceType,
        changes: Mapping[str, Sequence[ConfigChange]],
        *,
        validate_only: bool,
    ) -> AlterConfigsResponse:
        """The answer of a broker before Kafka 2.3, which can only replace all configs of a resource."""
        resources = []
        for name, wanted in changes.items():
            entries = await self.describe(resource_type, name)
            values = _build_replacement(resource_type, name, entries, wanted)
            configs = [{"name": key, "value": value} for key, value in values.items()]
            resources.append({"resource_type": resource_type, "resource_name": name, "configs": configs})
        response: AlterConfigsResponse = await connection.request(
            ApiKey.ALTER_CONFIGS, versions=REPLACE_VERSIONS, resources=resources, validate_only=validate_only
        )
        return response

    async def _of(self, resource_type: ResourceType, name: str) -> BrokerConnection:
        """A broker itself for its own configs, any for all others. Raises InvalidRequest for a name that is no id."""
        if resource_type is ResourceType.BROKER and name and not name.isdigit():
            raise InvalidRequest(
                f"{name!r} is not the id of a broker: give its number, or an empty text for the default of all brokers"
            )
        if resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name.isdigit():
            if int(name) not in self._client.cluster.brokers:
                # An unknown broker is an error at once, without a wait.
                (await self._client.refresh(())).require_brokers([int(name)])
            return await self._client.broker(int(name))
        return await self._client.any_broker()


def _failure(
    resource_type: ResourceType, result: DescribeConfigsResult | AlterConfigsResourceResponse
) -> OdradekError | None:
    whose = repr(result.resource_name) if result.resource_name else "default"
    about = f"{resource_type.name.lower().replace('_', ' ')} {whose}"
    names = {resource_type.name.lower(): result.resource_name}
    return error_for(result.error_code, result.error_message, about=about, **names)


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=_source(config.config_source),
        is_read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        documentation=getattr(config, "documentation", None),
        synonyms=tuple((s.name, s.value, _source(s.source)) for s in config.synonyms),
    )


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in ConfigSource.__members__.values() else ConfigSource.UNKNOWN


def _build_replacement(
    resource_type: ResourceType, name: str, entries: Iterable[ConfigEntry], changes: Sequence[ConfigChange]
) -> dict[str, str | None]:
    """All own configs of a resource after the changes. Two programs that replace them at the same time may undo each
    other's change, and the broker cannot prevent it. KIP-339 gave newer ones single changes. Raises UnsupportedByBroker
    for configs that cannot be replaced.
    """
    source = _OWN.get(resource_type)
    if source is None or not name:
        raise UnsupportedByBroker(
            f"the broker is older than Kafka 2.3, which changes configs of topics and single brokers only, not of "
            f"{resource_type.name.lower().replace('_', ' ')} {name!r}"
        )
    in_force = {entry.name: entry.value for entry in entries}
    values: dict[str, str | None] = {}
    for entry in entries:
        if entry.source is source:
            if entry.is_sensitive:
                raise UnsupportedByBroker(
                    f"the broker is older than Kafka 2.3: a change there would lose {entry.name}, whose value it hides"
                )
            values[entry.name] = entry.value
    for change in changes:
        if change.operation is AlterOperation.DELETE:
            values.pop(change.name, None)
        elif change.operation is AlterOperation.SET:
            values[change.name] = change.value
        else:
            parts = [part for part in (in_force.get(change.name) or "").split(",") if part]
            given = [part for part in (change.value or "").split(",") if part]
            parts = [part for part in parts if part not in given]
            values[change.name] = ",".join(parts + given * (change.operation is AlterOperation.APPEND))
    return values
