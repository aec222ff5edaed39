"""Judges the same documents and requests with this project's engine: by itself, as a service, and as a library."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from support.builders import TODAY
from support.cel.answers import Table
from support.policies import nativeanswers
from support.policies.admissionpolicies import GivenFacts

import cks_admission
from cks_admission import Request
from cluster.policycases.case import LIMIT, NAMESPACE, Ask, Case, Json, object_name
from cluster.programs import judged_as, release
from policies.admissionpolicy.documents import reader
from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.evaluation import validator
from policies.admissionpolicy.evaluation.compilation import CompiledPolicy, compile_policy
from policies.admissionpolicy.evaluation.inputs import Inputs, KindScope, StaticParameters
from policies.admissionpolicy.model import Binding, ParamKind
from policies.admissionpolicy.mutation import dispatcher
from policies.admissionpolicy.rules import policyrule
from policies.admissionpolicy.schema import built_in
from policies.cel.environment import Dialect
from policies.cel.library.authorizer import Check, CheckAnswer, answer_of, subject_access_review
from policies.engine import engine
from policies.engine.facts import StaticFacts
from policies.engine.interruption import Missing
from policies.engine.request import AdmissionRequest, GroupVersionKind
from policies.engine.rule import RuleSet
from webhook.http.review import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.admissionpolicy.documents.reader import Loaded
    from policies.admissionpolicy.evaluation.validator import Finding

T = TypeVar("T")

SCOPES: Mapping[ParamKind, KindScope] = {
    ParamKind(api_version="v1", kind="ConfigMap"): "Namespaced",
    ParamKind(api_version="scheduling.k8s.io/v1", kind="PriorityClass"): "Cluster",
    ParamKind(api_version=LIMIT.api_version, kind=LIMIT.kind): "Namespaced",
}
VARYING = ("managedFields", "uid", "creationTimestamp", "resourceVersion", "generation", "selfLink")

_WARNINGS_LIMIT = 4 * 1024
_CUT_WARNING = 256
_CONTROL = "Cc"


@dataclass(frozen=True)
class Outcome:
    """What is compared: the status of a refusal as it is, or the object as it became; warnings, audit annotations."""

    status: Json | None
    object: Json | None = None
    warnings: tuple[str, ...] = ()
    annotations: Json = field(default_factory=dict)

    @property
    def refusal(self) -> tuple[int, str] | None:
        """Code and reason of a refusal."""
        return None if self.status is None else (self.status["code"], self.status["reason"])


@dataclass
class World:
    """What there is in the cluster, and who answers what a policy asks the authorizer."""

    namespace: Json
    parameters: Sequence[Json]
    review: Callable[[Json], Json]
    answers: dict[Check, CheckAnswer] = field(default_factory=dict)
    rounds: int = 0
    """How often an evaluation had to be repeated with an answer."""

    def answered(self, evaluate: Callable[[], T]) -> T:
        """The result of an evaluation; the answers of the authorizer are looked up one after the other."""
        while True:
            try:
                return evaluate()
            except Missing as question:
                self.rounds += 1
                self.answers[question.key] = answer_of(self.review(subject_access_review(question.key)))


def read(case: Case) -> Loaded:
    """The documents of a case, read as from a file."""
    documents = (Document(value=each, name=case.name, places=lambda _: (1, 1)) for each in case.documents)
    loaded = reader.read(documents, dialect=Dialect(judged_as()))
    assert loaded.errors == ()
    return loaded


def request(case: Case, ask: Ask, new: Json | None) -> Json:
    """The AdmissionRequest that the API server makes of a request; a generated name is known when it validates."""
    generated = "" if case.mutating else ((new or {}).get("metadata") or {}).get("name", "")
    kind = ask.kind
    shown: Mapping[str, str] = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    if ask.subresource in _SUBRESOURCES:
        shown = _SUBRESOURCES[ask.subresource]
    resource = {"group": kind.group, "version": kind.version, "resource": kind.resource}
    name = generated if ask.generate_name else object_name(case.name, ask)
    namespace = NAMESPACE if kind.namespaced else (name if kind.kind == "Namespace" else "")
    subresource = {"subResource": ask.subresource, "requestSubResource": ask.subresource}
    extra: dict[str, list[str]] = {}
    for key, value in ask.extra:
        extra.setdefault(key, []).append(value)
    dry_run = ask.operation != "CONNECT"
    options = {"kind": f"{ask.operation.title()}Options", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]}
    return {
        "kind": shown,
        "resource": resource,
        "requestKind": shown,
        "requestResource": resource,
        **subresource,
        "name": name,
        "namespace": namespace,
        "operation": ask.operation,
        "userInfo": {"username": ask.user, "groups": [*ask.groups, "system:authenticated"], "extra": extra},
        "dryRun": dry_run,
        "options": options if dry_run else None,
    }


_SUBRESOURCES: Mapping[str, Mapping[str, str]] = {
    "exec": {"group": "", "version": "v1", "kind": "PodExecOptions"},
    "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction"},
}


def outcome(case: Case, ask: Ask, new: Json | None, old: Json | None, world: World) -> Outcome:
    """What this project's engine says."""
    documents = read(case)
    policy, bindings = compile_policy(documents.policies[0], judged_as()), documents.bindings
    parameters = StaticParameters(world.parameters, SCOPES)
    inputs = Inputs(
        request=request(case, ask, new),
        object=new,
        old_object=old,
        facts=GivenFacts(TODAY, decisions=Table(world.answers), whole=lambda: world.namespace),
    )
    judge = _mutated if case.mutating else _validated
    return world.answered(lambda: judge(policy, bindings, parameters, inputs))


def _validated(
    policy: CompiledPolicy, bindings: Sequence[Binding], parameters: StaticParameters, inputs: Inputs
) -> Outcome:
    result = validator.evaluate_policy(policy, bindings, parameters, inputs)
    warnings = delivered(nativeanswers.warnings(result))
    status = None if result.denial is None else _status(result.denial, [result.denial], inputs)
    return Outcome(status, None, warnings, nativeanswers.audit_annotations(result, policy.release))


def _mutated(
    policy: CompiledPolicy, bindings: Sequence[Binding], parameters: StaticParameters, inputs: Inputs
) -> Outcome:
    kind = inputs.request["kind"]
    schema = built_in(GroupVersionKind(kind["group"], kind["version"], kind["kind"]), judged_as())
    mutated = dispatcher.mutate(lambda _: [(policy, bindings)], parameters, inputs, schema)
    if mutated.denial is None:  # of what CONNECT carries, nobody ever sees what became of it
        return Outcome(None, None if inputs.request["operation"] == "CONNECT" else stable(mutated.object))
    return Outcome(_status(mutated.denial, mutated.result.findings, inputs))


def _status(denial: Finding, causes: Sequence[Finding], inputs: Inputs) -> Json:
    """The Status that the API server answers a refusal with."""
    metadata = (inputs.object or {}).get("metadata") or {}
    name = inputs.request["name"] or metadata.get("name") or metadata.get("generateName") or "Unknown"
    resource = inputs.request["resource"]
    message = denial.native
    if denial.policy_kind == "ValidatingAdmissionPolicy":
        message = nativeanswers.forbidden(resource["group"], resource["resource"], name, message)
    status = {"code": denial.status.code, "reason": denial.reason, "message": message}
    if denial.kind == "internal":
        return status
    group = {"group": resource["group"]} if resource["group"] else {}
    listed = [{"message": cause.native} for cause in causes]
    return {**status, "details": {"name": name, **group, "kind": resource["resource"], "causes": listed}}


def stable(obj: Json | None) -> Json | None:
    """An object without what the API server makes anew each time."""
    if obj is None:
        return None
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in VARYING}
    return {**obj, "metadata": metadata}


def delivered(warnings: Iterable[str]) -> tuple[str, ...]:
    """What of an answer's warnings reaches kubectl: each text once, none with control characters.

    Once all together pass 4096 characters, each is cut to 256 and what does not fit is left out.
    """
    kept: list[str] = []
    written, cutting = 0, False
    for text in (each for each in dict.fromkeys(warnings) if each and _CONTROL not in map(unicodedata.category, each)):
        if cutting and written >= _WARNINGS_LIMIT:
            break
        kept.append(text)
        cutting = cutting or written + len(text) > _WARNINGS_LIMIT
        if cutting:
            kept = [each[:_CUT_WARNING] for each in kept]
        written = sum(map(len, kept))
    return tuple(kept)


def of_service(case: Case, ask: Ask, new: Json | None, old: Json | None, world: World) -> tuple[int, str] | None:
    """Code and reason of the service's refusal, up to the answer that the API server gets; None if it admits."""
    fields = request(case, ask, new) | {"uid": "1", "object": new, "oldObject": old}
    asked = msgspec.convert({key: value for key, value in fields.items() if value is not None}, AdmissionRequest)
    documents = read(case)
    policies, bindings = documents.policies, documents.bindings
    parameters, compiled = StaticParameters(world.parameters, SCOPES), partial(compile_policy, release=judged_as())
    if case.mutating:
        made = policyrule.mutating_rules(policies, bindings, parameters, built_in, compile_=compiled)
    else:
        made = policyrule.validating_rules(policies, bindings, parameters, {}, compiled)
    rules, judge = RuleSet(made), engine.mutate if case.mutating else engine.validate
    labels, whole = {NAMESPACE: world.namespace["metadata"]["labels"]}, {NAMESPACE: world.namespace}

    def facts() -> StaticFacts:
        return StaticFacts(date.min, labels, decisions=Table(world.answers), whole_namespaces=whole)

    answer = world.answered(lambda: judge(asked, rules, facts()))
    if answer.allowed:
        return None
    told: Any = msgspec.json.decode(encode("1", answer))["response"]["status"]
    return told["code"], told["reason"]


def of_library(case: Case, ask: Ask, new: Json | None, old: Json | None, around: Sequence[Json]) -> Outcome:
    """What the library says through its public face, with other documents around the policy."""
    fields = request(case, ask, new)
    asked = Request(
        object=new,
        old_object=old,
        operation=ask.operation,
        resource=f"{ask.kind.resource}.{ask.kind.version}.{ask.kind.group}",
        subresource=ask.subresource,
        name=fields["name"],
        namespace=fields["namespace"],
        user=ask.user,
        groups=ask.groups,
        extra=fields["userInfo"]["extra"],
        options=fields["options"],
        dry_run=fields["dryRun"],
    )
    verdict = cks_admission.evaluate(cks_admission.compile([*case.documents, *around], kubernetes=release()), asked)
    changes = verdict.allowed and case.mutating and ask.operation not in ("DELETE", "CONNECT")
    return Outcome(
        None if verdict.allowed else {"code": verdict.code, "reason": verdict.reason, "message": verdict.message},
        stable(dict(verdict.object or {})) if changes else None,
        delivered(verdict.warnings),
        dict(verdict.annotations),
    )


def as_library(native: Outcome) -> Outcome:
    """What the API server said, as far as the library says it: of the message the part without the object's name."""
    status = native.status
    if status is not None:
        causes = (status.get("details") or {}).get("causes") or [status]
        status = {"code": status["code"], "reason": status["reason"], "message": causes[0]["message"]}
    kept = {key: value for key, value in native.annotations.items() if key != nativeanswers.FAILURE_ANNOTATION}
    return replace(native, status=status, annotations=kept)
