"""AlterClientQuotas and DescribeClientQuotas answer as Apache Kafka 4.1's, and keep what else a node has."""

from collections.abc import Mapping
from typing import Any

import pytest

from odradek.foundation.client_entities import ClientEntity
from odradek.metadata.controller.client_configs import ClientConfigChange
from odradek.metadata.image import nodes, paths
from odradek.wire.protocol.api import ApiKey
from tests.support.lone_controller import LoneController
from tests.support.memory_registry import load_image

Parts = dict[str, str | None]
PRODUCE, FETCH, CONNECT = "producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"


def entity(parts: Parts) -> list[dict[str, str | None]]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in parts.items()]


async def alter(
    broker: LoneController,
    parts: Parts | list[dict[str, Any]],
    values: Mapping[str, float | None],
    *,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    entries = [{"entity": parts if isinstance(parts, list) else entity(parts), "ops": operations(values)}]
    answer = await broker.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=validate_only)
    (result,) = answer.entries
    assert [{"entity_type": one.entity_type, "entity_name": one.entity_name} for one in result.entity] == (
        entries[0]["entity"]
    )
    return int(result.error_code), result.error_message


def operations(values: Mapping[str, float | None]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": 0.0 if value is None else value, "remove": value is None}
        for key, value in values.items()
    ]


async def described(
    broker: LoneController, *components: tuple[str, int, str | None], strict: bool = False
) -> Any:
    return await broker.ask(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        components=[
            {"entity_type": kind, "match_type": match, "match": name} for kind, match, name in components
        ],
        strict=strict,
    )


def found(answer: Any) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    assert int(answer.error_code) == 0, answer.error_message
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            one.key: one.value for one in entry.values
        }
        for entry in answer.entries
    }


ALICE = (("user", "alice"),)
DEFAULT_USER = (("user", None),)
ALICES_APP = (("user", "alice"), ("client-id", "app 1/*"))
APP = (("client-id", "app"),)
ADDRESS = (("ip", "192.0.2.1"),)


async def filled() -> LoneController:
    broker = await LoneController.start()
    for parts in (ALICE, DEFAULT_USER, ALICES_APP, APP):
        assert await alter(broker, dict(parts), {PRODUCE: 1000.0}) == (0, None)
    assert await alter(broker, dict(ADDRESS), {CONNECT: 7.0}) == (0, None)
    return broker


async def test_a_filter_finds_names_defaults_and_types() -> None:
    broker = await filled()
    thousand = {PRODUCE: 1000.0}
    everything = found(await described(broker))
    assert everything == {
        **dict.fromkeys((ALICE, DEFAULT_USER, ALICES_APP, APP), thousand),
        ADDRESS: {CONNECT: 7.0},
    }
    assert found(await described(broker, ("user", 0, "alice"))).keys() == {ALICE, ALICES_APP}
    assert found(await described(broker, ("user", 0, "alice"), strict=True)).keys() == {ALICE}
    assert found(await described(broker, ("user", 1, None))).keys() == {DEFAULT_USER}
    assert found(await described(broker, ("user", 2, None), strict=True)).keys() == {ALICE, DEFAULT_USER}
    both = await described(broker, ("user", 2, None), ("client-id", 2, None), strict=True)
    assert found(both).keys() == {ALICES_APP}
    assert found(await described(broker, strict=True)) == {}
    assert found(await described(broker, ("user", 0, ""))) == {}


@pytest.mark.parametrize(
    ("components", "code", "words"),
    [
        ([("", 2, None)], 42, "Invalid empty entity type."),
        ([("user", 2, None), ("user", 1, None)], 42, "user cannot appear more than once"),
        ([("group", 2, None)], 35, "Unsupported entity type group"),
        ([("user", 0, None)], 42, "MATCH_TYPE_EXACT, but set match string to null"),
        ([("user", 1, "x")], 42, "MATCH_TYPE_DEFAULT, but also specified"),
        ([("user", 2, "x")], 42, "MATCH_TYPE_SPECIFIED, but also specified"),
        ([("user", 3, None)], 42, "Unknown match type 3"),
        ([("ip", 2, None), ("user", 2, None)], 42, "IP filter component should not be used"),
    ],
)
async def test_a_wrong_filter_is_refused(components: Any, code: int, words: str) -> None:
    answer = await described(await LoneController.start(), *components)
    assert (int(answer.error_code), answer.entries) == (code, None)
    assert words in answer.error_message


@pytest.mark.parametrize(
    ("parts", "values", "words"),
    [
        ([], {PRODUCE: 1.0}, "Invalid empty client quota entity"),
        (entity({"user": ""}), {PRODUCE: 1.0}, "Empty user not supported"),
        (entity({"group": "x"}), {PRODUCE: 1.0}, "Unhandled client quota entity type: group"),
        (entity({"user": "x"}) * 2, {PRODUCE: 1.0}, "duplicate entity type: user"),
        (entity({"user": "x", "ip": "192.0.2.1"}), {PRODUCE: 1.0}, "Invalid empty client quota entity"),
        (entity({"ip": "no.such.host"}), {CONNECT: 1.0}, "not a valid IP address"),
        (entity({"ip": "192.0.2.1"}), {PRODUCE: 1.0}, "Invalid configuration key producer_byte_rate"),
        (entity({"user": "x"}), {CONNECT: 1.0}, "Invalid configuration key"),
        (entity({"user": "x"}), {"SCRAM-SHA-256": 1.0}, "Invalid configuration key SCRAM-SHA-256"),
        (entity({"user": "x"}), {PRODUCE: 0.0}, "must be greater than 0"),
        (entity({"user": "x"}), {PRODUCE: float("nan")}, "must be greater than 0"),
        (entity({"user": "x"}), {PRODUCE: 1.5}, "cannot be a fractional value"),
        (entity({"user": "x"}), {PRODUCE: 1e19}, "too large for a LONG"),
        (entity({"ip": "192.0.2.1"}), {CONNECT: 2.0**31}, "too large for a INT"),
    ],
)
async def test_a_wrong_change_is_refused_whole(parts: Any, values: dict[str, float], words: str) -> None:
    broker = await LoneController.start()
    code, message = await alter(broker, parts, {"request_percentage": 50.0, **values})
    assert code == 42
    assert words in (message or "") or "request_percentage" in (message or "")
    assert found(await described(broker)) == {}


async def test_values_are_changed_removed_and_only_checked() -> None:
    broker = await filled()
    assert await alter(broker, dict(ALICE), {PRODUCE: 5.0, FETCH: 6.0, "request_percentage": 12.5}) == (
        0,
        None,
    )
    assert await alter(broker, dict(ALICE), {PRODUCE: 9.0}, validate_only=True) == (0, None)
    assert found(await described(broker, ("user", 0, "alice"), strict=True)) == {
        ALICE: {PRODUCE: 5.0, FETCH: 6.0, "request_percentage": 12.5}
    }
    assert await alter(broker, dict(ALICE), {PRODUCE: None, FETCH: None, "unknown": None}) == (0, None)
    assert found(await described(broker, ("user", 0, "alice"), strict=True)) == {
        ALICE: {"request_percentage": 12.5}
    }
    assert await alter(broker, dict(ALICE), {"request_percentage": None}) == (0, None)
    assert ALICE not in found(await described(broker))
    assert ALICES_APP in found(await described(broker))
    assert await alter(broker, dict(ALICES_APP), {PRODUCE: None}) == (0, None)
    # A new controller reads the same from the registry.
    assert (await load_image(broker.store)).client_configs == broker.images.current.client_configs


async def test_an_entity_named_twice_and_a_key_named_twice_are_refused() -> None:
    broker = await LoneController.start()
    one = {"entity": entity({"user": "x"}), "ops": operations({PRODUCE: 1.0})}
    answer = await broker.ask(
        ApiKey.ALTER_CLIENT_QUOTAS,
        0,
        entries=[one, one, {"entity": entity({"user": "y"}), "ops": operations({PRODUCE: 1.0}) * 2}],
        validate_only=False,
    )
    # As in Kafka, what stands first is done, and the error of the second is the answer.
    assert [int(result.error_code) for result in answer.entries] == [42, 42]
    assert found(await described(broker)).keys() == {(("user", "x"),)}


async def test_quotas_and_credentials_of_a_user_keep_each_other() -> None:
    broker = await LoneController.start()
    alice = ClientEntity(user="alice")
    credential = {"SCRAM-SHA-256": "salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=4096"}
    await broker.controller.change_client_configs([ClientConfigChange(alice, credential)])
    assert found(await described(broker)) == {}
    await alter(broker, {"user": "alice"}, {PRODUCE: 5.0})
    await alter(broker, {"user": "alice"}, {"SCRAM-SHA-256": None})
    stored = nodes.read_config("", (await broker.store.get("/config/users/alice")).data)
    assert stored == {**credential, PRODUCE: "5"}
    await broker.controller.change_client_configs([ClientConfigChange(alice, {"SCRAM-SHA-256": None})])
    assert broker.images.current.client_configs == {alice: {PRODUCE: "5"}}


@pytest.mark.parametrize(
    ("whose", "path"),
    [
        (ClientEntity(user=""), "/config/users/<default>"),
        (ClientEntity(user="<default>"), "/config/users/%3Cdefault%3E"),
        (ClientEntity(user="CN=a b,O=*+~"), "/config/users/CN%3Da%20b%2CO%3D%2A%2B%7E"),
        (ClientEntity(user="Zoë", client_id=""), "/config/users/Zo%C3%AB/clients/<default>"),
        (ClientEntity(client_id=".."), "/config/clients/%2E%2E"),
        (ClientEntity(client_id="a.b-c_d"), "/config/clients/a.b-c_d"),
        (ClientEntity(ip="2001:db8::1"), "/config/ips/2001%3Adb8%3A%3A1"),
        (ClientEntity(ip=""), "/config/ips/<default>"),
    ],
)
def test_nodes_have_kafkas_names(whose: ClientEntity, path: str) -> None:
    assert paths.client_config(whose) == path
    assert paths.client_entity(path) == whose


async def test_addresses_have_one_text() -> None:
    broker = await LoneController.start()
    for ip in ("2001:DB8:0:0::1", "2001:db8::1", "::ffff:192.0.2.1"):
        assert (await alter(broker, {"ip": ip}, {CONNECT: 3.0}))[0] == 0
    assert found(await described(broker)).keys() == {(("ip", "2001:db8::1"),), (("ip", "192.0.2.1"),)}
