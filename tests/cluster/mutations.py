"""The cases that compare our mutations with the API server's, and what both make of them."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cluster.apicalls import Caller
from cluster.manifests import Manifest, kind_of
from cluster.polling import NotYet
from cluster.programs import judged_as
from policies.admissionpolicy import schema
from policies.admissionpolicy.mutation import dispatcher
from policies.cel import types
from policies.cel.environment import Dialect
from policies.cel.kubernetes import admission
from policies.cel.patchtypes import JSON_PATCH, OBJECT
from policies.cel.program import compile_expression

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.controlplane import ControlPlane

GROUP = "merge.example.test"
SAME, VARIES, LENIENT = "same", "varies", "lenient"
"""What is compared: all; of an error only that there is one, for its text changes; all, but ours does what they refuse.

The last is for what a later release takes.
"""


@dataclass(frozen=True)
class Mutation:
    """A case: what is created, and the expressions of the policy that changes it, in their order."""

    name: str
    object: str
    expressions: tuple[str, ...]
    compared: str = SAME


def _case(name: str, object_name: str, written: Any) -> Mutation:
    if isinstance(written, dict):
        return Mutation(name, object_name, tuple(written["expressions"]), written["compared"])
    return Mutation(name, object_name, (written,) if isinstance(written, str) else tuple(written))


_FILE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
CASES = tuple(_case(name, obj, written) for obj, cases in _FILE["cases"].items() for name, written in cases.items())
OBJECTS: Mapping[str, tuple[str, Manifest]] = {
    name: (written["path"], written["manifest"]) for name, written in _FILE["objects"].items()
}
CRD: Manifest = _FILE["crd"]
SCHEMA: Manifest = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

CASE_LABEL = "merge.example.test/case"
_CANARY = "canary"
_API = "/apis/admissionregistration.k8s.io/v1"
_OWN = ("uid", "creationTimestamp", "managedFields", "resourceVersion", "selfLink", "generation")


@dataclass(frozen=True)
class Answer:
    """What the API server made of an object: the object as it would be stored, or an error."""

    code: int
    object: Manifest | None = None
    message: str = ""


@dataclass(frozen=True)
class Recorded:
    """A case: the object that the policy is given, and what comes of it there."""

    given: Manifest
    there: Answer


def _post(caller: Caller, path: str, manifest: Manifest) -> Answer:
    """Create an object and return the answer; the status is 0 where the connection ends without one."""
    try:
        answer = caller.send("POST", path, manifest)
    except http.client.RemoteDisconnected as error:
        caller.close()
        return Answer(0, message=str(error))
    if answer.code < http.HTTPStatus.BAD_REQUEST:
        return Answer(answer.code, answer.body)
    # protobuf puts one of two spaces into its messages, so that nobody compares them
    return Answer(answer.code, message=answer.body["message"].replace("\N{NO-BREAK SPACE}", " "))


def record(control_plane: ControlPlane, namespace: str) -> Mapping[str, Recorded]:
    """Run all cases against the API server, after their policies are in force."""
    control_plane.kubectl("create", "-f", "-", input=yaml.safe_dump(CRD), user="admin", check=True)
    with Caller(control_plane) as client:
        control_plane.wait_for("Widgets to be served", lambda: _served(client, namespace))
        for case in CASES:
            _write(client, case.name, case.object, case.expressions)
        for name in OBJECTS:
            expression = f'[JSONPatch{{op: "add", path: "/metadata/labels/{_CANARY}", value: "sings"}}]'
            _write(client, f"{_CANARY}-{name}", name, (expression,))
        control_plane.wait_for("the policies to be in force", lambda: _in_force(client, namespace))
        given = {name: _object_of(create(client, namespace, name, "none")) for name in OBJECTS}
        return {
            case.name: Recorded(
                _labelled(given[case.object], case.name), create(client, namespace, case.object, case.name)
            )
            for case in CASES
        }


def create(client: Caller, namespace: str, name: str, case: str, manifest: Manifest | None = None) -> Answer:
    """Create an object, or another one in its place, by a dry run under the policy of a case."""
    path, wanted = OBJECTS[name]
    wanted = _labelled(wanted if manifest is None else manifest, case)
    answer = _post(client, f"{path.format(namespace=namespace)}?dryRun=All", wanted)
    return answer if answer.object is None else Answer(answer.code, _plain(answer.object))


def remove(control_plane: ControlPlane) -> None:
    """Delete the policies of all cases and the CRD."""
    with Caller(control_plane) as client:
        for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
            deleted = client.send("DELETE", f"{_API}/{kind}?labelSelector={CASE_LABEL}")
            assert deleted.code == http.HTTPStatus.OK, deleted
    control_plane.kubectl("delete", "crd", CRD["metadata"]["name"], "--wait=false", user="admin", check=True)


def ours(case: Mutation, given: Manifest) -> Manifest:
    """The object after the mutations of a case, by our engine. Raises MutationError."""
    kind = kind_of(given)
    found = schema.of_custom_resource(kind, SCHEMA) if kind.group == GROUP else schema.built_in(kind, judged_as())
    assert found is not None
    obj = given
    for expression in case.expressions:
        value = _evaluated(expression, obj)
        if isinstance(value, list):
            obj = dispatcher.apply_json_patch(obj, value, found, ()) or obj
        else:
            obj = dispatcher.apply_configuration(obj, value, found, ())
    return obj


def _evaluated(expression: str, obj: Manifest) -> Any:
    wanted = types.list_of(JSON_PATCH) if expression.startswith("[") else OBJECT
    program = compile_expression(
        expression, admission(patch_types=True, dialect=Dialect(judged_as(), stored=True)), wanted
    )
    evaluation = program.evaluate({"object": obj})
    assert evaluation.error is None, f"{expression}: {evaluation.error}"
    return evaluation.value


def _write(client: Caller, name: str, object_name: str, expressions: tuple[str, ...]) -> None:
    path, manifest = OBJECTS[object_name]
    kind = kind_of(manifest)
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": [kind.version],
        "operations": ["CREATE"],
        "resources": [path.rpartition("/")[2]],
    }
    spec = {
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [rule],
            "objectSelector": {"matchLabels": {CASE_LABEL: name}},
        },
        "mutations": [
            {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
            if expression.startswith("[")
            else {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
            for expression in expressions
        ],
    }
    meta = {"name": name, "labels": {CASE_LABEL: name}}
    version = "admissionregistration.k8s.io/v1"
    policy = {"apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": meta, "spec": spec}
    binding = {
        "apiVersion": version,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": meta,
        "spec": {"policyName": name},
    }
    client.make(f"{_API}/mutatingadmissionpolicies", policy)
    client.make(f"{_API}/mutatingadmissionpolicybindings", binding)


def _served(client: Caller, namespace: str) -> bool:
    answer = create(client, namespace, "widget", "none")
    if answer.object is None:
        raise NotYet(answer.message)
    return True


def _in_force(client: Caller, namespace: str) -> bool:
    """Whether the policies that were written last work, for each kind, and so all that were written before."""
    for name in OBJECTS:
        answer = create(client, namespace, name, f"{_CANARY}-{name}")
        if _CANARY not in (answer.object or {}).get("metadata", {}).get("labels", {}):
            raise NotYet(f"{name}: {answer}")
    return True


def _object_of(answer: Answer) -> Manifest:
    assert answer.object is not None, answer.message
    return answer.object


def _labelled(manifest: Manifest, case: str) -> Manifest:
    meta = manifest["metadata"]
    return {**manifest, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), CASE_LABEL: case}}}


def _plain(obj: Manifest) -> Manifest:
    """An object without what the API server gives each one anew."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _OWN}
    return {key: value for key, value in {**obj, "metadata": meta}.items() if key != "status"}  # set before admission


def relabelled(answer: Answer) -> Answer:
    """The answer as if no case had been named."""
    return answer if answer.object is None else Answer(answer.code, _labelled(answer.object, "none"), answer.message)
