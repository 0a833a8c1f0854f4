"""Addresses of brokers as verbs print them: each can be given to --bootstrap as it stands there."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from odradek.client.addresses import Address, parse_addresses
from odradek.client.admin.brokers import BrokerLoad


def test_ipv6_addresses_are_in_brackets(
    invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = BrokerLoad(1, "::1", 9092, None, is_cordoned=False, replicas=0, leaders=0, preferred_leaders=0)
    monkeypatch.setattr("odradek.cli.shared.options.CommandSession.run", lambda *_: [found])
    address = invoke("brokers", "list").stdout.splitlines()[1].split()[1]
    assert parse_addresses(address) == (Address("::1", 9092),)
    (document,) = json.loads(invoke("brokers", "list", "--output", "json").stdout)
    assert (document["host"], document["port"]) == ("::1", 9092)
