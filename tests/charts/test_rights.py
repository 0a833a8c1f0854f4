"""The operator's rights are those that its calls need."""

from __future__ import annotations

import re
from typing import Any

import pytest

from odradek_operator.gateways.kubernetes import APIS, EVENTS, LEASES, NODES, Api
from tests.support.helm import CHARTS, objects, template


def _rules(settings: tuple[str, ...]) -> list[tuple[str | None, dict[str, Any]]]:
    """Every rule with the namespace where it holds; None for everywhere."""
    found = objects(
        template("odradek-operator", settings=["crds.install=false", "rbac.aggregate=false", *settings])
    )
    roles = {_named(role): role for role in found if role["kind"] in ("Role", "ClusterRole")}
    bound = [
        (item["roleRef"]["kind"], item["metadata"].get("namespace"), item["roleRef"]["name"])
        for item in found
        if item["kind"].endswith("Binding")
    ]
    assert sorted(bound, key=str) == sorted(roles, key=str), "each role is bound once"
    return [(role["metadata"].get("namespace"), rule) for role in roles.values() for rule in role["rules"]]


def _named(role: dict[str, Any]) -> tuple[str, str | None, str]:
    return (role["kind"], role["metadata"].get("namespace"), role["metadata"]["name"])


def _verbs(rules: list[tuple[str | None, dict[str, Any]]], api: Api, *, namespace: str | None) -> set[str]:
    group = api.group_version.rpartition("/")[0]
    return {
        verb
        for at, rule in rules
        if at in (None, namespace) and group in rule["apiGroups"] and api.plural in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("settings", [(), ("watch.allNamespaces=true",)], ids=["one-namespace", "all"])
def test_there_are_rights_for_every_kind_that_the_operator_deals_with(settings: tuple[str, ...]) -> None:
    rules = _rules(settings)
    for api in APIS.values():
        verbs = _verbs(rules, api, namespace="data")
        if api == LEASES:
            assert {"get", "create", "update"} <= verbs
        elif api == EVENTS:
            assert {"create", "patch"} <= verbs
        else:
            assert {"get", "list"} <= verbs, api
        assert "*" not in verbs


def test_nothing_but_nodes_is_read_outside_the_namespaces() -> None:
    wide = [rule for namespace, rule in _rules(()) if namespace is None]
    assert wide == [{"apiGroups": [""], "resources": [NODES.plural], "verbs": ["get", "list"]}]


def test_a_role_stands_in_each_namespace_that_is_watched() -> None:
    namespaces = {
        at for at, rule in _rules(("watch.namespaces={data,sales}",)) if "pods" in rule["resources"]
    }
    assert namespaces == {"data", "sales"}


def test_the_operator_is_told_the_namespaces_that_it_has_rights_in() -> None:
    deployment = template(
        "odradek-operator",
        settings=["watch.namespaces={data,sales}"],
        show_only=["templates/deployment.yaml"],
    )
    (pod,) = [found["spec"]["template"]["spec"] for found in objects(deployment)]
    (told,) = [
        variable["value"]
        for variable in pod["containers"][0]["env"]
        if variable["name"] == "ODRADEK_OPERATOR_RUN_NAMESPACES"
    ]
    assert told.split() == ["data", "sales"]


def test_every_setting_is_one_that_the_command_reads() -> None:
    from odradek_operator.main.cli import run

    known = {str(parameter.name).upper() for parameter in run.params}
    text = (CHARTS / "odradek-operator" / "templates" / "_helpers.tpl").read_text()
    given = set(re.findall(r'^  "([A-Z_]+)" ', text, re.MULTILINE))
    assert given
    assert given <= known
