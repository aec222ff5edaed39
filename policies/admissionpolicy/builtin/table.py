"""The types of the built-in kinds, by release: OpenAPI definitions by name, and what Go's encoding omits.

`types-*.json` beside this module has the newest release in full and, of each older one, what differs from the next: its
own definition, or null. tests/cluster/builtintypes.py writes the files from the modules of Kubernetes.

A definition is an OpenAPI schema, reduced to what is asked of it: types, formats, required fields, enumerations,
defaults, references by name (`$ref`), list and map types. A field of a Go type may have `omit`, which says when Go
leaves it out of an object:

null           when it has no value (a pointer with omitempty)
empty          when it is empty, 0, false or "" (omitempty)
zero           when it has its zero value (omitzero)
written-null   never; without a value it is null
(none)         never; without a value it has the zero value of its type, such as 0, "" or {}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, json

from policies.engine.request import GroupVersionKind
from policies.kubernetes.release import FINAL, NEWEST, Release

OpenApi = Mapping[str, Any]

FOLDER = Path(__file__).parent
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"


class TypeTable(Struct, frozen=True):
    """kinds: the names of definitions by `group/version/kind`. types: the definitions by name."""

    kinds: Mapping[str, str]
    types: Mapping[str, OpenApi]


@cache
def types_of(release: Release = NEWEST) -> TypeTable:
    """The table of a release, which for a beta is that of the newest final one. It is read on first use."""
    if not release.is_final:
        return types_of(NEWEST)
    text = resources.files("policies.admissionpolicy.builtin").joinpath(f"types-{release.name}.json").read_bytes()
    if release == NEWEST:
        return json.decode(text, type=TypeTable)
    newer = types_of(FINAL[FINAL.index(release) + 1])
    older = json.decode(text, type=dict[str, dict[str, Any]])
    both = {field: {**getattr(newer, field), **older[field]} for field in ("kinds", "types")}
    return TypeTable(**{field: {k: v for k, v in own.items() if v is not None} for field, own in both.items()})


Scope = Literal["Namespaced", "Cluster"]


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A resource with its name in rules: `deployments`, or `deployments/scale` with the kind `autoscaling/v1 Scale`."""

    group: str
    version: str
    name: str
    kind: GroupVersionKind
    scope: Scope


@cache
def served_resources() -> tuple[ApiResource, ...]:
    """All built-in resources, sorted by group, version and name."""
    text = resources.files("policies.admissionpolicy.builtin").joinpath("resources.json").read_bytes()
    served = []
    for api_version, scopes in json.decode(text).items():
        group, _, version = api_version.rpartition("/")
        for scope, name, kind in ((scope, *item) for scope, names in scopes.items() for item in names.items()):
            *elsewhere, plain = kind.rsplit("/", 2)
            of_group, of_version = elsewhere or (group, version)
            served.append(ApiResource(group, version, name, GroupVersionKind(of_group, of_version, plain), scope))
    return tuple(served)
