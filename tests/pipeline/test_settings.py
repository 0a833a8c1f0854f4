"""Settings: declared once, from flags and files, with errors that name the place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest

from odradek.foundation.settings.declaration import OneOf, boolean, double, integer, text, words
from odradek_pipeline.cli.main import run
from odradek_pipeline.cli.reference import render_reference
from odradek_pipeline.cli.table import COMMANDS
from odradek_pipeline.errors import MEANINGS, PipelineExitCode, PipelineSettingError
from odradek_pipeline.settings.declared import (
    duration,
    make_settings,
    parse_duration_ms,
    setting,
    settings_of,
)
from odradek_pipeline.settings.files import read_file
from tests.support.broker_process import CHECKOUT


@dataclass(frozen=True, kw_only=True)
class Pace:
    count: int = setting(integer(3, "A count.", 1))
    pause_ms: int = setting(duration("10s", "A pause."), key="pause")


@dataclass(frozen=True, kw_only=True)
class Example:
    pace: Pace
    topic: tuple[str, ...] = setting(words((), "Topics."), is_required=True)
    share: float = setting(double(0.5, "A share."))
    is_quick: bool = setting(boolean(False, "Quick."))
    mode: str = setting(text("a", "A mode.", OneOf("a", "b")))


KNOWN = {"example": settings_of(Example).keys(), "other": {"count", "place"}}


def file_of(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text)
    return path


def test_a_file_has_keys_for_all_commands_and_sections(tmp_path: Path) -> None:
    path = file_of(
        tmp_path,
        "topic: [t, u]\ncount: 4\npause: 2\nplace: here\nexample:\n  share: 1\n  is_quick: true\nother:\n  count: 9\n",
    )
    assert make_settings(Example, read_file(path, "example", KNOWN)) == Example(
        pace=Pace(count=4, pause_ms=2000), topic=("t", "u"), share=1.0, is_quick=True
    )
    single = make_settings(Example, read_file(file_of(tmp_path, "topic: t"), "example", KNOWN))
    assert single == Example(pace=Pace(), topic=("t",))
    assert single.pace.pause_ms == 10_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topics: [t]", r"settings.yaml: there is no setting 'topics'; did you mean topic\?"),
        ("example:\n  place: x", r"section example: there is no setting 'place'"),
        ("count: many\ntopic: t", r"count is 'many'; it must be a whole number"),
        ("count: true\ntopic: t", r"count is True; it must be one value of its kind"),
        ("count: 0\ntopic: t", r"count is '0'; it must be at least 1"),
        ("mode: c\ntopic: t", r"mode is 'c'; it must be one of a, b"),
        ("mode: yes\ntopic: t", r"mode is True; it must be a text, as in quotes"),
        ("pause: soon\ntopic: t", r"pause is 'soon'; it must be a duration, as 500ms"),
        ("count: 1", r"--topic must be given, as a flag or in the file of --config"),
        ("- t", r"holds a list: write one setting a line"),
        ("a: [", r"is not YAML"),
    ],
)
def test_a_wrong_file_says_what_is_wrong_where(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PipelineSettingError, match=message):
        make_settings(Example, read_file(file_of(tmp_path, text), "example", KNOWN))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineSettingError, match=r"absent\.yaml cannot be read: No such file"):
        read_file(tmp_path / "absent.yaml", "example", KNOWN)


def test_each_setting_says_what_it_means() -> None:
    for command in COMMANDS.values():
        for one in settings_of(command.settings).values():
            assert one.setting.doc.endswith("."), (command.name, one.name)
    assert set(MEANINGS) == set(PipelineExitCode)


@pytest.mark.thorough
def test_each_command_runs_with_the_settings_that_are_declared_for_it() -> None:
    for command in COMMANDS.values():
        run_command = import_module(f"odradek_pipeline.{command.module}").run
        assert get_type_hints(run_command)["settings"] is command.settings, command.name


def test_durations_are_milliseconds() -> None:
    texts = ("500ms", "10s", "10", "1.5m", "2h", "1d")
    assert [parse_duration_ms(given) for given in texts] == [
        500,
        10_000,
        10_000,
        90_000,
        7_200_000,
        86_400_000,
    ]


def test_wrong_use_ends_with_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["load", "--topic", "t"]) == PipelineExitCode.USAGE
    assert "--output must be given" in capsys.readouterr().err
    assert run(["load", "--topics", "t"]) == PipelineExitCode.USAGE
    assert "--topic" in capsys.readouterr().err
    assert run(["load", "--topic", "t", "--output", "o", "--start", "soon"]) == PipelineExitCode.USAGE
    assert "'soon' is no position" in capsys.readouterr().err
    assert run(["load", "--topic", "t", "--output", "o", "--kafka", "x"]) == PipelineExitCode.USAGE
    assert "--kafka x: write it as NAME=VALUE" in capsys.readouterr().err  # before a session is started
    settings = file_of(tmp_path, "load:\n  topic: t\n  output: o\n  stop: soon\n")
    assert run(["load", "--config", str(settings)]) == PipelineExitCode.USAGE
    assert run(["load", "--help"]) == PipelineExitCode.OK
    shown = capsys.readouterr().out
    assert all(one.flag in shown for one in settings_of(COMMANDS["load"].settings).values())


def test_a_summary_is_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    from odradek_pipeline.cli.console import console_for
    from odradek_pipeline.work.command import Summary

    with console_for("auto") as console:
        console.steps("planned", ranges=2)
        console.show_summary(Summary("done", {"rows": 3}, [{"partition": 0}], rows_name="ranges"))
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"event": "planned", "ranges": 2},
        {"event": "summary", "rows": 3, "ranges": [{"partition": 0}]},
    ]
    with console_for("json") as console:
        console.show_summary(Summary("done", {"output": "a"}, [], rows_name="runs"))
    assert json.loads(capsys.readouterr().out) == {"event": "summary", "output": "a", "runs": []}
    with pytest.raises(AssertionError, match="hide a fact"):
        Summary("done", {"runs": 3}, [{"number": 1}], rows_name="runs")
    with console_for("table") as console:
        console.steps("planned", ranges=2000)
        console.show_summary(
            Summary("done", {"rows": 3000}, [{"partition": 0, "end": 1234}], rows_name="ranges")
        )
    printed = capsys.readouterr().out
    assert "3,000" in printed and "1,234" in printed


@pytest.mark.generated
def test_the_reference_page_is_what_the_settings_say() -> None:
    page = CHECKOUT / "docs" / "reference" / "pipeline.md"
    remedy = "run: python -m odradek_pipeline.cli.reference > docs/reference/pipeline.md"
    assert page.read_text() == render_reference(), remedy
