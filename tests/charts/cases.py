"""The values that charts are rendered with: cases that must work, with golden texts, and cases that must be refused.

`values/CHART/CASE.yaml` renders to `golden/CHART/CASE.yaml`; `python -m tests.charts.cases` writes the golden texts
again, and a reviewer sees in the difference what a change means for people's clusters. `refused/CHART/CASE.yaml` begins
with comments `# path:` and `# says:`: where Helm must point, and words of its message.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.helm import CHARTS, template

HERE = Path(__file__).parent
CHART_NAMES = ("odradek-operator", "odradek")
# Kinds of others that Kubernetes has no schemas for, and ours.
WITHOUT_SCHEMAS = ("monitoring.coreos.com/v1", "sparkoperator.k8s.io/v1beta2", "odradek.io/v1")


def accepted(chart: str) -> list[Path]:
    """Every case of a chart that must work."""
    return sorted((HERE / "values" / chart).glob("*.yaml"))


def refused(chart: str) -> list[Path]:
    """Every case of a chart that must be refused."""
    return sorted((HERE / "refused" / chart).glob("*.yaml"))


def golden(case: Path) -> Path:
    """Where a case's golden text is."""
    return HERE / "golden" / case.parent.name / case.name


def rendered(case: Path) -> str:
    """A case's manifests, without the definitions, which have tests of their own."""
    settings = ["crds.install=false"] if case.parent.name == "odradek-operator" else []
    return template(CHARTS / case.parent.name, values=[case], settings=settings)


def main() -> None:
    for chart in CHART_NAMES:
        for case in accepted(chart):
            golden(case).parent.mkdir(parents=True, exist_ok=True)
            golden(case).write_text(rendered(case))
            print(golden(case).relative_to(HERE))


if __name__ == "__main__":
    main()
