"""The protocol of a subcommand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

from odradek_pipeline.errors import PipelineExitCode
from odradek_pipeline.runs.steps import Steps

RANGES: Final = "ranges"


@dataclass(frozen=True, slots=True)
class Summary:
    """The answer of a command: `facts` by name, and rows of a table. Both are plain values.

    `title` is one line for people. `rows_name` says what the rows are: in JSON they are a list of that name, which is
    there without rows, too. A command that has no table names none.
    """

    title: str
    facts: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]] = ()
    exit_code: PipelineExitCode = PipelineExitCode.OK
    rows_name: str = ""

    def __post_init__(self) -> None:
        assert self.rows_name or not self.rows, "rows need a name"
        assert self.rows_name not in self.facts, f"{self.rows_name} would hide a fact"


class Console(Protocol):
    @property
    def steps(self) -> Steps: ...

    def watch(self, spark: Any) -> None:
        """Show the tasks of this session, where there is a terminal."""
        ...

    def notice(self, text: str) -> None:
        """A sentence for people; on standard error."""
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand: the function `run` of `module`, given an object of `settings`. Their docstring is its help.

    The module is imported for a run: most import PySpark, which `--help` has no need of.
    """

    name: str
    settings: type[Any]
    module: str

    @property
    def help(self) -> str:
        return str(self.settings.__doc__)

    def run(self, settings: Any, console: Console) -> Summary:
        """Raises PipelineError."""
        summary: Summary = import_module(f"odradek_pipeline.{self.module}").run(settings, console)
        return summary
