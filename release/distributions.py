"""The three distributions: what each one's files are, what it is called, and what it brings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Distribution:
    """One `pyproject.toml` of this repository. Paths are below the checkout."""

    name: str
    folder: str
    """Where its pyproject.toml is."""
    package: str
    """The package's folder."""
    command: str
    plugin: str | None = None
    """Its pytest plugin's module."""
    sdist_extras: tuple[str, ...] = ()
    """The files of an sdist beside the package, as paths below `folder`."""
    beside: str | None = None
    """The folder of a second package, for programs that look for that name; beside the first one."""

    @property
    def file_name(self) -> str:
        """The spelling of file names."""
        return self.name.replace("-", "_")

    @property
    def import_name(self) -> str:
        return Path(self.package).name


DISTRIBUTIONS = (
    Distribution(
        "odradek",
        ".",
        "broker/odradek",
        "odradek.__main__:main",
        plugin="odradek.testing.pytest_plugin",
        sdist_extras=("CHANGELOG.md", "broker/README.md"),
    ),
    Distribution(
        "odradek-operator",
        "operator",
        "operator/odradek_operator",
        "odradek_operator.main.cli:main",
        sdist_extras=("README.md", "operator_requirements.py"),
    ),
    Distribution(
        "odradek-pipeline",
        "pipeline",
        "pipeline/odradek_pipeline",
        "odradek_pipeline.entrypoint:main",
        sdist_extras=("README.md", "connector.xml", "pipeline_requirements.py"),
        beside="pipeline/pyspark_odradek",
    ),
)
