"""The tables of `brokers api-versions`: brokers with equal versions together, or only the differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import render_table, show, show_document, warning
from odradek.client.admin.versions import BrokerVersions, api_name


def show_versions(session: CommandSession, found: Mapping[int, BrokerVersions]) -> int:
    """Every API and feature of every broker."""
    if session.is_json:
        show_document(session.output, [_document(*one) for one in sorted(found.items())])
        return ExitCode.OK
    alike: list[tuple[BrokerVersions, list[int]]] = []
    for broker_id, versions in sorted(found.items()):
        ids = next((ids for known, ids in alike if known == versions), None)
        if ids is None:
            alike.append((versions, [broker_id]))
        else:
            ids.append(broker_id)
    for index, (versions, ids) in enumerate(alike):
        if index:
            print()
        print(f"broker{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids))}")
        print(
            render_table(
                ("API", "KEY", "MIN", "MAX"),
                [(api_name(key), key, *versions.apis[key]) for key in sorted(versions.apis)],
            )
        )
        if versions.supported_features or versions.finalized_features:
            print()
            print(render_table(("FEATURE", "MIN", "MAX", "FINALIZED"), list(_features(versions))))
    return ExitCode.OK


def _features(versions: BrokerVersions) -> Iterator[tuple[str, int | None, int | None, int | None]]:
    for name in sorted({*versions.supported_features, *versions.finalized_features}):
        lowest, highest = versions.supported_features.get(name, (None, None))
        yield name, lowest, highest, versions.finalized_features.get(name)


def _document(broker_id: int, versions: BrokerVersions) -> dict[str, object]:
    return {
        "broker": broker_id,
        "apis": [
            {"name": api_name(key), "key": key, "min_version": lowest, "max_version": highest}
            for key, (lowest, highest) in sorted(versions.apis.items())
        ],
        "features": [
            {"name": name, "min_version": lowest, "max_version": highest, "finalized_version": finalized}
            for name, lowest, highest, finalized in _features(versions)
        ],
        "finalized_features_epoch": versions.finalized_epoch,
    }


def show_differences(session: CommandSession, found: Mapping[int, BrokerVersions]) -> int:
    """The APIs and features in which brokers differ, a column for each broker."""
    said: dict[str, dict[int, str]] = {}
    for broker_id, versions in sorted(found.items()):
        for key, (lowest, highest) in sorted(versions.apis.items()):
            said.setdefault(api_name(key), {})[broker_id] = f"{lowest}-{highest}"
        for name, low, high, finalized in _features(versions):
            supported = "-" if low is None else f"{low}-{high}"
            said.setdefault(name, {})[broker_id] = supported + (
                "" if finalized is None else f" at {finalized}"
            )
    different = {
        name: row for name, row in said.items() if len(row) < len(found) or len(set(row.values())) > 1
    }
    show(
        session.output,
        headers=("API OR FEATURE", *(f"BROKER {one}" for one in sorted(found))),
        rows=[(name, *(warning(row.get(one)) for one in sorted(found))) for name, row in different.items()],
        document=[{"name": name, "brokers": row} for name, row in different.items()],
        empty=f"all speak the same: brokers {', '.join(map(str, sorted(found)))}",
    )
    return ExitCode.OK
