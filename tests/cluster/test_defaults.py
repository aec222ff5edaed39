"""An object of each built-in kind is, as `check` and lint read it, what a real API server makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cluster.apicalls import Caller
from cluster.authority import signing_request
from cluster.manifests import kind_of
from cluster.programs import release
from policies.admissionpolicy.builtin import table
from policies.admissionpolicy.builtin.defaults import received
from policies.admissionpolicy.schema import built_in
from policies.cel import types
from policies.cel.types import Kind, Type
from policies.kubernetes.release import named
from policies.lint.absence import may_lack
from policies.lint.typecheck import DeclaredType, catalog, declare
from policies.objects.fieldpath import locate, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

KINDS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("kinds.yaml").read_text(encoding="utf-8"))
CASES = [(case[size], case.get("apart", ())) for case in KINDS for size in ("minimal", "rich")]
# What an object gets where it is stored.
_SYSTEM = ("uid", "creationTimestamp", "generation", "managedFields", "resourceVersion", "namespace")
_NOT_CREATED = frozenset(
    {"APIGroup", "Binding", "ComponentStatus", "Eviction", "Pod", "Scale", "TokenRequest"}  # Pods: test_pod_defaults.py
)


def path(manifest: Manifest) -> str:
    """Return the path for a dry run that creates an object."""
    kind = kind_of(manifest)
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
        schema = built_in(kind_of(manifest), named(release()))
        assert schema is not None, manifest
        ours = compared(received(manifest, schema), apart)
        theirs = compared(control_plane.objects.post(path(manifest), manifest), apart)
        if ours != theirs:
            differences.append((manifest["kind"], manifest["metadata"]["name"], ours, theirs))

    assert differences == []


def test_every_kind_iscompared() -> None:
    """No kind that can be created by default is left out."""
    compared = {kind_of(manifest) for manifest, _ in CASES}
    served = {
        known.kind
        for known in table.served_resources()
        if "/" not in known.name and not known.kind.kind.endswith("Review") and known.kind.kind not in _NOT_CREATED
    }

    assert served - compared == set()


Json = dict[str, Any]
_POD: Json = yaml.safe_load("""
containers:
- name: c
  image: example.org/c
  ports: [{containerPort: 80}]
  livenessProbe: {httpGet: {port: 80}}
  env: [{name: n, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
volumes:
- {name: a, secret: {secretName: s}}
- {name: b, configMap: {name: c}}
- {name: c, hostPath: {path: /x}}
- {name: d, projected: {sources: [{serviceAccountToken: {path: t}}]}}
- {name: e, emptyDir: {}}
""")
# A Namespace gets a label where it is stored. Pods of templates get no token, and so no more volumes.
OBJECTS: list[tuple[Json, list[str]]] = [
    *((case["minimal"], case.get("apart", [])) for case in KINDS if case["minimal"]["kind"] != "Namespace"),
    ({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"}, "template": {"spec": _POD}}, []),
]


def test_what_is_filled_in_is_there(caller: Caller) -> None:
    """Of an object with as little as possible, no field that the API server added may be absent for lint."""
    lacking = []
    for given, apart in OBJECTS:
        written = json.loads(json.dumps(given).replace("REQUEST", signing_request("x")))
        found = compared(caller.make(path(written), written), [*apart, "status"])
        schema = catalog(()).open_api(kind_of(written))
        assert schema is not None
        declared = declare(written["kind"], schema, types.DYN)
        assert declared is not None
        places = _added(found, written, declared.type, declared, "object")
        lacking += [f"{written['kind']} {written['metadata']['name']}: {place}" for place in places]

    assert lacking == []


def _added(found: Any, written: Any, type_: Type, declared: DeclaredType, place: str) -> Iterator[str]:
    """The fields that were not written, are there, and may be absent as far as lint knows."""
    if type_.kind is Kind.LIST and isinstance(found, list):
        for index, item in enumerate(found):
            if isinstance(written, list) and index < len(written):
                yield from _added(item, written[index], type_.parameters[0], declared, f"{place}[{index}]")
    if type_.kind is not Kind.STRUCT or not isinstance(found, dict):
        return
    given = written if isinstance(written, dict) else {}
    for name, value in found.items():
        if name not in given and value is not None and may_lack(type_.name, name, place, declared):
            yield f"{place}.{name}"
        elif (below := declared.structs[type_.name].get(name)) is not None:
            yield from _added(value, given.get(name), below, declared, f"{place}.{name}")
