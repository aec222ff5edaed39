"""`python -m cluster.servedresources` records what a real API server serves in policies/.../resources.json."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster import toolchain
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE
from policies.admissionpolicy.builtin import table as resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_VERSION = re.compile(r"api/[^/]+|apis/[^/]+/[^/]+")
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


def main() -> int:
    """Write the file; say how large it is."""
    with ControlPlane(toolchain.ensure(CONTROL_PLANE)) as control_plane:
        text = resource_table(control_plane)
    RESOURCES.write_text(text, encoding="utf-8")
    print(f"{RESOURCES.name}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
