"""`python -m cluster.mergeschemas` asks a real API server for its OpenAPI v3 and writes policies/.../schemas.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster import toolchain
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE
from policies.admissionpolicy import schema

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLE = Path(schema.__file__).with_name("schemas.json")


def documents(control_plane: ControlPlane) -> list[Mapping[str, Any]]:
    """Return the schemas of each group and version that the API server itself serves."""
    index = json.loads(control_plane.kubectl("get", "--raw", "/openapi/v3", user="admin", check=True).stdout)["paths"]
    custom = {item["spec"]["group"] for item in control_plane.get("customresourcedefinitions")["items"]}
    found = []
    for path, entry in sorted(index.items()):
        if path.startswith(("api/", "apis/")) and not custom & set(path.split("/")):
            text = control_plane.kubectl("get", "--raw", entry["serverRelativeURL"], user="admin", check=True).stdout
            found.append(json.loads(text).get("components", {}).get("schemas", {}))
    return found


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
    """Write the file; say how large it is."""
    with ControlPlane(toolchain.ensure(CONTROL_PLANE)) as control_plane:
        text = table(control_plane)
    TABLE.write_text(text, encoding="utf-8")
    print(f"{TABLE.name}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
