"""Writes what is made from declarations below helm/ and manifests/.

python -m helm.generate             values, their schemas, the READMEs' tables, dashboards, Prometheus' rules
python -m helm.generate manifests   manifests/, rendered by Helm from the charts
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from helm.generate import cluster_chart, dashboard, manifests, operator_chart, prometheus_rules
from helm.generate.declaration import ChartValues
from helm.generate.written import values_schema, values_yaml, with_table
from odradek_operator.desired.probes import UNTIL_READY

CHECKOUT = Path(__file__).resolve().parents[2]


def charts() -> tuple[ChartValues, ...]:
    """The values of both charts."""
    return (operator_chart.CHART, cluster_chart.chart())


def files() -> dict[Path, str]:
    """Every file that is made without Helm, with its text."""
    written: dict[Path, str] = {}
    for chart in charts():
        written |= _of(chart)
    written |= dashboard.files(CHECKOUT / "helm")
    written[CHECKOUT / prometheus_rules.PATH] = prometheus_rules.rules(CHECKOUT)
    written[CHECKOUT / "helm" / "odradek-operator" / "files" / "until-ready.txt"] = UNTIL_READY
    return written


def _of(chart: ChartValues) -> dict[Path, str]:
    folder = CHECKOUT / "helm" / chart.chart
    return {
        folder / "values.yaml": values_yaml(chart),
        folder / "values.schema.json": values_schema(chart),
        folder / "README.md": with_table((folder / "README.md").read_text(), chart),
    }


def _helm() -> str:
    """Helm's path: the one that is installed, or that tests have built. Ends the program where there is none."""
    built = CHECKOUT / ".cache" / "helm" / "helm"
    found = shutil.which("helm") or (str(built) if os.access(built, os.X_OK) else None)
    if found is None:
        sys.exit("helm.generate: Helm is not here: install it, or let tests/charts build it with Go")
    return found


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["manifests"]):
        print(__doc__, file=sys.stderr)
        return 2
    for path, text in (manifests.files(CHECKOUT, helm=_helm()) if arguments else files()).items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.relative_to(CHECKOUT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
