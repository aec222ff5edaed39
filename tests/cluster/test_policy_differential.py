"""The same policies on a real API server and here: the same verdict, code, reason, text, causes, warnings and object.

All cases are in force at once; each request matches only the policy of its case. A request whose answer differs from
ours is sent again. If the API server's answers differ from each other, ours has to be one of them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import pytest
import yaml
from support.policies.nativeanswers import FAILURE_ANNOTATION

from cluster import crds, jsonlog, manifests
from cluster.apicalls import Caller
from cluster.policycases import mixed, products, typed, written
from cluster.policycases.case import (
    CONFIG_MAPS,
    DENY,
    GROUP,
    LABEL,
    LIMIT,
    NAMESPACE,
    PRIORITY_CLASSES,
    Ask,
    Case,
    Json,
    mutating,
    object_name,
    object_of,
    validating,
)
from cluster.policycases.ours import Outcome, World, as_library, of_library, of_service, outcome, stable
from cluster.polling import NotYet
from cluster.programs import judged_as
from policies.kubernetes.release import RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, KeysView, Sequence

    from cluster.apicalls import Answer
    from cluster.controlplane import ControlPlane

T = TypeVar("T")

SOURCES = {"products": products.CASES, **written.CASES, "mixed": mixed.CASES, "typed": typed.CASES}
CASES = [case for cases in SOURCES.values() for case in cases]
_TIMES = 10
_WORLD = yaml.safe_load((Path(written.__file__).with_name("world.yaml")).read_text(encoding="utf-8"))
_CRD = manifests.custom_resource(LIMIT.kind, LIMIT.group, LIMIT.version)
# What is wrong with a pattern, an address, a patch or a value of a wrong type is said in words of our own.
_OWN_WORDS = re.compile(
    r"(error parsing regexp: |ParseAddr\(|JSON Patch: |typed object: |unstructured object to |marshal to JSON: |"
    r'Internal error occurred: (?=json: cannot unmarshal |[\w.\[\]]+: ))(?:[^"\\]|\\.)*'
)
_ROLES = ("clusterroles", "clusterrolebindings")
_ANNOTATIONS = ("v-", FAILURE_ANNOTATION)
_COLLECTIONS = [
    f"/apis/{GROUP}/v1/{prefix}admissionpolic{end}"
    for prefix in ("validating", "mutating")
    for end in ("ybindings", "ies")
]


def _asks(cases: Iterable[Case]) -> list[tuple[Case, int]]:
    """All requests of some cases, each as its case and its place there."""
    return [(case, index) for case in cases for index in range(len(case.asks))]


ASKS = _asks(CASES)
KNOWN = _asks(case for case in CASES if case.name in typed.DIFFERENT)


class Client(Caller):
    """A connection of the administrator, who may act as anybody."""

    def ask(self, case: str, ask: Ask, audit_id: str = "") -> Answer:
        """Send the request of a case as its user, without its having any effect; the audit log knows it by an id."""
        path, method = ask.kind.path(NAMESPACE), {"CREATE": "POST", "UPDATE": "PUT", "DELETE": "DELETE"}
        if ask.operation != "CREATE" or ask.subresource:
            path += f"/{object_name(case, ask)}"
        if ask.subresource:
            path += f"/{ask.subresource}"
        query = "?command=ls" if ask.operation == "CONNECT" else "?dryRun=All"
        headers = [(f"Impersonate-Extra-{quote(key, safe='')}", value) for key, value in ask.extra]
        headers += [("Audit-ID", audit_id)] if audit_id else []
        body = None if ask.operation in ("DELETE", "CONNECT") else object_of(case, ask)
        return self.send(
            method.get(ask.operation, "POST"), path + query, body, user=ask.user, groups=ask.groups, headers=headers
        )


@dataclass
class Proof:
    """What both sides know: the objects before any policy, the world around them, and the API server's answers."""

    control_plane: ControlPlane
    client: Client
    world: World
    new: dict[tuple[str, int], Json | None] = field(default_factory=dict)
    old: dict[tuple[str, int], Json | None] = field(default_factory=dict)
    native: dict[tuple[str, int], Outcome] = field(default_factory=dict)

    def around(self, case: Case) -> list[Json]:
        """What there is around a policy: the rights of all accounts only where it asks for them, for they are many."""
        rights = self._rights if "authorizer" in str(case.documents) else ()
        return [self.world.namespace, *self.world.parameters, _CRD, *rights]

    @cached_property
    def _rights(self) -> list[Json]:
        return [self.client.send("GET", f"/apis/rbac.authorization.k8s.io/v1/{kind}").body for kind in _ROLES]

    def asked(self, asks: Sequence[tuple[Case, int]], turn: int) -> list[Outcome]:
        """What the API server answers now. turn: which tells one time of asking from the others."""
        answers = {
            f"{case.name}/{index}/{turn}": self.client.ask(case.name, case.asks[index], f"{case.name}/{index}/{turn}")
            for case, index in asks
        }
        log = self.control_plane.audit_log
        audited = self.control_plane.wait_for("the audit log", lambda: _audited(log, answers.keys()))
        return [
            _outcome(case, case.asks[index], answers[name], audited[name])
            for (case, index), name in zip(asks, answers, strict=True)
        ]

    def different(
        self, asks: Sequence[tuple[Case, int]], said: Callable[[Case, int], T], part: Callable[[Outcome], T]
    ) -> list[tuple[str, T, T]]:
        """Each request that we answer otherwise, by its name, with our answer and the API server's.

        said: what we answer. part: as much of the API server's answer as is compared with it.
        """
        rows: list[tuple[str, T, T]] = []
        for case, index in asks:
            ours, native = said(case, index), part(self.native[case.name, index])
            turns = () if _is_typed(case) else range(1, _TIMES)  # what is known to differ does so for ever
            for turn in turns:
                if ours == native:
                    break
                native = part(self.asked([(case, index)], turn)[0])
            if ours != native:
                rows.append((f"{case.name}-{index}", ours, native))
        return rows


@pytest.fixture(scope="module")
def proof(control_plane: ControlPlane) -> Iterator[Proof]:
    """Everything in force on the API server, asked, and taken away again."""
    with Client(control_plane) as client:
        try:
            world = _world(control_plane, client)
            found = Proof(control_plane, client, world)
            _before(client, found)
            _enforce(control_plane, client)
            for (case, index), native in zip(ASKS, found.asked(ASKS, 0), strict=True):
                found.native[case.name, index] = native
            yield found
        finally:
            for path in _COLLECTIONS:
                client.send("DELETE", f"{path}?labelSelector={LABEL}%3Dall")
            client.send("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


@pytest.mark.differs("policies")
@pytest.mark.parametrize("cases", SOURCES.values(), ids=SOURCES)
def test_a_policy_says_here_what_it_says_on_the_api_server(
    proof: Proof, cases: Sequence[Case], record_property: Callable[[str, object], None]
) -> None:
    """Code, reason, message, causes, warnings and the changed object are the same, to the letter."""
    asks = [(case, index) for case, index in _asks(cases) if case.name not in typed.DIFFERENT]
    record_property("cases", len(asks))
    assert proof.different(asks, partial(_said, proof), lambda native: native) == []


@pytest.mark.differs("policies")
@pytest.mark.parametrize(("case", "index"), KNOWN, ids=[f"{case.name}-{index}" for case, index in KNOWN])
def test_what_is_known_to_differ(
    proof: Proof, case: Case, index: int, record_property: Callable[[str, object], None]
) -> None:
    """Where types are compared and converted otherwise since a release, ours is what the one before says."""
    if _is_typed(case):
        record_property("difference", typed.DIFFERENCE)
    different = proof.different([(case, index)], partial(_said, proof), lambda native: native)
    assert bool(different) == _is_typed(case), different


@pytest.mark.parametrize("cases", SOURCES.values(), ids=SOURCES)
def test_the_service_refuses_with_the_code_and_reason_of_the_api_server(proof: Proof, cases: Sequence[Case]) -> None:
    """Whatever else its answer says, its code and reason are those of the policy itself, also if several parts fail."""

    def said(case: Case, index: int) -> tuple[int, str] | None:
        key = case.name, index
        return of_service(case, case.asks[index], proof.new[key], proof.old[key], proof.world)

    asks = [(case, index) for case, index in _asks(cases) if not _is_typed(case)]
    assert proof.different(asks, said, lambda native: native.refusal) == []


@pytest.mark.parametrize("cases", SOURCES.values(), ids=SOURCES)
def test_the_library_says_what_the_api_server_says(proof: Proof, cases: Sequence[Case]) -> None:
    """The same documents, given to the library with those around them, have the same verdict there."""

    def said(case: Case, index: int) -> Outcome:
        key, ask = (case.name, index), case.asks[index]
        return _comparable(of_library(case, ask, proof.new[key], proof.old[key], proof.around(case)), case, ask)

    asks = [(case, index) for case, index in _asks(cases) if not _is_typed(case)]
    assert proof.different(asks, said, as_library) == []


def _said(proof: Proof, case: Case, index: int) -> Outcome:
    """What this project's engine says, in the form in which it is compared."""
    key, ask = (case.name, index), case.asks[index]
    return _comparable(outcome(case, ask, proof.new[key], proof.old[key], proof.world), case, ask)


def _is_typed(case: Case) -> bool:
    """Whether it is known that ours answers otherwise."""
    return case.name in typed.DIFFERENT and judged_as() != RELEASES[0]


@pytest.mark.differs("policies")
def test_the_proof_is_large_and_one_sided_nowhere(proof: Proof) -> None:
    """There are more than 400 requests, and refusals, admissions and warnings in numbers."""
    outcomes = list(proof.native.values())
    refused = sum(each.status is not None for each in outcomes)
    warned = sum(bool(each.warnings) for each in outcomes)
    annotated = sum(bool(each.annotations) for each in outcomes)
    changed = sum(each.object is not None for each in outcomes)
    assert len(outcomes) > 400
    assert (refused > 200, warned > 15, annotated > 15, changed > 30, proof.world.rounds > 20) == (True,) * 5


def _world(control_plane: ControlPlane, client: Client) -> World:
    """A Namespace, the parameters, the rights of those who ask, and the custom resource."""
    control_plane.namespace(NAMESPACE, {"team": "red"})
    control_plane.objects.apply(_WORLD["rights"])
    crds.install(control_plane, _CRD)
    control_plane.objects.apply(_WORLD["parameters"])
    made = [_read(client, each) for each in _WORLD["parameters"]]
    namespace = client.send("GET", f"/api/v1/namespaces/{NAMESPACE}").body

    def review(spec: Json) -> Json:
        document = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status: Json = client.make("/apis/authorization.k8s.io/v1/subjectaccessreviews", document)["status"]
        return status

    return World(namespace, made, review)


def _read(client: Client, given: Json) -> Json:
    resource = {"ConfigMap": "configmaps", "PriorityClass": "priorityclasses", LIMIT.kind: LIMIT.resource}[
        given["kind"]
    ]
    version, metadata = given["apiVersion"], given["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    space = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return client.send("GET", f"{root}{space}/{resource}/{metadata['name']}").body


def _before(client: Client, proof: Proof) -> None:
    """The objects that exist, and those that each request would make if there were no policy."""
    for case, index in ASKS:
        ask, key = case.asks[index], (case.name, index)
        proof.old[key] = None
        if ask.operation != "CREATE" or ask.subresource:
            name = object_name(case.name, ask)
            body = object_of(case.name, Ask(kind=ask.kind), ask.content if ask.old is None else ask.old)
            body["metadata"]["name"] = name
            path = ask.kind.path(NAMESPACE)
            made = client.send("POST", path, body)
            assert made.code in (201, 409), made.body
            proof.old[key] = client.send("GET", f"{path}/{name}").body
        proof.new[key] = _new(client, case, ask)
        if ask.subresource and ask.operation != "UPDATE":
            proof.old[key] = None


def _new(client: Client, case: Case, ask: Ask) -> Json | None:
    if ask.operation == "DELETE":
        return None
    if ask.operation == "CONNECT":
        return {"kind": "PodExecOptions", "apiVersion": "v1", "command": ["ls"]}
    answer = client.ask(case.name, ask)
    assert answer.code < 300, answer.body
    if ask.subresource == "eviction":
        return object_of(case.name, ask)
    return answer.body


def _enforce(control_plane: ControlPlane, client: Client) -> None:
    """Put all policies into force, and wait for the last ones, which warn and mark."""
    keep = [
        Case(
            f"keep-{kind['kind'].lower()}",
            {"paramKind": kind, "validations": [{"expression": "true"}]},
            [DENY],
            (),
        )
        for kind in (CONFIG_MAPS, PRIORITY_CLASSES)
    ]
    canaries = [
        validating("canary", {"expression": "false", "message": "x"}, bindings=[{"validationActions": ["Warn"]}]),
        mutating("canary", "Object{metadata: Object.metadata{labels: {'mark': 'x'}}}"),
    ]
    for case in [*keep, *CASES, *canaries]:
        for document in case.documents:
            if case in keep:
                document["metadata"]["labels"] = {LABEL: "kept"}
            kind = document["kind"].lower()
            plural = f"{kind}s" if kind.endswith("binding") else f"{kind[:-1]}ies"
            client.make(f"/apis/{GROUP}/v1/{plural}", document)

    def in_force() -> bool:
        warned = client.ask("v-canary", Ask()).warnings
        marked = client.ask("m-canary", Ask()).body["metadata"]["labels"]
        if not warned or "mark" not in marked:
            raise NotYet(f"warnings {warned}, labels {marked}")
        # Custom resources are discovered anew every half minute, and of each kind the parameters are listed first.
        for name in ("name", "limit", "cluster"):
            _parametrized(client, f"v-params-{name}")
        for name in ("name", "kind-limit", "cluster-namespace"):
            _parametrized(client, f"m-params-{name}")
        return True

    control_plane.wait_for("the policies to be in force", in_force)


def _parametrized(client: Client, case: str) -> None:
    """See that a policy knows its parameters. Raises NotYet."""
    said = client.ask(case, Ask()).body.get("message", "")
    if "failed to find resource" in said or "not yet synced" in said:
        raise NotYet(f"{case}: {said}")


def _audited(log: Path, names: KeysView[str]) -> dict[str, Json]:
    """The annotations of policies on each request, by the id that it was sent with."""
    events = jsonlog.entries(log)
    asked = {event["auditID"]: event.get("annotations", {}) for event in events if event["auditID"] in names}
    if len(asked) < len(names):
        raise NotYet(f"{len(asked)} of {len(names)} events")
    return {
        name: {key: value for key, value in found.items() if key.startswith(_ANNOTATIONS)}
        for name, found in asked.items()
    }


def _outcome(case: Case, ask: Ask, answer: Answer, audited: Json) -> Outcome:
    """The answer in the form in which it is compared."""
    if answer.code < 300 or (ask.operation == "CONNECT" and "denied request" not in answer.body.get("message", "")):
        changed = stable(answer.body) if case.mutating and ask.operation not in ("DELETE", "CONNECT") else None
        return _comparable(Outcome(None, changed, answer.warnings, audited), case, ask)
    shown = {key: value for key, value in answer.body.items() if key in ("code", "reason", "message", "details")}
    if shown.get("reason") == "InternalError":
        shown.pop("details", None)
    return _comparable(Outcome(shown, None, answer.warnings, audited), case, ask)


def _comparable(outcome: Outcome, case: Case, ask: Ask) -> Outcome:
    """The same without a made-up name, without an order, and without words of our own."""
    text = _OWN_WORDS.sub(r"\1", json.dumps(outcome.status))
    if ask.generate_name:
        text = re.sub(rf"{case.name}-[a-z0-9]{{5}}\b", f"{case.name}-*****", text)
    outcome = replace(outcome, status=json.loads(text))
    if not case.unordered:
        return outcome
    annotations = {
        key: sorted(value.split(", ")) if key.startswith(case.name) else value
        for key, value in outcome.annotations.items()
    }
    return replace(outcome, warnings=tuple(sorted(outcome.warnings)), annotations=annotations)
