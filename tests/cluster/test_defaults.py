"""An object of each built-in kind is, as `check` reads it, what a real API server makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cluster.authority import signing_request
from cluster.programs import release
from policies.admissionpolicy.builtin import table
from policies.admissionpolicy.builtin.defaults import received
from policies.admissionpolicy.schema import built_in
from policies.engine.request import GroupVersionKind
from policies.kubernetes.release import named
from policies.objects.fieldpath import locate, parse

if TYPE_CHECKING:
    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

KINDS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("kinds.yaml").read_text(encoding="utf-8"))
CASES = [(case[size], case.get("apart", ())) for case in KINDS for size in ("minimal", "rich")]
# What an object gets where it is stored.
_SYSTEM = ("uid", "creationTimestamp", "generation", "managedFields", "resourceVersion", "namespace")
_NOT_CREATED = frozenset(
    {"APIGroup", "Binding", "ComponentStatus", "Eviction", "Pod", "Scale", "TokenRequest"}  # Pods: test_pod_defaults.py
)


def _kind(manifest: Manifest) -> GroupVersionKind:
    group, _, version = manifest["apiVersion"].rpartition("/")
    return GroupVersionKind(group, version, manifest["kind"])


def path(manifest: Manifest) -> str:
    """Return the path for a dry run that creates an object."""
    kind = _kind(manifest)
    found = next(known for known in table.served_resources() if known.kind == kind and "/" not in known.name)
    prefix = f"apis/{kind.group}" if kind.group else "api"
    inside = "namespaces/default/" if found.scope == "Namespaced" else ""
    return f"/{prefix}/{kind.version}/{inside}{found.name}?dryRun=All&fieldValidation=Strict"


def compared(manifest: Manifest, apart: list[str]) -> Manifest:
    """Return the object without what is set where it is stored, and without the fields of patterns."""
    meta = {key: value for key, value in manifest["metadata"].items() if key not in _SYSTEM}
    whole: Manifest = {**manifest, "metadata": meta}
    for pattern in map(parse, apart):
        for place, _ in list(locate(whole, pattern)):
            holder: Any = whole
            for step in place[:-1]:
                holder = holder[step]
            del holder[place[-1]]
    return whole


def test_objects_are_those_of_the_api_server(control_plane: ControlPlane) -> None:
    """Every object, minimal or rich, comes out of a dry run as a whole as it is read here."""
    differences = []
    for manifest, apart in CASES:
        if manifest.get("spec", {}).get("request") == "REQUEST":
            manifest["spec"]["request"] = signing_request("x")
        schema = built_in(_kind(manifest), named(release()))
        assert schema is not None, manifest
        ours = compared(received(manifest, schema), apart)
        theirs = compared(control_plane.objects.post(path(manifest), manifest), apart)
        if ours != theirs:
            differences.append((manifest["kind"], manifest["metadata"]["name"], ours, theirs))

    assert differences == []


def test_every_kind_iscompared() -> None:
    """No kind that can be created by default is left out."""
    compared = {_kind(manifest) for manifest, _ in CASES}
    served = {
        known.kind
        for known in table.served_resources()
        if "/" not in known.name and not known.kind.kind.endswith("Review") and known.kind.kind not in _NOT_CREATED
    }

    assert served - compared == set()
