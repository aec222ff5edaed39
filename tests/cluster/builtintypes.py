"""`python -m cluster.builtintypes` writes the tables of the built-in kinds, policies/.../builtin/types-*.json.

They come from the modules of Kubernetes that are pinned here: the OpenAPI definitions and the Go types themselves. The
newest release is written in full, an older one as what differs from the next.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster import golang, toolchain
from cluster.programs import SOURCES, module_of
from policies.admissionpolicy.builtin import table
from policies.kubernetes.release import FINAL, Release

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_PROGRAM = SOURCES / "gotypes.go"
_KEPT = (
    "type",
    "format",
    "required",
    "default",
    "enum",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-preserve-unknown-fields",
)
Types = dict[str, Any]


def whole(release: Release, go: golang.Go) -> dict[str, Types]:
    """Return the kinds and the types of a release, from its module."""
    folder = SOURCES / module_of(release.name)
    printed = json.loads(_run(go, folder, "run", str(_PROGRAM)))
    module = Path(_run(go, folder, "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").strip())
    documents = (json.loads(file.read_bytes()) for file in sorted((module / "api/openapi-spec/v3").glob("*.json")))
    schemas = [document.get("components", {}).get("schemas", {}) for document in documents]
    types = {
        name: _encoded(reduced(printed["types"][name]), printed["omit"].get(name, {})) for name in printed["types"]
    }
    return compact(kinds(schemas), types)


def compact(names: Mapping[str, str], types: Types) -> dict[str, Types]:
    """Return the table of these kinds, with the types that they refer to."""
    used = sorted(_referenced(types, {*names.values(), table.OBJECT_META}))
    return {"kinds": dict(sorted(names.items())), "types": {name: types[name] for name in used}}


def kinds(documents: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the names of definitions by kind, from the `components.schemas` of OpenAPI documents.

    Lists of objects and the options of a delete, which every group has, are no kinds that a policy changes.
    """
    return {
        f"{kind['group']}/{kind['version']}/{kind['kind']}": name
        for document in documents
        for name, definition in document.items()
        for kind in definition.get("x-kubernetes-group-version-kind", ())
        if not kind["kind"].endswith("List") and kind["kind"] not in {"DeleteOptions", "WatchEvent"}
    }


def reduced(definition: Mapping[str, Any]) -> Types:
    """Return what a merge, the encoding, a check of fields and the types of expressions ask of a definition."""
    small: Types = {key: definition[key] for key in _KEPT if definition.get(key) is not None}
    if "x-kubernetes-list-type" in small:  # the older form of the same is not asked for then
        small = {key: value for key, value in small.items() if "patch" not in key}
    for reference in (definition, *definition.get("allOf", ())):
        if "$ref" in reference:
            small["$ref"] = reference["$ref"].rpartition("/")[2]
    if "properties" in definition:
        small["properties"] = {name: reduced(field) for name, field in sorted(definition["properties"].items())}
    for key in ("items", "additionalProperties"):
        if key in definition:
            small[key] = _item(definition[key]) if isinstance(definition[key], dict) else definition[key]
    return small


def _item(definition: Mapping[str, Any]) -> Types:
    """The definition of a list's items or a map's values. Only some releases give it the default of every Go value."""
    return {key: value for key, value in reduced(definition).items() if key != "default"}


def differences(older: Mapping[str, Types], newer: Mapping[str, Types]) -> dict[str, Types]:
    """Return what an older table has otherwise than a newer one; null for what it does not have."""
    return {
        part: {
            name: older[part].get(name)
            for name in sorted({*older[part], *newer[part]})
            if older[part].get(name) != newer[part].get(name)
        }
        for part in ("kinds", "types")
    }


def text(tables: Mapping[str, Types]) -> str:
    """Return a table as its file has it: a definition a line."""
    parts = (
        f"{json.dumps(part)}: {{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}" for name, entry in rows.items())
        + "\n}"
        for part, rows in tables.items()
    )
    return "{" + ", ".join(parts) + "}\n"


def _encoded(definition: Types, omissions: Mapping[str, str]) -> Types:
    """A definition with `omit` in each field that Go's encoding does not always write."""
    fields = definition.get("properties", {})
    if omissions and fields.keys() != omissions.keys():
        raise ValueError(f"the OpenAPI fields {sorted(fields)} are not those of the Go type, {sorted(omissions)}")
    for name, omission in omissions.items():
        if omission != "written":
            fields[name]["omit"] = omission
    return definition


def _referenced(types: Types, names: set[str]) -> set[str]:
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


def _run(go: golang.Go, folder: Path, *arguments: str) -> str:
    command = [str(go.command), *arguments]
    done = subprocess.run(command, cwd=folder, env=go.environment, capture_output=True, text=True, check=True)
    return done.stdout


def texts() -> Iterator[tuple[Path, str]]:
    """Return the files and what they should hold."""
    modules = [(SOURCES / module_of(release.name) / "go.mod").read_text(encoding="utf-8") for release in FINAL]
    go = toolchain.go_for(modules, toolchain.cache_directory())
    newer: dict[str, Types] = {}
    for release in reversed(FINAL):
        own = whole(release, go)
        yield table.FOLDER / f"types-{release.name}.json", text(differences(own, newer) if newer else own)
        newer = own


def main() -> int:
    """Write the files; say how large they are."""
    for path, content in texts():
        path.write_text(content, encoding="utf-8")
        print(f"{path.name}: {len(content)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
