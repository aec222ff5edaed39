"""`python -m cluster.mergeschemas` asks a real API server what it serves: policies/.../{schemas,resources}.json."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster import toolchain
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE
from policies.admissionpolicy import resources, schema

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLE = Path(schema.__file__).with_name("schemas.json")
_VERSION = re.compile(r"api/[^/]+|apis/[^/]+/[^/]+")
RESOURCES = Path(resources.__file__).with_name("resources.json")


def documents(control_plane: ControlPlane) -> list[Mapping[str, Any]]:
    """Return the schemas of each group and version that the API server itself serves."""
    found = (_get(control_plane, entry["serverRelativeURL"]) for _, entry in _served(control_plane))
    return [document.get("components", {}).get("schemas", {}) for document in found]


def resource_table(control_plane: ControlPlane) -> str:
    """Return the table of this API server's resources, as the file has it: a group and version a line."""
    lists = (_get(control_plane, f"/{path}") for path, _ in _served(control_plane) if _VERSION.fullmatch(path))
    lines = [f"{json.dumps(name)}: {json.dumps(table)}" for name, table in resources.compact(lists).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


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
    whole = schema.compact(documents(control_plane))
    lines = [
        f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in whole["types"].items()
    ]
    kinds = ",\n".join(f"{json.dumps(kind)}: {json.dumps(name)}" for kind, name in whole["kinds"].items())
    types = ",\n".join(lines)
    return f'{{"kinds": {{\n{kinds}\n}}, "types": {{\n{types}\n}}}}\n'


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
