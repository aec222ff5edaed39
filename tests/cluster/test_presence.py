"""Lint never reports a field as absent that a real API server fills in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from cluster.apicalls import Caller
from cluster.authority import signing_request
from cluster.test_defaults import KINDS, compared, path
from policies.cel import types
from policies.cel.types import Kind, Type
from policies.engine.request import GroupVersionKind
from policies.lint.absence import may_lack
from policies.lint.typecheck import DeclaredType, catalog, declare

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        group, _, version = written["apiVersion"].rpartition("/")
        schema = catalog(()).open_api(GroupVersionKind(group, version, written["kind"]))
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
