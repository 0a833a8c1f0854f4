"""The pytest plugin: a broker per test (`odradek_broker`) or per session (`odradek_broker_session`).

Settings for all brokers of a run go into the ini option `odradek_settings`, those of one test into
`@pytest.mark.odradek_settings({"log.segment.bytes": 1048576})`. A failed test's report has the broker's log. Works
under pytest-xdist: each worker has its own brokers, on ports that the kernel chose.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from odradek.testing.process import TestBroker

INI_SETTINGS = "odradek_settings"
MARKER = "odradek_settings"
_FIXTURES = ("odradek_broker", "odradek_broker_session")
_LOG_CHARACTERS_SHOWN = 20_000
_LOGS_PLUGIN = "odradek-broker-logs"


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
    """A running broker of this test's own; see `odradek.testing.TestBroker`."""
    _show_logs(request.config)
    settings = _ini_settings(request.config)
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        settings.update(_marker_settings(marker))
    with _test_broker(tmp_path_factory, settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def odradek_broker_session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestBroker]:
    """One broker for the whole session (for each worker, under xdist): faster, but all tests share its topics and
    groups.
    """
    _show_logs(request.config)
    with _test_broker(tmp_path_factory, _ini_settings(request.config)) as broker:
        yield broker


def _test_broker(tmp_path_factory: pytest.TempPathFactory, settings: Mapping[str, object]) -> TestBroker:
    """pytest loads the plugin in every run, and this with the first broker."""
    from odradek.testing.process import TestBroker

    return TestBroker(tmp_path_factory.mktemp("odradek"), settings=settings)


def _ini_settings(config: pytest.Config) -> dict[str, object]:
    settings: dict[str, object] = {}
    for line in config.getini(INI_SETTINGS):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"{INI_SETTINGS}: {line!r} is not a setting; write key=value")
        settings[key.strip()] = value.strip()
    try:
        _check_settings(settings, source=INI_SETTINGS)
    except ValueError as problem:
        raise pytest.UsageError(str(problem)) from None
    return settings


def _marker_settings(marker: pytest.Mark) -> dict[str, object]:
    name = f"@pytest.mark.{MARKER}"
    if marker.kwargs or len(marker.args) != 1:
        raise pytest.UsageError(f'{name} takes one mapping of settings: {name}({{"num.partitions": 3}})')
    try:
        _check_settings(marker.args[0], source=name)
    except (TypeError, ValueError) as problem:
        raise pytest.UsageError(str(problem)) from None
    return dict(marker.args[0])


def _check_settings(settings: Mapping[str, object], *, source: str) -> None:
    """Raises as `odradek.testing.settings.setting_texts`."""
    from odradek.testing.settings import setting_texts

    setting_texts(settings, source=source)


class _BrokerLogs:
    """Adds the broker's log to the report of a test that failed.

    Registered by the first fixture, so that it costs nothing in runs without a broker.
    """

    # The old form of a wrapper: an early pluggy knows no other.
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, None]:
        outcome = yield
        report = outcome.get_result()
        if report.failed:
            for name in _FIXTURES:
                broker = getattr(item, "funcargs", {}).get(name)
                if broker is not None and broker.logs:
                    report.sections.append((f"log of {name}", broker.logs[-_LOG_CHARACTERS_SHOWN:]))


def _show_logs(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin(_LOGS_PLUGIN):
        config.pluginmanager.register(_BrokerLogs(), _LOGS_PLUGIN)
