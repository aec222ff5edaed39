"""`python -m cluster.repositories FOLDER …` compares `check` with a real API server on what other repositories hold.

Each object is created as a server-side dry run with strict validation, in the Namespace `default`, by an API server
that has the CustomResourceDefinitions of the folder. What the API server says of the cluster, such as a missing
account, does not count. Nothing of a repository is kept.
"""

from __future__ import annotations

import copy
import http.client
import sys
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from cluster import toolchain
from cluster.apicalls import Caller
from cluster.controlplane import ControlPlane
from cluster.polling import wait_for
from cluster.programs import CONTROL_PLANE, release
from cluster.schemacorpus import resource_path
from policies.kubernetes.release import named
from policies.schema.schemas import Schemas
from webhook.files import manifest
from webhook.files.walk import walk
from webhook.files.yamlfile import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.manifests import Manifest

_CRD = "CustomResourceDefinition"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_OF_THE_CLUSTER = (http.client.FORBIDDEN, http.client.CONFLICT, http.client.INTERNAL_SERVER_ERROR)


def objects(folder: str) -> Iterator[tuple[str, Manifest]]:
    """Return the objects in a folder, each with its place; what cannot be read is left out, as templates of Helm."""
    for file in walk([folder]).files:
        try:
            yield from ((one.where, one.object) for one in manifest.read([file]))
        except (FileError, OSError):
            continue


def _installable(definition: Manifest) -> Manifest:
    """A definition without its conversion, for which nobody answers here."""
    spec = {key: value for key, value in definition["spec"].items() if key != "conversion"}
    return {**definition, "metadata": {"name": definition["metadata"]["name"]}, "spec": spec}


def _asked(caller: Caller, obj: Manifest) -> tuple[int, str]:
    """The API server's code and message; no code if it does not serve the kind."""
    where = resource_path(caller, {**obj, "metadata": {"namespace": "default"}})
    if where is None:
        return 0, "no matches for kind"
    sent = copy.deepcopy(obj)
    if "/namespaces/" in where:
        sent.setdefault("metadata", {})["namespace"] = "default"
    answer = caller.send("POST", f"{where}?dryRun=All&fieldValidation=Strict", sent)
    return answer.code, str(answer.body.get("message", ""))


def _is_served(caller: Caller, path: str) -> bool:
    return caller.send("GET", path).code == http.client.OK


def compare(control_plane: ControlPlane, folder: str) -> Counter[str]:
    """Print each disagreement about the objects of a folder. How often there was which outcome."""
    counts: Counter[str] = Counter()
    found = list(objects(folder))
    definitions = {
        one["metadata"]["name"]: _installable(one) for _, one in found if one.get("kind") == _CRD and "spec" in one
    }
    with Caller(control_plane) as caller:
        taken = [one for one in definitions.values() if caller.send("POST", _CRDS, one).code == http.client.CREATED]
        schemas = Schemas(named(release()), taken)
        for definition in taken:
            spec = definition["spec"]
            version = next(one["name"] for one in spec["versions"] if one.get("served"))
            path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
            wait_for(path, partial(_is_served, caller, path))
        for where, obj in found:
            counts[_outcome(caller, where, obj, schemas)] += 1
        for definition in taken:
            caller.send("DELETE", f"{_CRDS}/{definition['metadata']['name']}", {})
    return counts


def _outcome(caller: Caller, where: str, obj: Manifest, schemas: Schemas) -> str:
    ours = [flaw.text for flaw in schemas.flaws(obj) if flaw.level == "error"]
    code, text = _asked(caller, obj)
    if code in _OF_THE_CLUSTER:
        return "left out, as it depends on the cluster"
    accepts = code == http.client.CREATED
    if code == 0 and not ours:
        return "left out, as the kind is not defined"
    if accepts == (not ours):
        return "agree"
    kind: Any = obj.get("kind")
    print(f"{where}: {kind}: the API server: {code} {text[:400]}\n    check: {'; '.join(ours)[:400] or 'accepted'}")
    return "refused by check alone" if ours else "refused by the API server alone"


def main() -> int:
    """Compare all folders on one control plane; whether they agree is the exit code."""
    total: Counter[str] = Counter()
    with ControlPlane(toolchain.ensure(CONTROL_PLANE)) as control_plane:
        for folder in sys.argv[1:]:
            counts = compare(control_plane, folder)
            print(f"{folder}: {dict(counts)}", flush=True)
            total += counts
    print(f"in all: {dict(total)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
