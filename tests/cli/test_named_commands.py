"""Every command that a page, an error or a help text names is there, with the options named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
import pytest

from odradek.cli.main import command_line
from odradek_operator.main.cli import main as operator_command_line
from odradek_pipeline.cli.main import make_command_line
from tests.support.named_commands import Named, in_markdown, in_python, problem

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAMS: dict[str, click.Command] = {
    "odradek": command_line,
    "odradek-operator": operator_command_line,
    "odradek-pipeline": make_command_line(),
}
SOURCES = ("broker", "operator", "pipeline", "demo", "bench")


def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", *patterns], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout
    return [CHECKOUT / name for name in listed.splitlines() if (CHECKOUT / name).exists()]


def _named() -> list[Named]:
    found: list[Named] = []
    for page in _tracked("*.md"):
        found += in_markdown(page, PROGRAMS)
    for module in _tracked(*(f"{folder}/*.py" for folder in SOURCES)):
        found += in_python(module, PROGRAMS)
    return found


@pytest.mark.thorough
def test_every_command_that_is_named_exists_with_its_options() -> None:
    named = _named()
    assert len(named) > 300, "the pages name hundreds: the search is broken"
    wrong = [found for each in named if (found := problem(each, PROGRAMS[each.words[0]])) is not None]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("with `odradek configs alter` or any", "there is no command alter"),
        ("`odradek topics create orders --partition 3`", "there is no option --partition"),
        ("```sh\necho a | odradek produse orders\n```", "there is no command produse"),
        ("```sh\nX=1 .venv/bin/odradek start \\\n  --listn 127.0.0.1:1\n```", "there is no option --listn"),
        ("`odradek --output json topics list --internal`", None),
        ("`odradek consume orders -n 3 --from-beginning | wc -l`", None),
        ("the folder `odradek/`, and pip install odradek", None),
        ("```python\nodradek nonsense\n```", None),
    ],
)
def test_what_is_not_there_is_found(tmp_path: Path, text: str, words: str | None) -> None:
    page = tmp_path / "page.md"
    page.write_text(text + "\n")
    problems = [problem(each, PROGRAMS[each.words[0]]) for each in in_markdown(page, PROGRAMS)]
    if words is None:
        assert not any(problems)
    else:
        (found,) = problems
        assert found is not None
        assert words in found


def test_errors_and_help_in_modules_are_read(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Help.\n\nExamples:\n  odradek topics crate orders\n"""\n'
        'raise ValueError(f"{1}: use `odradek groups forget {2}`")\n'
    )
    problems = [problem(each, PROGRAMS[each.words[0]]) for each in in_python(module, PROGRAMS)]
    assert [str(found).rpartition(": ")[2] for found in problems] == [
        "there is no command crate",
        "there is no command forget",
    ]
