"""The rights that the settings ask for."""

from __future__ import annotations

from typing import Any

import pytest

from policies.objects.workload import BUILT_IN
from policies.topology.membership import ROOT_KINDS
from webhook.configuration.settings import Settings
from webhook.registration.rights import Right, needed, needed_by_audit, placer

_OFF: dict[str, Any] = {
    "topology": {"action": "off"},
    "sunk": {"action": "off"},
    "selectors": {"action": "off"},
    "policies": {"configMaps": False, "native": False},
    "events": {"refusals": False},
}
_LEAST = {
    "get namespaces",
    "list namespaces",
    "watch namespaces",
    *(
        f"{verb} {resource}.resource.k8s.io"
        for verb in ("list", "watch")
        for resource in ("deviceclasses", "resourceclaims", "resourceclaimtemplates")
    ),
}
_NODES = {"list nodes", "watch nodes"}
_POOLS = {
    f"{verb} nodepools.{group}" for verb in ("list", "watch") for group in ("compute.coreweave.com", "karpenter.sh")
}
_TOPOLOGIES = {
    f"{verb} topologies.{group}" for verb in ("list", "watch") for group in ("kai.scheduler", "kueue.x-k8s.io")
} | {"list resourceflavors.kueue.x-k8s.io"}
_TOPOLOGIES |= {f"{verb} clustertopolog{end}.grove.io" for verb in ("list", "watch") for end in ("ies", "ybindings")}
_WORKLOADS = {f"list {row.resource}.{row.group}".rstrip(".") for row in BUILT_IN if row.makes_pods}
_PLACING = {
    "patch pods",
    "list events",
    "create events",
    "create leases.coordination.k8s.io @cloud",
    *(f"{verb} leases.coordination.k8s.io opener @cloud" for verb in ("get", "update")),
    *(f"{verb} {each}" for verb in ("list", "watch") for each in ("pods", "priorityclasses.scheduling.k8s.io")),
    *(
        f"{verb} {row.resource}.{row.group}".rstrip(".")
        for row in BUILT_IN
        if row.group_kind in ROOT_KINDS
        for verb in ("list", "watch")
    ),
}
_PLACES = {"cluster": {"namespace": "cloud", "lease": "agreed", "inCluster": True}, "place": {"lease": "opener"}}
_APART = _PLACES | {"place": {"apart": True, "lease": "opener"}}
_TRAIN = [{"group": "example.org", "kind": "Train", "templates": ["spec.template"]}]
_CONFIGURATIONS = [f"{kind}webhookconfigurations.admissionregistration.k8s.io" for kind in ("mutating", "validating")]
_POLICIES = [f"validatingadmissionpolic{end}.admissionregistration.k8s.io" for end in ("ies", "ybindings")]
_WRITTEN = [*_CONFIGURATIONS, *_POLICIES]
_WAITING = {"list pods", "create events"}
_LEASE = {"create leases.coordination.k8s.io @cloud"} | {
    f"{verb} leases.coordination.k8s.io agreed @cloud" for verb in ("get", "update")
}
_AUTHORIZER = {"create subjectaccessreviews.authorization.k8s.io"}


def _needed(**sections: Any) -> list[str]:
    cluster = {"namespace": "cloud", "lease": "agreed"}
    return _written(needed(Settings.model_validate({**_OFF, "cluster": cluster, **sections})))


def _written(found: list[Right]) -> list[str]:
    """Each right as `verb resource.group name @namespace`."""
    assert all(right.reason for right in found)
    return [
        " ".join(filter(None, (right.verb, what, right.name, right.namespace and f"@{right.namespace}")))
        for right in found
        for what in [f"{right.resource}.{right.group}".rstrip(".")]
    ]


_WATCHED = _NODES | _TOPOLOGIES
_CA_ONLY = {
    *(f"{verb} {each} hooks" for verb in ("get", "list", "watch", "patch") for each in _CONFIGURATIONS),
    *_LEASE,
    *_WAITING,
}
_HOOKS = {"registration": {"caOnly": True, "name": "hooks"}}
_UNGUARDED = {**_HOOKS, "labels": {"action": "off"}}
_CASES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "nothing": ({}, set()),
    "sunk": ({"sunk": {}}, _NODES),
    "sunk without DaemonSets": ({"sunk": {"daemonSets": "off"}}, set()),
    "selectors": ({"selectors": {}}, _NODES | _POOLS),
    "topology": ({"topology": {}}, _WATCHED | _WORKLOADS),
    "it places gangs itself": ({"topology": {}, **_PLACES}, _WATCHED | _WORKLOADS | _PLACING),
    "a placer of its own": (
        {"topology": {}, **_APART},
        _WATCHED | _WORKLOADS | {"get leases.coordination.k8s.io opener @cloud"},
    ),
    "no gates": ({"topology": {"placement": [{"ways": ["affinity"]}]}, **_PLACES}, _WATCHED | _WORKLOADS),
    "Events about refusals": ({"events": {}}, _WORKLOADS | {"create events"}),
    "topology without deletion": ({"topology": {"deletion": "off"}}, _WATCHED),
    "a workload of the settings": (
        {"topology": {}, "workloads": _TRAIN},
        _WATCHED | _WORKLOADS | {"list trains.example.org"},
    ),
    "ConfigMaps": (
        {"policies": {"native": False}},
        {*(f"{verb} configmaps @cloud" for verb in ("list", "watch", "patch")), "create events @cloud", *_AUTHORIZER},
    ),
    "native policies": (
        {"policies": {"configMaps": False}},
        {*(f"{verb} {each}" for verb in ("list", "watch") for each in _POLICIES), "create events", *_AUTHORIZER},
    ),
    "policies in files": (
        {"policies": {"configMaps": False, "native": False, "directories": ["policies"]}},
        _AUTHORIZER,
    ),
    "registration": (
        {"registration": {"apply": True, "name": "hooks", "owner": "cks"}},
        {
            *(f"create {each}" for each in _WRITTEN),
            *(
                f"{verb} {each} hooks"
                for verb in ("get", "list", "watch", "patch", "update", "delete")
                for each in _WRITTEN
            ),
            "get clusterroles.rbac.authorization.k8s.io cks",
            *_LEASE,
            *_WAITING,
        },
    ),
    "caBundle alone": (_HOOKS, _CA_ONLY),
    "no guard": (_UNGUARDED, _CA_ONLY),
    "what audits left": ({**_UNGUARDED, "audit": {"record": "last"}}, {*_CA_ONLY, "get configmaps last @cloud"}),
}


@pytest.mark.parametrize("case", _CASES)
def test_each_setting_asks_for_its_rights(case: str) -> None:
    """A right is needed where a setting makes use of it, once, and nowhere else."""
    sections, more = _CASES[case]
    found = _needed(**sections)

    assert sorted(found) == sorted(_LEAST | more)


def test_what_is_only_told_is_not_vital() -> None:
    """Without a right to look at workloads or to write Events the service says less, and does the same."""
    found = needed(Settings())
    telling = {f"{right.verb} {right.resource}" for right in found if not right.vital}

    assert {"create events", "patch configmaps", "list daemonsets"} <= telling
    assert not {"list nodes", "list configmaps", "get namespaces"} & telling


@pytest.mark.parametrize(
    ("sections", "more"),
    [
        ({}, set()),
        ({"workloads": _TRAIN}, {"list trains.example.org", "watch trains.example.org"}),
        # Of what is off for replicas nothing is needed.
        ({"selectors": {}, "events": {}, "policies": {}}, set()),
    ],
)
def test_a_placer_reads_what_decides_and_patches_pods(sections: dict[str, Any], more: set[str]) -> None:
    """It needs no right of replicas or of manage to write, and none to read Secrets, ConfigMaps or policies."""
    settings = Settings.model_validate({**_OFF, **_APART, "topology": {}, **sections})
    follows = {right for right in _LEAST | _NODES | _TOPOLOGIES if "resourceflavors" not in right}

    assert sorted(_written(placer(settings))) == sorted(follows | _PLACING | more)


@pytest.mark.parametrize("findings", [True, False])
def test_an_audit_may_create_events_if_it_tells_people(findings: bool) -> None:  # noqa: FBT001 - a parameter
    """The right to create Events is needed for telling people what is found, and it is not vital; else not at all."""
    rights = needed_by_audit(Settings.model_validate({"events": {"findings": findings}}))
    events = [(right.verb, right.namespace, right.vital) for right in rights if right.resource == "events"]

    assert events == ([("create", "", False)] if findings else [])
