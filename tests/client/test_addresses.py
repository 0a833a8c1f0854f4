"""Bootstrap addresses as people write them."""

from __future__ import annotations

import pytest

from odradek.client.addresses import Address, parse_addresses


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("localhost", [("localhost", 9092)]),
        ("localhost:1234", [("localhost", 1234)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[fe80::1%eth0]", [("fe80::1%eth0", 9092)]),
        ("PLAINTEXT://a:1, b:2 ,a:1", [("a", 1), ("b", 2)]),
        (["a:1,b:2", "c"], [("a", 1), ("b", 2), ("c", 9092)]),
    ],
)
def test_addresses_are_read_in_order_and_once(
    given: str | list[str], expected: list[tuple[str, int]]
) -> None:
    assert list(parse_addresses(given)) == expected


@pytest.mark.parametrize(
    "given", ["", ",", "a:", "a:x", "a:0", "a:70000", "::1", "[::1", "[]:1", "[::1]9092", ":1"]
)
def test_what_is_no_address_is_refused_with_the_word_that_is_wrong(given: str) -> None:
    with pytest.raises(ValueError, match=r"address|host|port|IPv6"):
        parse_addresses(given)


def test_an_address_prints_as_it_is_written() -> None:
    assert str(Address("::1", 1)) == "[::1]:1"
    assert str(Address("a", 1)) == "a:1"
