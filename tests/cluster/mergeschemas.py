"""`python -m cluster.mergeschemas` records what a real API server serves in policies/.../{schemas,resources}.json."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster import toolchain
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE
from policies.admissionpolicy import resource as resources
from policies.admissionpolicy import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TABLE = Path(schema.__file__).with_name("schemas.json")
_VERSION = re.compile(r"api/[^/]+|apis/[^/]+/[^/]+")
_KEPT = (
    "type",
    "format",
    "required",
    "default",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-preserve-unknown-fields",
)
RESOURCES = Path(resources.__file__).with_name("resources.json")


def documents(control_plane: ControlPlane) -> list[Mapping[str, Any]]:
    """Return the schemas of each group and version that the API server itself serves."""
    found = (_get(control_plane, entry["serverRelativeURL"]) for _, entry in _served(control_plane))
    return [document.get("components", {}).get("schemas", {}) for document in found]


def resource_table(control_plane: ControlPlane) -> str:
    """Return the table of this API server's resources, as the file has it: a group and version a line."""
    lists = (_get(control_plane, f"/{path}") for path, _ in _served(control_plane) if _VERSION.fullmatch(path))
    lines = [f"{json.dumps(name)}: {json.dumps(table)}" for name, table in compact_resources(lists).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def compact_schemas(documents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The table of the built-in kinds, as schemas.json has it, from the `components.schemas` of OpenAPI v3 documents.

    Only what a merge, a check of fields and the types of expressions ask for is kept. Lists of objects and the options
    of a delete, which every group has, are no kinds that a policy changes.
    """
    kinds: dict[str, str] = {}
    types: dict[str, Any] = {}
    for document in documents:
        for name, definition in document.items():
            types[name] = _reduced(definition)
            for kind in definition.get("x-kubernetes-group-version-kind", ()):
                if not kind["kind"].endswith("List") and kind["kind"] not in {"DeleteOptions", "WatchEvent"}:
                    kinds[f"{kind['group']}/{kind['version']}/{kind['kind']}"] = name
    used = _referenced(types, {*kinds.values(), schema.OBJECT_META})
    return {"kinds": dict(sorted(kinds.items())), "types": {name: types[name] for name in sorted(used)}}


def compact_resources(lists: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The table, as resources.json has it, from APIResourceLists: kinds by apiVersion, scope and resource."""
    table: dict[str, Any] = {}
    for listed in lists:
        scopes: dict[resources.Scope, dict[str, str]] = {"Cluster": {}, "Namespaced": {}}
        for resource in listed["resources"]:
            kind = resource["kind"]
            if "version" in resource:
                kind = f"{resource.get('group', '')}/{resource['version']}/{kind}"
            scopes["Namespaced" if resource["namespaced"] else "Cluster"][resource["name"]] = kind
        table[listed["groupVersion"]] = scopes
    return table


def _served(control_plane: ControlPlane) -> list[tuple[str, Any]]:
    """The paths of OpenAPI documents but for those of custom resources."""
    index = _get(control_plane, "/openapi/v3")["paths"]
    custom = {item["spec"]["group"] for item in control_plane.get("customresourcedefinitions")["items"]}
    return [
        (path, entry)
        for path, entry in sorted(index.items())
        if path.startswith(("api/", "apis/")) and not custom & set(path.split("/"))
    ]


def _get(control_plane: ControlPlane, path: str) -> Any:
    return control_plane.objects.read(path)


def table(control_plane: ControlPlane) -> str:
    """Return the table of this API server's kinds, as the file has it: a definition a line."""
    whole = compact_schemas(documents(control_plane))
    lines = [
        f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in whole["types"].items()
    ]
    kinds = ",\n".join(f"{json.dumps(kind)}: {json.dumps(name)}" for kind, name in whole["kinds"].items())
    types = ",\n".join(lines)
    return f'{{"kinds": {{\n{kinds}\n}}, "types": {{\n{types}\n}}}}\n'


def _reduced(definition: Mapping[str, Any]) -> dict[str, Any]:
    small: dict[str, Any] = {key: definition[key] for key in _KEPT if key in definition}
    if "x-kubernetes-list-type" in small:  # the older form of the same is not asked for then
        small = {key: value for key, value in small.items() if "patch" not in key}
    references = [definition, *definition.get("allOf", ())]
    for reference in references:
        if "$ref" in reference:
            small["$ref"] = reference["$ref"].rpartition("/")[2]
    if "properties" in definition:
        small["properties"] = {name: _reduced(field) for name, field in sorted(definition["properties"].items())}
    for key in ("items", "additionalProperties"):
        if key in definition:
            small[key] = _reduced(definition[key]) if isinstance(definition[key], dict) else definition[key]
    return small


def _referenced(types: Mapping[str, Mapping[str, Any]], names: set[str]) -> set[str]:
    referenced: set[str] = set()
    waiting: list[Any] = [{"$ref": name} for name in names]
    while waiting:
        definition = waiting.pop()
        if not isinstance(definition, dict):
            continue
        name = definition.get("$ref")
        if isinstance(name, str) and name not in referenced:
            referenced.add(name)
            waiting.append(types[name])
        waiting += definition.get("properties", {}).values()
        waiting += (definition.get("items"), definition.get("additionalProperties"))
    return referenced


def main() -> int:
    """Write the files; say how large they are."""
    with ControlPlane(toolchain.ensure(CONTROL_PLANE)) as control_plane:
        texts = {TABLE: table(control_plane), RESOURCES: resource_table(control_plane)}
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
