"""The pytest plugin: a broker per test (`odradek_broker`) or per session (`odradek_broker_session`).

Settings for all brokers of a run go into the ini option `odradek_settings`, those of one test into
`@pytest.mark.odradek_settings({"log.segment.bytes": 1048576})`. A failed test's report has the broker's log. Works
under pytest-xdist: each worker has its own brokers, on ports that the kernel chose.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from odradek.testing.process import TestBroker

INI_SETTINGS = "odradek_settings"
MARKER = "odradek_settings"
_FIXTURES = ("odradek_broker", "odradek_broker_session")
_LOG_CHARACTERS_SHOWN = 20_000


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option."""
    parser.addini(
        INI_SETTINGS,
        "Settings of every broker that the fixtures start, one key=value a line.",
        type="linelist",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", f"{MARKER}(settings): Kafka settings for the broker that `odradek_broker` starts."
    )


@pytest.fixture
def odradek_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestBroker]:
    """A broker of this test's own, running; see `odradek.testing.TestBroker`."""
    from odradek.testing.process import TestBroker

    settings = _ini_settings(request.config)
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        for given in marker.args:
            settings.update(given)
    with TestBroker(tmp_path_factory.mktemp("odradek"), settings=settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def odradek_broker_session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestBroker]:
    """One broker for the whole session (for each worker, under xdist): quicker, and tests must share it politely."""
    from odradek.testing.process import TestBroker

    with TestBroker(tmp_path_factory.mktemp("odradek"), settings=_ini_settings(request.config)) as broker:
        yield broker


def _ini_settings(config: pytest.Config) -> dict[str, object]:
    settings: dict[str, object] = {}
    for line in config.getini(INI_SETTINGS):
        key, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"{INI_SETTINGS}: {line!r} is no key=value")
        settings[key.strip()] = value.strip()
    return settings


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the broker's log to the report of a test that failed."""
    report = yield
    if report.failed:
        for name in _FIXTURES:
            broker = getattr(item, "funcargs", {}).get(name)
            if broker is not None and broker.logs:
                report.sections.append((f"log of {name}", broker.logs[-_LOG_CHARACTERS_SHOWN:]))
    return report
