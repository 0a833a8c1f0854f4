"""The operator's rights are those that its calls need."""

from __future__ import annotations

import re
from typing import Any

import pytest

from odradek_operator.gateways.kubernetes import APIS, LEASES, NODES
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
        if item["kind"] in ("RoleBinding", "ClusterRoleBinding")
    ]
    assert sorted(bound, key=str) == sorted(roles, key=str), "each role is bound once"
    return [(role["metadata"].get("namespace"), rule) for role in roles.values() for rule in role["rules"]]


def _named(role: dict[str, Any]) -> tuple[str, str | None, str]:
    return (role["kind"], role["metadata"].get("namespace"), role["metadata"]["name"])


# What is called, by plural: reads, server-side applies (patch, and create where nothing is there), patches, deletions.
# An object is read by its name before its first apply, to know its owner. What is listed is watched. That these suffice
# is shown where they are used, on a real API server.
APPLIED = {"get", "list", "watch", "create", "patch", "delete"}
NEEDED = {
    "clusters": {"get", "list", "watch"},
    "topics": {"get", "list", "watch", "patch"},
    "consumergroups": {"get", "list", "watch", "patch"},
    "users": {"get", "list", "watch", "patch"},
    "users/status": {"patch"},
    "mirrors": {"get", "list", "watch"},
    "mirrors/status": {"patch"},
    "secrets": {"create", "patch"},
    "clusters/status": {"patch"},
    "topics/status": {"patch"},
    "consumergroups/status": {"patch"},
    "statefulsets": APPLIED,
    "deployments": APPLIED,
    "services": APPLIED,
    "configmaps": APPLIED,
    "serviceaccounts": APPLIED,
    "poddisruptionbudgets": APPLIED,
    "networkpolicies": APPLIED,
    # Kubernetes need not have the latter, and a watch of what is not there would leave the namespace out.
    "ingresses": APPLIED - {"watch"},
    "tlsroutes": APPLIED - {"watch"},
    "pods": {"list", "watch", "patch", "delete"},
    "persistentvolumeclaims": {"list", "patch", "delete"},
    "events": {"get", "list", "create", "patch"},
    "nodes": {"get", "list"},
}


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [(), ("watch.allNamespaces=true",)], ids=["one-namespace", "all"])
def test_rights_are_those_that_are_needed_and_no_more(settings: tuple[str, ...]) -> None:
    given: dict[str, set[str]] = {}
    namespace = None if settings else "sales"  # not the release's own, where the Lease is
    for at, rule in _rules(settings or ("watch.namespaces={sales}",)):
        if at in (None, namespace):
            for resource in rule["resources"]:
                given.setdefault(resource, set()).update(rule["verbs"])
    definitions = given.pop("customresourcedefinitions", set())
    assert definitions == ({"list", "watch"} if settings else set())
    assert given == NEEDED
    assert {api.plural for api in APIS.values()} - {"leases"} <= NEEDED.keys()


@pytest.mark.thorough
def test_of_leases_only_its_own_is_changed() -> None:
    rules = [rule for _, rule in _rules(()) if LEASES.plural in rule["resources"]]
    assert [(rule["verbs"], rule.get("resourceNames")) for rule in rules] == [
        (["create"], None),
        (["get", "update"], ["odradek-operator"]),
        (["delete"], ["odradek-operator"]),  # the uninstall's job
    ]


@pytest.mark.thorough
def test_nothing_but_nodes_is_read_outside_the_namespaces() -> None:
    wide = [rule for namespace, rule in _rules(()) if namespace is None]
    assert wide == [{"apiGroups": [""], "resources": [NODES.plural], "verbs": ["get", "list"]}]


@pytest.mark.thorough
def test_a_role_stands_in_each_namespace_that_is_watched() -> None:
    namespaces = {
        at for at, rule in _rules(("watch.namespaces={data,sales}",)) if "pods" in rule["resources"]
    }
    assert namespaces == {"data", "sales"}


@pytest.mark.thorough
def test_the_operator_gets_the_namespaces_that_it_has_rights_in() -> None:
    deployment = template(
        "odradek-operator",
        settings=["watch.namespaces={data,sales}"],
        show_only=["templates/deployment.yaml"],
    )
    (pod,) = [found["spec"]["template"]["spec"] for found in objects(deployment)]
    (given,) = [
        variable["value"]
        for variable in pod["containers"][0]["env"]
        if variable["name"] == "ODRADEK_OPERATOR_RUN_NAMESPACES"
    ]
    assert given.split() == ["data", "sales"]


def test_every_setting_is_one_that_the_command_reads() -> None:
    from odradek_operator.main.cli import run

    known = {str(parameter.name).upper() for parameter in run.params}
    text = (CHARTS / "odradek-operator" / "templates" / "_helpers.tpl").read_text()
    given = set(re.findall(r'^  "([A-Z_]+)" ', text, re.MULTILINE))
    assert given
    assert given <= known


@pytest.mark.thorough
def test_a_kubernetes_without_admission_policies_gets_none() -> None:
    def kinds(version: str, *settings: str) -> set[str]:
        rendered = template("odradek-operator", settings=settings, kubernetes=version)
        return {one["kind"] for one in objects(rendered) if one["kind"].startswith("ValidatingAdmission")}

    assert kinds("1.29.5") == set()
    assert kinds("1.30.0") == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert kinds("1.30.0", "rbac.secretsPolicy=false") == set()
