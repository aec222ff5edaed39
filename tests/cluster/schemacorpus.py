"""`python -m cluster.schemacorpus` records what a real API server says of the broken manifests.

They are created as a server-side dry run with strict validation, as by `kubectl create --dry-run=server`, but as YAML:
kubectl would leave out duplicate keys.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import yaml
from support.brokenmanifests import ANSWERS, cases, definitions

from cluster import crds, toolchain
from cluster.apicalls import Caller
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE, release

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNKNOWN = re.compile(r'(?:unknown|duplicate) field "([^"]+)"')
_TWICE = re.compile(r'key "([^"]+)" already set in map')
_TYPE = re.compile(r"Go struct field \w+\.([\w.]+) of type")
Record = dict[str, Any]


def ask(caller: Caller, text: str) -> Record:
    """Return the verdict on a manifest, the fields that are named, and the text."""
    head = _head(text)
    where = resource_path(caller, head)
    if where is None:
        missing = f'no matches for kind "{head["kind"]}" in version "{head["apiVersion"]}"'
        return {"verdict": "refused", "fields": [], "says": missing}
    path = f"{where}?dryRun=All&fieldValidation=Strict"
    response, content = caller.exchange("POST", path, text.encode(), "application/yaml")
    if response.status == http.client.CREATED:
        return {"verdict": "accepted"}
    said = json.loads(content)
    return {"verdict": "refused", "fields": fields(said), "says": said["message"]}


def fields(status: Mapping[str, Any]) -> list[str]:
    """Return the fields that a Status names, as far as its form tells."""
    causes = (status.get("details") or {}).get("causes") or ()
    named = [str(cause["field"]) for cause in causes if cause.get("field") not in {None, "", "<nil>"}]
    message = str(status["message"])
    return sorted({*named, *_UNKNOWN.findall(message), *_TWICE.findall(message), *_TYPE.findall(message)})


def _head(text: str) -> Record:
    """The kind of a manifest, and its Namespace. Of a duplicate key the last one counts."""
    head: Record = yaml.load(text, yaml.CSafeLoader)
    return head


def resource_path(caller: Caller, head: Record) -> str | None:
    """The path at which an object is created; None if the API server does not have its kind."""
    root = f"/apis/{head['apiVersion']}" if "/" in head["apiVersion"] else f"/api/{head['apiVersion']}"
    answer = caller.send("GET", root)
    for resource in answer.body.get("resources", ()):
        if resource["kind"] == head["kind"] and "/" not in resource["name"]:
            inside = f"/namespaces/{_namespace(head)}" if resource["namespaced"] else ""
            return f"{root}{inside}/{resource['name']}"
    return None


def _namespace(head: Record) -> str:
    metadata = head.get("metadata")
    return str(metadata.get("namespace", "default")) if isinstance(metadata, dict) else "default"


def record(caller: Caller) -> dict[str, Record]:
    """Return the answers to all manifests."""
    return {case.name: ask(caller, case.text) for case in cases()}


def main() -> int:
    """Write the answers of the release that runs; say how many there are."""
    with ControlPlane(toolchain.ensure(CONTROL_PLANE)) as control_plane, Caller(control_plane) as caller:
        crds.install(control_plane, *definitions())
        write(record(caller))
    return 0


def write(answers: Mapping[str, Record]) -> None:
    """Put the answers of the release that runs into the file, beside those of the others."""
    known = yaml.safe_load(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.exists() else {}
    known[release()] = dict(answers)
    text = yaml.safe_dump(known, sort_keys=False, allow_unicode=True, width=120)
    ANSWERS.write_text(text, encoding="utf-8")
    print(f"{ANSWERS.name}: {len(answers)} answers of {release()}")


if __name__ == "__main__":
    sys.exit(main())
