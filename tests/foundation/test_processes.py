"""What each process of a machine gets follows from the machine's settings."""

import pytest

from odradek.foundation.errors import SettingError
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.settings.processes import check_machine, machine_name, process_entries

GIVEN = {
    "broker.id": "7",
    "broker.processes": "3",
    "log.dirs": "/a, /b/",
    "listeners": "INTERNAL://:9092,EXTERNAL://0.0.0.0:9094",
    "advertised.listeners": "INTERNAL://broker-7:9092,EXTERNAL://example.org:30000",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
    "broker.rack": "r1",
}


def test_processes_share_nothing_that_they_cannot() -> None:
    machine = Settings(GIVEN)
    check_machine(machine)
    assert machine_name(machine) == "7"
    first, third = (Settings(process_entries(machine, number)) for number in (1, 3))
    assert (first.effective_broker_id, third.effective_broker_id) == (7, 20_007)
    assert first.log_directories == ("/a", "/b/")
    assert third.log_directories == ("/a/process.3", "/b/process.3")
    assert third.listeners == "INTERNAL://:9392,EXTERNAL://0.0.0.0:9394"
    assert third.advertised_listeners == "INTERNAL://broker-7:9392,EXTERNAL://example.org:30300"
    assert first.broker_machine == third.broker_machine == "7"
    assert first.broker_processes == third.broker_processes == 3
    assert first.broker_rack == third.broker_rack == "r1"


def test_a_port_of_0_and_a_given_name_stay() -> None:
    machine = Settings(
        {"listeners": "PLAINTEXT://127.0.0.1:0", "broker.machine": "m", "broker.processes": "2"}
    )
    check_machine(machine)
    entries = process_entries(machine, 2)
    assert entries["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert "advertised.listeners" not in entries
    assert (entries["broker.machine"], entries["node.id"]) == ("m", "10001")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"broker.id": "10000"}, "must be below 10000"),
        ({"listeners": "INTERNAL://:9092,EXTERNAL://:9192"}, "ports that meet"),
        ({"listeners": "INTERNAL://:65300,EXTERNAL://:9094"}, "need ports up to 65600"),
    ],
)
def test_settings_with_which_processes_meet_are_refused(more: dict[str, str], words: str) -> None:
    given = {key: text for key, text in GIVEN.items() if key != "advertised.listeners"}
    with pytest.raises(SettingError, match=words):
        check_machine(Settings(given | more))


def test_a_machine_has_a_bounded_number_of_processes() -> None:
    with pytest.raises(SettingError, match="between 1 and 64"):
        Settings({"broker.processes": "65"})
