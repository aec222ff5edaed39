"""Schemas: what stands at a place in a kind, from the shipped table and from a CRD."""

from __future__ import annotations

import zlib

import pytest
from cluster.servedresources import compact_resources

from policies.admissionpolicy import schema
from policies.admissionpolicy.builtin.table import FOLDER, ApiResource, served_resources, types_of
from policies.admissionpolicy.schema import SchemaNode
from policies.engine.request import GroupVersionKind
from policies.kubernetes.name import SERVED_VERSIONS
from policies.kubernetes.release import RELEASES, Release

_WIDGET = GroupVersionKind("example.test", "v1", "Widget")


def _described(node: SchemaNode | None) -> str:
    """What stands at a place, in a few words."""
    if node is None:
        return "nothing"
    atom = node.atom
    words = []
    if atom.scalar is not None:
        words.append(f"{atom.scalar.type} {atom.scalar.form}".strip())
    if atom.map is not None:
        words.append("atomic map" if atom.map.atomic else "map")
    if atom.list is not None:
        words.append(" ".join([atom.list.relation, "list", *atom.list.keys]))
    return ", ".join(words)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ([], "map"),
        (["apiVersion"], "string"),
        (["metadata", "labels"], "map"),
        (["metadata", "labels", "any"], "string"),
        (["metadata", "finalizers"], "set list"),
        (["metadata", "ownerReferences"], "map list uid"),
        (["metadata", "creationTimestamp"], "untyped date-time"),
        (["spec", "containers"], "map list name"),
        (["spec", "containers", 0, "ports"], "map list containerPort protocol"),
        (["spec", "containers", 0, "command"], "atomic list"),
        (["spec", "containers", 0, "command", 0], "string"),
        (["spec", "containers", 0, "resources", "limits", "cpu"], "untyped quantity"),
        (["spec", "containers", 0, "livenessProbe", "httpGet", "port"], "untyped int-or-string, map, atomic list"),
        (["spec", "containers", 0, "env", 0, "valueFrom", "fieldRef"], "atomic map"),
        (["spec", "nodeSelector"], "atomic map"),
        (["spec", "tolerations"], "atomic list"),
        (["spec", "topologySpreadConstraints"], "map list topologyKey whenUnsatisfiable"),
        (["spec", "priority"], "numeric int32"),
        (["spec", "hostNetwork"], "boolean"),
        (["spec", "hostNetwrok"], "nothing"),
        (["spec", "hostNetwork", "inside"], "nothing"),
        (["spec", "containers", "name"], "nothing"),
        (["spec", "hostNetwrok", "inside"], "nothing"),
    ],
    ids=str,
)
def test_places_in_a_pod(path: list[str | int], found: str) -> None:
    """The shipped table knows how each place of a built-in kind merges."""
    pod = schema.built_in(GroupVersionKind("", "v1", "Pod"))

    assert pod is not None
    assert _described(pod.place(path)) == found


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_every_definition_can_be_read(release: Release) -> None:
    """No definition of the table refers to one that is not there."""
    types = types_of(release).types
    definitions = schema.Definitions(types)
    waiting, seen = [definitions.node(name) for name in types], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        fields = node.atom.map
        inner = [node.item] if fields is None else [node.item, fields.element, *fields.fields.values()]
        waiting += [each for each in inner if each is not None]

    assert len(seen) > len(types)


def test_the_tables_are_small() -> None:
    """All tables together take at most a tenth of a megabyte in a wheel."""
    compressed = sum(len(zlib.compress(file.read_bytes())) for file in FOLDER.glob("*.json"))

    assert compressed < 100_000


_TEXT = {"type": "string"}
_CRD = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "plain": {"type": "array", "items": _TEXT},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT},
                "keyed": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["a", "b"],
                    "items": {"type": "object", "properties": {"a": _TEXT, "b": {"type": "integer", "default": 3}}},
                },
                "old": {
                    "type": "array",
                    "x-kubernetes-patch-strategy": "merge",
                    "x-kubernetes-patch-merge-key": "name",
                    "items": {"type": "object"},
                },
                "oldSet": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": _TEXT},
                "fixed": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": _TEXT}},
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"known": {"type": "object", "properties": {"a": _TEXT}}},
                },
                "closed": {"type": "object", "properties": {"a": _TEXT}},
                "open": {"type": "object", "additionalProperties": True},
                "shut": {"type": "object", "additionalProperties": False},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "either": {"x-kubernetes-int-or-string": True},
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object"}},
                },
            },
        }
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("metadata.labels", "map"),
        ("metadata.finalizers", "set list"),
        ("kind", "string"),
        ("status", "nothing"),
        ("spec.plain", "atomic list"),
        ("spec.set", "set list"),
        ("spec.keyed", "map list a b"),
        ("spec.old", "map list name"),
        ("spec.oldSet", "set list"),
        ("spec.fixed", "atomic map"),
        ("spec.free.known.other", "untyped, map, atomic list"),
        ("spec.free.other", "untyped, map, atomic list"),
        ("spec.closed.other", "nothing"),
        ("spec.open.other", "untyped, map, atomic list"),
        ("spec.shut.other", "nothing"),
        ("spec.any", "untyped, map, atomic list"),
        ("spec.any.other", "untyped, map, atomic list"),
        ("spec.either", "untyped, map, atomic list"),
        ("spec.template.metadata.labels", "map"),
        ("spec.template.apiVersion", "string"),
        ("spec.template.spec.any", "untyped, map, atomic list"),
    ],
)
def test_places_in_a_custom_resource(path: str, found: str) -> None:
    """A CRD's schema says how its fields merge; metadata is that of every object."""
    assert _described(schema.of_custom_resource(_WIDGET, _CRD).place(path.split("."))) == found


@pytest.mark.parametrize(("release", "known"), [(RELEASES[0], False), (RELEASES[1], True)], ids=str)
def test_releases_have_their_own_kinds_and_fields(release: Release, known: bool) -> None:  # noqa: FBT001 - a case
    """A field that came with a release is unknown to the one before it."""
    job = schema.built_in(GroupVersionKind("batch", "v1", "Job"), release)
    group = schema.built_in(GroupVersionKind("scheduling.k8s.io", "v1beta1", "PodGroup"), release)

    assert job is not None
    assert (job.release, job.place(["spec", "scheduling"]) is not None, group is not None) == (release, known, known)


def test_versions_of_built_in_groups() -> None:
    """The versions that reading a policy goes by, without the table, are those that are served by default."""
    known = {(group, version) for group, versions in SERVED_VERSIONS.items() for version in versions}

    assert known == {(served.kind.group, served.kind.version) for served in served_resources()}


def test_resources_know_their_kinds_and_scopes() -> None:
    """A resource has the kind of its own group and version, a subresource perhaps one of another."""
    named = {(each.group, each.name): each for each in served_resources()}

    scale = GroupVersionKind("autoscaling", "v1", "Scale")
    assert named["apps", "deployments/scale"] == ApiResource("apps", "v1", "deployments/scale", scale, "Namespaced")
    assert named["", "nodes"] == ApiResource("", "v1", "nodes", GroupVersionKind("", "v1", "Node"), "Cluster")


def test_compact_table_is_made_from_discovery() -> None:
    """A group and version has its resources by scope; only a kind from elsewhere is written with group and version."""
    found = {
        "groupVersion": "apps/v1",
        "resources": [
            {"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": ["get"]},
            {"name": "deployments/scale", "kind": "Scale", "group": "autoscaling", "version": "v1", "namespaced": True},
            {"name": "things", "kind": "Thing", "namespaced": False, "shortNames": ["th"]},
        ],
    }

    assert compact_resources([found]) == {
        "apps/v1": {
            "Cluster": {"things": "Thing"},
            "Namespaced": {"deployments": "Deployment", "deployments/scale": "autoscaling/v1/Scale"},
        }
    }
