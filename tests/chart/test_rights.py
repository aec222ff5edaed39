"""The roles and webhook configurations of the chart against what the code needs and would write."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from chart.matrix import CA, MATRIX, export
from chart.rendering import NAMESPACE, Entry, Rendered, render
from policies.engine.request import JsonObject
from webhook.cli import options
from webhook.configuration.settingsfile import read
from webhook.registration.configurations import registered
from webhook.registration.rights import Right as Needed
from webhook.registration.rights import needed, needed_by_audit, needed_by_manager, placer

Right = tuple[str, str, str, str, str]
"""Verb, group, resource, the one name, the namespace; the last two empty for all."""

_WITH_ROLES = [
    name for name, values in MATRIX.items() if "cluster" not in values and values.get("rbac", {}).get("create", True)
]


def _granted(rendered: Rendered, name: str = NAMESPACE) -> set[Right]:
    found = set(_rights(rendered.one("ClusterRole", name), ""))
    if f"Role/{name}" in rendered.names:
        found |= set(_rights(rendered.one("Role", name), NAMESPACE))
    return found


def _rights(role: Mapping[str, Any], namespace: str) -> Iterator[Right]:
    for rule in role["rules"]:
        names = rule.get("resourceNames", [""])
        for verb, group, resource, name in product(rule["verbs"], rule["apiGroups"], rule["resources"], names):
            yield verb, group, resource, name, namespace


@pytest.mark.parametrize("name", _WITH_ROLES)
def test_the_roles_grant_what_is_needed_and_nothing_else(entry: Entry, tmp_path: Path, name: str) -> None:
    """What each kind of process needs for a configuration is granted verb by verb, and no other verb on anything."""
    (tmp_path / "cks.yaml").write_text(entry(name).configuration, encoding="utf-8")
    settings = read(tmp_path / "cks.yaml")
    parameters = {"rules": MATRIX[name].get("rbac", {}).get("parameters", [])}

    assert _granted(entry(name)) == _plain(needed(settings)) | set(_rights(parameters, ""))
    assert _granted(entry(name), "cks-admission-manage") == _plain(needed_by_manager(settings))
    assert ("ClusterRole/cks-admission-placer" in entry(name).names) is settings.place.apart
    if settings.place.apart:
        assert _granted(entry(name), "cks-admission-placer") == _plain(placer(settings))


@pytest.mark.parametrize("name", _WITH_ROLES)
def test_events_everywhere_are_for_refusals_alone(entry: Entry, name: str) -> None:
    """Replicas may create Events of the core group in all Namespaces, and no more, unless events.refusals is off."""
    everywhere = {right for right in _granted(entry(name)) if right[2] == "events" and not right[4]}
    off = MATRIX[name].get("config", {}).get("events") == {"refusals": False}

    assert everywhere == (set() if off else {("create", "", "events", "", "")})


@pytest.mark.parametrize("name", _WITH_ROLES)
def test_replicas_only_read(entry: Entry, name: str) -> None:
    """In no mode does a replica write anything but reviews of access and Events, or read a Secret or Pods.

    Of Leases it may read the placer's.
    """
    granted = _granted(entry(name))
    writes = {(verb, resource) for verb, _, resource, _, _ in granted if verb not in ("get", "list", "watch")}

    assert writes <= {("create", "subjectaccessreviews"), ("create", "events")}
    assert not {resource for _, _, resource, _, _ in granted} & {"secrets", "*"}
    assert {right for right in granted if right[2] == "leases"} <= {
        ("get", "coordination.k8s.io", "leases", "cks-admission-placer", NAMESPACE)
    }
    assert ("watch", "", "pods", "", "") not in granted


@pytest.mark.parametrize("name", ["audit", "audit-of-everything"])
def test_the_audit_reads_what_it_judges_and_writes_reports(entry: Entry, tmp_path: Path, name: str) -> None:
    """The audit's account may read what its command names, and what rules look at, and write reports, nothing else."""
    (tmp_path / "cks.yaml").write_text(entry(name).configuration, encoding="utf-8")
    settings = read(tmp_path / "cks.yaml")
    (container,) = entry(name).one("CronJob", "cks-admission-audit")["spec"]["jobTemplate"]["spec"]["template"]["spec"][
        "containers"
    ]
    named = [argument.removeprefix("--kind=") for argument in container["args"] if argument.startswith("--kind=")]
    judged = [tuple(kind.split(".", 1)) for kind in named] or [("*", "*")]
    parameters = {"rules": MATRIX[name].get("rbac", {}).get("parameters", [])}

    assert _granted(entry(name), "cks-admission-audit") == (
        _plain(needed_by_audit(settings))
        | {(verb, group.replace("v1.", ""), resource, "", "") for resource, group in judged for verb in ("get", "list")}
        | set(_rights(parameters, ""))
    )


def _plain(rights: Iterable[Needed]) -> set[Right]:
    return {(right.verb, right.group, right.resource, right.name, right.namespace) for right in rights}


def test_the_job_may_do_no_more_than_remove(entry: Entry) -> None:
    """The Job before the removal may mark and delete what is registered by its name, and nothing else."""
    resources = (
        *("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    )

    assert _granted(entry("default"), "cks-admission-unregister") == {
        (verb, "admissionregistration.k8s.io", resource, "cks-admission", "")
        for verb in ("patch", "delete")
        for resource in resources
    }


@pytest.mark.parametrize("name", _WITH_ROLES)
def test_the_placer_writes_to_pods_alone(entry: Entry, name: str) -> None:
    """Its account may patch Pods, which the policy limits, create Events, and keep its Lease; it reads no Secret."""
    if "ClusterRole/cks-admission-placer" not in entry(name).names:
        return
    granted = _granted(entry(name), "cks-admission-placer")
    writes = {(verb, resource) for verb, _, resource, _, _ in granted if verb not in ("get", "list", "watch")}

    assert writes == {("patch", "pods"), ("create", "events"), ("create", "leases"), ("update", "leases")}
    assert not {resource for _, _, resource, _, _ in granted} & {"secrets", "configmaps", "*"}


def test_the_job_that_releases_may_open_gates_alone(entry: Entry) -> None:
    """The Job that opens all gates may list and patch Pods, and nothing else."""
    assert _granted(entry("default"), "cks-admission-release") == {
        ("list", "", "pods", "", ""),
        ("patch", "", "pods", "", ""),
    }


@pytest.mark.parametrize(
    "name",
    [
        "cks-admission",
        "cks-admission-manage",
        "cks-admission-placer",
        "cks-admission-release",
        "cks-admission-unregister",
    ],
)
def test_roles_are_bound_to_one_account(entry: Entry, name: str) -> None:
    """Each role is for the account of its name in the release's namespace, which a Pod of the chart runs as."""
    rendered = entry("default")
    bindings = [
        each
        for each in rendered.objects
        if each["kind"] in ("ClusterRoleBinding", "RoleBinding") and each["metadata"]["name"] == name
    ]
    account = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}

    assert {binding["roleRef"]["name"] for binding in bindings} == {name}
    assert [binding["subjects"] for binding in bindings] == [[account]] * len(bindings)
    assert rendered.one("ServiceAccount", name)["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("name", "job", "when", "weights"),
    [
        ("default", "unregister", "pre-delete", ("-1", "0")),
        # The webhooks are gone before the gates are opened, or a Pod that came in between would wait for ever.
        ("default", "release", "pre-delete", ("1", "2")),
        ("rendered", "release", "post-delete", ("1", "2")),
    ],
)
def test_what_a_job_needs_goes_with_it(entry: Entry, name: str, job: str, when: str, weights: tuple[str, str]) -> None:
    """All that is made for a removal is a hook that is deleted when it is done, the account before the Job."""
    found = {
        each["kind"]: each["metadata"]["annotations"]
        for each in entry(name).objects
        if each["metadata"]["name"] == f"cks-admission-{job}"
    }
    hook = {"helm.sh/hook": when, "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"}

    assert found == {
        "ServiceAccount": {**hook, "helm.sh/hook-weight": weights[0]},
        "ClusterRole": {**hook, "helm.sh/hook-weight": weights[0]},
        "ClusterRoleBinding": {**hook, "helm.sh/hook-weight": weights[0]},
        "Job": {**hook, "helm.sh/hook-weight": weights[1]},
    }


def test_an_account_of_the_operators_is_used_by_all(entry: Entry) -> None:
    """Where roles are the operator's, processes run as his accounts, and each Job as that of the process it is for."""
    rendered = entry("named")
    accounts = [
        rendered.one(kind, name)["spec"]["template"]["spec"]["serviceAccountName"]
        for kind, name in (
            ("Deployment", "guard"),
            ("Deployment", "guard-manage"),
            ("Job", "guard-unregister"),
            ("Deployment", "guard-placer"),
            ("Job", "guard-release"),
        )
    ]

    assert accounts == ["guard-account", "guard-manager", "guard-manager", "guard-opener", "guard-opener"]
    condition = rendered.one("ValidatingAdmissionPolicy", "guard-placer")["spec"]["matchConditions"][0]["expression"]
    assert condition == "request.userInfo.username == 'system:serviceaccount:cks-admission:guard-opener'"


_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@pytest.mark.parametrize("name", [name for name in MATRIX if name.startswith("rendered")])
def test_they_are_those_of_the_rendered_configuration(entry: Entry, tmp_path: Path, name: str) -> None:
    """Entries, Service, CA and annotation are what the service itself would write for the configuration beside them."""
    (tmp_path / "cks.yaml").write_text(entry(name).configuration, encoding="utf-8")
    settings = read(tmp_path / "cks.yaml")
    bundle = CA.encode() if "caBundle" in MATRIX[name].get("certificates", {}) else b""
    wanted = registered(settings, bundle, options.ruleset(settings, date.min)[1])

    assert [_without_labels(entry(name).one(kind)) for kind in _KINDS] == [_without_labels(each) for each in wanted]


def _without_labels(configuration: JsonObject) -> JsonObject:
    """A configuration without labels, of which the chart has its own."""
    metadata = {key: value for key, value in configuration["metadata"].items() if key != "labels"}
    return {**configuration, "metadata": metadata}


def test_an_export_keeps_its_ca_where_the_chart_has_none() -> None:
    """What an operator's export trusts stays, and who is called is the release's Service or URL."""
    exported = export({"registration": {"url": "https://old.example.org/base", "name": "old"}})
    trusted = exported.replace(
        "clientConfig:\n", f"clientConfig:\n    caBundle: {base64.b64encode(CA.encode()).decode()}\n"
    )
    values = {
        "cluster": {"access": False},
        "certificates": {"mode": "secret", "secretName": "given-tls", "caKey": ""},
        "registration": {"mode": "rendered", "configurations": trusted},
        "config": {"registration": {"url": "https://new.example.org/"}},
    }
    (client, *_) = [each["clientConfig"] for each in render(values).one(_KINDS[0])["webhooks"]]

    assert client == {
        "url": "https://new.example.org/base/mutate/pods",
        "caBundle": base64.b64encode(CA.encode()).decode(),
    }
