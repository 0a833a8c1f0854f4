"""Stores of a listener that are changed on a running broker: tried, taken for new connections, and kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from odradek.foundation.errors import InvalidRequest
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import code_of
from tests.security.test_followed_context import CA, shown
from tests.support.whole_broker import WholeBroker
from tests.support.whole_cluster import WholeCluster

BROKER_RESOURCE = 4
LOCATION = "listener.name.secured.ssl.keystore.location"


def entries(folder: Path) -> dict[str, str]:
    """A broker that also listens with TLS, with the certificate `old`."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(CA.leaf("old").write(folder / "old.pem")),
    }


def changes(broker: str, **texts: str) -> dict[str, Any]:
    """An IncrementalAlterConfigs that sets what is named with underscores, of the TLS listener."""
    configs = [
        {
            "name": f"listener.name.secured.{key.replace('_', '.')}",
            "config_operation": 0,
            "value": text,
        }
        for key, text in texts.items()
    ]
    resource = {"resource_type": BROKER_RESOURCE, "resource_name": broker, "configs": configs}
    return {"resources": [resource], "validate_only": False}


async def start(folder: Path) -> WholeBroker:
    listeners = "PLAINTEXT://broker.test:9092,SECURED://broker.test:9093"
    return await WholeBroker.start({**entries(folder), "listeners": listeners})


def certificate(broker: Any) -> str:
    tls = broker.secured.tls("SECURED")
    assert tls is not None
    return shown(tls.context())


async def test_new_connections_get_the_certificate_of_a_changed_store(tmp_path: Path) -> None:
    whole = await start(tmp_path)
    new = CA.leaf("new").write(tmp_path / "new.pem")
    asked = changes("1", ssl_keystore_location=str(new), ssl_keystore_type="PEM", ssl_truststore_type="PEM")
    answer = await whole.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **asked)
    assert int(answer.responses[0].error_code) == 0, answer.responses[0].error_message
    assert certificate(whole.broker) == "old"
    await asyncio.sleep(1)
    assert certificate(whole.broker) == "new"

    described = await whole.ask(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=[
            {"resource_type": BROKER_RESOURCE, "resource_name": "1", "configuration_keys": [LOCATION]}
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    (entry,) = described.results[0].configs
    assert (entry.value, entry.read_only) == (str(new), False)

    # Taken back, the store of the start counts again.
    asked["resources"][0]["configs"] = [{"name": LOCATION, "config_operation": 1, "value": None}]
    assert int((await whole.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **asked)).responses[0].error_code) == 0
    await asyncio.sleep(1)
    assert certificate(whole.broker) == "old"


async def test_a_changed_store_is_in_use_after_a_restart(tmp_path: Path) -> None:
    whole = await start(tmp_path)
    new = CA.leaf("new").write(tmp_path / "new.pem")
    await whole.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **changes("1", ssl_keystore_location=str(new)))
    await whole.stop()
    again = await WholeBroker.start(
        dict(whole.broker.settings.given), disk=whole.disk, registry=whole.registry
    )
    assert certificate(again.broker) == "new"


@pytest.mark.parametrize("how", ["missing", "wrong type", "no tls", "for all brokers", "for all listeners"])
async def test_a_store_that_cannot_serve_is_refused(tmp_path: Path, how: str) -> None:
    whole = await start(tmp_path)
    name, texts, words = {
        "missing": ("1", {LOCATION: str(tmp_path / "none.pem")}, "cannot be read: No such file"),
        "wrong type": ("1", {"listener.name.secured.ssl.keystore.type": "PKCS12"}, "is no PKCS#12"),
        "no tls": ("1", {"listener.name.plaintext.ssl.keystore.location": "/k"}, "promises protection"),
        "for all brokers": (
            "",
            {LOCATION: "/k"},
            r"broker id must be specified: Set(listener.name.secured.ssl.keystore.location)",
        ),
        "for all listeners": (
            "1",
            {"ssl.keystore.location": "/k"},
            "only per-listener using the listener prefix: Set(ssl.keystore.location)",
        ),
    }[how]
    asked = changes(name)
    asked["resources"][0]["configs"] = [
        {"name": key, "config_operation": 0, "value": text} for key, text in texts.items()
    ]
    answer = await whole.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **asked)
    assert int(answer.responses[0].error_code) == code_of(InvalidRequest)
    assert words in answer.responses[0].error_message
    await asyncio.sleep(1)
    assert certificate(whole.broker) == "old"


async def test_a_store_of_a_listener_that_is_not_here_is_kept_without_effect(tmp_path: Path) -> None:
    whole = await start(tmp_path)
    key = "listener.name.elsewhere.ssl.keystore.location"
    resource = {
        "resource_type": 4,
        "resource_name": "1",
        "configs": [{"name": key, "config_operation": 0, "value": str(tmp_path / "none.pem")}],
    }
    asked: dict[str, Any] = {"resources": [resource], "validate_only": False}
    answer = await whole.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **asked)
    assert int(answer.responses[0].error_code) == 0
    await whole.stop()
    again = await WholeBroker.start(
        dict(whole.broker.settings.given), disk=whole.disk, registry=whole.registry
    )
    described = {"resource_type": 4, "resource_name": "1", "configuration_keys": [key]}
    shown = await again.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[described])
    assert [one.value for one in shown.results[0].configs] == [str(tmp_path / "none.pem")]
    assert certificate(again.broker) == "old"


async def test_a_broker_of_a_cluster_tries_its_own_stores(tmp_path: Path) -> None:
    """The controller, which has no such listener and none of the files, decides."""
    cluster = WholeCluster(entries={}, seed=1)
    cluster.broker_entries = entries(tmp_path)
    cluster.more_listeners = {"SECURED": 9094}
    await cluster.start_controller(100)
    await cluster.start_broker(1)
    try:
        asked = changes("1", ssl_keystore_location=str(tmp_path / "none.pem"))
        refused = await cluster.ask(1, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **asked)
        assert "cannot be read" in refused.responses[0].error_message
        new = CA.leaf("new").write(tmp_path / "new.pem")
        asked = changes("1", ssl_keystore_location=str(new))
        answer = await cluster.ask(1, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **asked)
        assert int(answer.responses[0].error_code) == 0, answer.responses[0].error_message
        await asyncio.sleep(1)
        assert certificate(cluster.brokers[1]) == "new"
    finally:
        await cluster.stop()
