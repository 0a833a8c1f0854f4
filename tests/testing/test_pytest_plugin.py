"""The plugin's fixtures, marker, ini option and reports, in runs of pytest of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import odradek.testing
from odradek.testing import pytest_plugin

pytestmark = pytest.mark.integration
pytest_plugins = ["pytester"]

SOURCE = Path(odradek.testing.__file__).parents[2]


def run(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    """Run `source` as a test file with the plugin, in a process of its own."""
    pytester.makepyfile(source)
    plugin = ("-p", "no:odradek", "-p", "odradek.testing.pytest_plugin", "-p", "no:randomly")
    return pytester.runpytest_subprocess(*plugin, *arguments)


@pytest.fixture(autouse=True)
def product_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))


def test_each_test_has_a_fresh_broker_and_the_session_shares_one(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        seen = set()

        def test_one(odradek_broker, odradek_broker_session):
            odradek_broker.create_topic("t")
            odradek_broker_session.create_topic("once")
            seen.update((odradek_broker.pid, odradek_broker_session.pid))

        def test_two(odradek_broker, odradek_broker_session):
            odradek_broker.create_topic("t")
            assert odradek_broker_session.pid in seen
            assert odradek_broker.pid not in seen
            assert odradek_broker.data.is_dir()
        """,
    )
    result.assert_outcomes(passed=2)


def test_settings_come_from_ini_and_marker(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nodradek_settings =\n    num.partitions=7\n    node.id=5\n")
    result = run(
        pytester,
        """
        import asyncio, pytest
        from odradek.client.client import Client
        from odradek.client.admin.topics import TopicAdmin

        async def facts(broker):
            async with Client(broker.bootstrap) as client:
                created = await TopicAdmin(client).create("t")
                return created.partitions, list(client.cluster.brokers)

        def test_ini(odradek_broker):
            assert asyncio.run(facts(odradek_broker)) == (7, [5])

        @pytest.mark.odradek_settings({"num.partitions": 4, "node.id": 6})
        class TestMarker:
            @pytest.mark.odradek_settings({"num.partitions": 3})
            def test_its_own_comes_last(self, odradek_broker):
                assert asyncio.run(facts(odradek_broker)) == (3, [6])
        """,
        "--strict-markers",
    )
    result.assert_outcomes(passed=2)


def test_a_failed_test_shows_the_brokers_log(pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test_fails(odradek_broker):\n    assert not odradek_broker.is_running\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*log of odradek_broker*", "*there are no logs in it yet*"])


def test_a_broker_that_cannot_start_is_an_error_with_its_words(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nodradek_settings = num.partitions=none\n")
    result = run(pytester, "def test_it(odradek_broker): pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*BrokerFailedToStartError: the broker ended with 2*", "*num.partitions*"])


def test_an_ini_line_that_is_no_setting_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nodradek_settings = num.partitions\n")
    result = run(pytester, "def test_it(odradek_broker): pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*'num.partitions' is not a setting; write key=value*"])


def test_the_fixtures_are_listed(pytester: pytest.Pytester) -> None:
    result = run(pytester, "", "--fixtures")
    result.stdout.fnmatch_lines(["odradek_broker*", "odradek_broker_session*"])


def test_other_runners_use_the_context_manager(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import unittest
        import odradek.testing

        class Case(unittest.TestCase):
            def setUp(self):
                self.broker = self.enterContext(odradek.testing.broker())

            def test_it(self):
                self.broker.create_topic("t")
                self.assertTrue(self.broker.is_running)
        """,
    )
    result.assert_outcomes(passed=1)


def test_a_misspelt_setting_is_an_error_that_names_the_right_one(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.odradek_settings({"num.partition": 3, "node.id": 5, "lgo.dirs": "x"})
        def test_marker(odradek_broker): pass

        @pytest.mark.odradek_settings({"log_segment_bytes": 1})
        def test_underscores(odradek_broker): pass

        @pytest.mark.odradek_settings(num_partitions=3)
        def test_names(odradek_broker): pass

        @pytest.mark.odradek_settings("num.partitions=3")
        def test_text(odradek_broker): pass
        """,
    )
    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines_random(
        [
            "*odradek_settings: there is no setting 'num.partition'; did you mean 'num.partitions'[?]; "
            "there is no setting 'lgo.dirs'; did you mean 'log.dirs'[?]",
            "*there is no setting 'log_segment_bytes'; did you mean 'log.segment.bytes'[?]",
            "*odradek_settings takes one mapping of settings:*",
            "*a mapping of Kafka's keys to values is needed, not 'num.partitions=3'",
        ]
    )


def test_a_misspelt_setting_in_the_ini_file_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nodradek_settings =\n    # more\n    num.partitons=3\n")
    result = run(pytester, "def test_it(odradek_broker_session): pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*there is no setting 'num.partitons'; did you mean 'num.partitions'[?]*"])


def test_loading_the_plugin_loads_nothing_else() -> None:
    program = """
import sys, pytest
before = set(sys.modules)
import odradek.testing.pytest_plugin
print(*set(sys.modules) - before)
"""
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    own = {"odradek", "odradek.testing", "odradek.testing.pytest_plugin"}
    assert set(loaded) <= own | {"odradek.foundation", "odradek.foundation.version"}


def test_runs_without_a_broker_have_no_hook_of_the_plugin_for_each_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def hooks(request):
            found = request.config.hook.pytest_runtest_makereport.get_hookimpls()
            return [hook for hook in found if "odradek" in hook.plugin_name]

        def test_without(request):
            assert not hooks(request)

        def test_with(request, odradek_broker_session):
            assert len(hooks(request)) == 1
        """,
    )
    result.assert_outcomes(passed=2)


def test_an_old_pytest_can_load_the_plugin() -> None:
    # Wrappers of the new form came with pluggy 1.2; before it, a plugin that has one ends pytest at its start.
    assert not pytest_plugin._BrokerLogs.pytest_runtest_makereport.pytest_impl["wrapper"]  # type: ignore[attr-defined]
