"""The library: documents and requests, as far as policies see them; the value of an expression, what policies say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from functools import partial
from typing import Any, Literal, overload

from msgspec import Struct
from msgspec.structs import replace

from cks_admission.errors import DocumentError, ExpressionError, ReleaseError, RequestError
from policies.admissionpolicy.documents import reader
from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.evaluation import validator
from policies.admissionpolicy.evaluation.compilation import compile_policy
from policies.admissionpolicy.evaluation.inputs import ConfigurationError, as_json, inputs_of
from policies.admissionpolicy.evaluation.validator import Group, SpentError, evaluate_policy, parameters_of
from policies.admissionpolicy.model import ValidationAction
from policies.admissionpolicy.mutation.dispatcher import Mutated
from policies.admissionpolicy.rules.policyrule import MutatingPolicies, Subject, in_force, is_seen
from policies.cel import explain as explanation
from policies.cel.activation import activation
from policies.cel.cases import PATCHING, RESULTS
from policies.cel.cost import EXPRESSION_LIMIT, POLICY_LIMIT
from policies.cel.environment import Dialect
from policies.cel.kubernetes import admission
from policies.cel.program import Composition, Names, Program, compile_expression
from policies.cel.program import Evaluation as CelEvaluation
from policies.cel.syntax.source import CompileError, Source
from policies.cel.values import Value, type_of
from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest, GroupVersionResource, Operation, UserInfo, mapping
from policies.kubernetes.release import NEWEST, Release, named
from policies.lint import review
from policies.lint.finding import LintFinding
from webhook.files import manifest
from webhook.files.yamlfile import FileError
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFiles, PolicyFilesError

Documents = Document | Mapping[str, Any] | Iterable[Document | Mapping[str, Any]]
"""One document or several, as `read` returns them or decoded by other means."""


def read(text: str | bytes, name: str = "<text>") -> tuple[Document, ...]:
    """The documents in a text of YAML or JSON, as kubectl reads it; name: of the file, for messages.

    Raises DocumentError.
    """
    try:
        return tuple(policyfiles.parse(text, name))
    except FileError as error:
        raise DocumentError(str(error)) from None


def lint(documents: Documents, *, kubernetes: str = NEWEST.name) -> tuple[LintFinding, ...]:
    """The mistakes in policies that Kubernetes accepts, each with its place and a remedy.

    kubernetes: a release, such as `1.37`. Raises DocumentError and ReleaseError.
    """
    given, release = _listed(documents), _release(kubernetes)
    return review.review(_files(given, release).loaded, given, release)


def _release(kubernetes: str) -> Release:
    """The release of Kubernetes with a name. Raises ReleaseError."""
    try:
        return named(kubernetes)
    except ValueError as error:
        raise ReleaseError(str(error)) from None


def _files(documents: Documents, release: Release) -> PolicyFiles:
    """What is in documents. A policy without a binding counts as if one denied. Raises DocumentError."""
    read = (part for document in _listed(documents) for part in reader.parts(document, Dialect(release)))
    try:
        return policyfiles.of_parts(read, drafts=True, release=release)
    except PolicyFilesError as error:
        raise DocumentError(str(error), error.problems) from None


def _listed(documents: Documents) -> list[Document]:
    """The documents one by one. Decoded objects have no places; kind and name stand for the file."""
    listed = []
    for number, given in enumerate([documents] if isinstance(documents, Document | Mapping) else documents, 1):
        match given:
            case Document():
                listed.append(given)
                continue
            case {"kind": str(kind), "metadata": {"name": str(name)}}:
                named = f"{kind} {name}"
            case _:
                named = f"document {number}"
        listed.append(Document(value=given, name=named, places=lambda _: (1, 1)))
    return listed


class Request(Struct, frozen=True, kw_only=True):
    """One write.

    object: as it would be stored; None for a DELETE. old_object: as it is now; None for a CREATE. operation: what the
    objects tell, unless given. resource: the one that is written, as kubectl takes it, `deployments.v1.apps`, or
    `deployments` in the group of the object; the kind's usual one, unless given. name: the object's, unless given.
    namespace: for objects that name none. user, groups, extra: of the requester, who is always in system:authenticated.
    params, namespace_object: what an expression reads by these names; policies have theirs from the documents.
    """

    object: Mapping[str, Any] | None = None
    old_object: Mapping[str, Any] | None = None
    operation: Operation | None = None
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = "default"
    user: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}
    options: Mapping[str, Any] | None = None
    dry_run: bool = False
    params: Mapping[str, Any] | None = None
    namespace_object: Mapping[str, Any] | None = None

    @property
    def verb(self) -> Operation:
        """The operation."""
        if self.operation is not None:
            return self.operation
        if self.object is None:
            return "DELETE"
        return "CREATE" if self.old_object is None else "UPDATE"


def _admission_request(request: Request) -> AdmissionRequest:
    """The AdmissionRequest that the API server makes of a request. Raises RequestError."""
    shown = _plain(request.object if request.object is not None else request.old_object)
    if shown is None:
        raise RequestError("a request needs an object, an old_object, or both")
    if problem := _problem(shown):
        raise RequestError(problem)
    groups = tuple(dict.fromkeys((*request.groups, "system:authenticated")))
    user = UserInfo(request.user, groups=groups, extra=dict(request.extra))
    made = manifest.request(shown, None, user=user, namespace=request.namespace, uid="")
    # As `deployments.v1.apps`, `pods.v1.` or `pods`; the kind's usual one if none is named.
    name, _, rest = request.resource.partition(".")
    version, _, group = rest.partition(".")
    resource = replace(made.resource, resource=name) if name else made.resource
    resource = GroupVersionResource(group, version, name) if version else resource
    return replace(
        made,
        name=request.name or made.name,
        operation=request.verb,
        resource=resource,
        sub_resource=request.subresource,
        object=_plain(request.object),
        old_object=_plain(request.old_object),
        options=_plain(request.options),
        dry_run=request.dry_run,
    )


def _request_json(request: Request) -> Mapping[str, Any]:
    """What an expression reads as `request`; of an object without kind only operation, name and namespace."""
    shown = _plain(request.object if request.object is not None else request.old_object) or {}
    if _problem(shown):
        metadata = mapping(shown, "metadata")
        names = {name: metadata[name] for name in ("name", "namespace") if metadata.get(name)}
        return {"operation": request.verb, **names, "userInfo": {"username": request.user, "groups": request.groups}}
    return as_json(_admission_request(request))


def _problem(shown: Mapping[str, Any]) -> str:
    """Why something is no object of Kubernetes; empty if it is one."""
    for field in ("apiVersion", "kind"):
        if not isinstance(shown.get(field), str) or not shown[field]:
            return f"the object has no {field}, by which the API server knows the policies that match"
    return "" if isinstance(shown.get("metadata", {}), dict) else "the object's metadata is no map"


def _plain(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return value if value is None or isinstance(value, dict) else dict(value)


_ACTIONS: tuple[ValidationAction, ...] = ("Deny", "Warn", "Audit")


class Cause(Struct, frozen=True):
    """A part of an expression that decided it. path: of the field that it reads, empty if it reads none."""

    path: str
    text: str

    def __str__(self) -> str:
        """`spec.replicas: object.spec.replicas <= 5 is false (object.spec.replicas is 7)`."""
        return f"{self.path}: {self.text}" if self.path else self.text


class Finding(Struct, frozen=True, kw_only=True):
    """A validation that is false, or something that failed.

    binding, params: names, empty if there is none. message: as the policy has it. actions: those of the binding, in the
    order of Kubernetes' documentation; none if the failurePolicy ignores an error. text, reason, code: the API server's
    refusal, should this be the first one. expression: the source of the expression; place: of it, as file:line:column.
    causes: the parts that decided.
    """

    policy: str
    binding: str
    params: str
    message: str
    actions: tuple[ValidationAction, ...]
    text: str
    reason: str
    code: int
    expression: str = ""
    place: str = ""
    causes: tuple[Cause, ...] = ()


class Verdict(Struct, frozen=True, kw_only=True):
    """The answer to a request.

    code, reason, message: of the refusal, without the name of the object before it; 0 and empty if it is admitted.
    findings: in the API server's order, which refuses with the first whose actions have Deny. ignored: errors that the
    failurePolicy ignores. warnings: as kubectl prints them. annotations: for the audit log, by key. object: as the
    mutating policies left it. costs: of the validations of each policy that matched, of the 10,000,000 that one may
    cost; the highest, if it has several bindings or parameters.
    """

    allowed: bool
    code: int = 0
    reason: str = ""
    message: str = ""
    findings: tuple[Finding, ...] = ()
    ignored: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = {}
    object: Mapping[str, Any] | None = None
    costs: Mapping[str, int] = {}


def _cause(reason: explanation.Reason) -> Cause:
    return Cause("" if reason.place is None else explanation.shown(reason.place), reason.detail)


def _finding(finding: validator.Finding) -> Finding:
    source = finding.expression
    return Finding(
        policy=finding.policy,
        binding=finding.binding,
        params=finding.params,
        message=finding.message,
        actions=tuple(action for action in _ACTIONS if action in finding.actions),
        text=finding.native,
        reason=finding.status.reason,
        code=finding.status.code,
        expression="" if source is None else source.text,
        place="" if source is None else f"{source.file}:{source.line}:{source.column}",
        causes=tuple(map(_cause, finding.reasons)),
    )


Result = Literal["any", "bool", "string", "jsonpatch", "applyconfig"]
"""The type that an expression must have: of a validation, of a message, of either kind of mutation."""


class Evaluation(Struct, frozen=True):
    """The result of an expression.

    value: Python's own for what JSON has and for bytes, else as in policies/cel/values.py. type: of the value; both are
    empty if there is an error. cost: in Kubernetes' units, with the variables that were read. error: Kubernetes' words.
    """

    value: Value
    type: str
    cost: int
    error: str = ""


class Expression:
    """A compiled expression. type: the one that the checker found, such as `bool`, `dyn` or `list(string)`."""

    __slots__ = ("_composition", "_program", "text", "type")

    def __init__(self, text: str, program: Program, composition: Composition) -> None:
        self.text = text
        self.type = program.type.declared
        self._program = program
        self._composition = composition

    def evaluation(self, request: Request) -> Evaluation:
        """The result for a request."""
        names, result = self._evaluated(request)
        cost = result.cost + names["variables"].cost
        if result.error is not None:
            return Evaluation(None, "", cost, str(result.error))
        return Evaluation(result.value, type_of(result.value).name, cost)

    def causes(self, request: Request) -> tuple[Cause, ...]:
        """Why it is false or fails for a request; empty if it is neither."""
        names, result = self._evaluated(request)
        if result.error is None and result.value is not False:
            return ()
        reasons = explanation.explain(self._program.source, self._composition, names, limit=EXPRESSION_LIMIT)
        return tuple(map(_cause, reasons))

    def _evaluated(self, request: Request) -> tuple[Names, CelEvaluation]:
        names = activation(
            _request_json(request),
            StaticFacts(date.min),
            object=request.object,
            old_object=request.old_object,
            params=request.params,
            namespace=request.namespace_object,
        )
        bound = self._composition.bind(names)
        return bound, self._program.evaluate(bound)


class Policies:
    """Compiled policies. warnings: doubts about the documents, such as a policy without a binding."""

    __slots__ = ("_files", "_mutating", "_validating", "warnings")

    def __init__(self, files: PolicyFiles) -> None:
        loaded = files.loaded
        self._files = files
        given = loaded.policies, loaded.bindings, partial(compile_policy, release=files.release)
        self._mutating = tuple(in_force("MutatingAdmissionPolicy", *given))
        self._validating = tuple(in_force("ValidatingAdmissionPolicy", *given))
        self.warnings = tuple(map(str, loaded.warnings))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the policies, mutating ones first, as they run."""
        return tuple(bound.policy.name for bound in (*self._mutating, *self._validating))

    def verdict(self, request: Request) -> Verdict:
        """What the policies say: first those that mutate, then, about what they left, those that validate.

        Raises RequestError.
        """
        asked, parameters = _admission_request(request), self._files.parameters
        if not is_seen(asked):
            return Verdict(allowed=True, object=asked.object)
        facts = self._files.facts(date.min)
        mutated, _ = MutatingPolicies(self._mutating, parameters, self._files.schema).mutated(asked, facts)
        if mutated.denial is not None:
            return _verdict(mutated, validator.Result(), {})
        changed = replace(asked, object=mutated.object)
        inputs, subject = inputs_of(changed, facts), Subject(changed, facts, {})
        results, costs = [], dict[str, int]()
        for policy in self._validating:
            bindings = policy.matching(subject)
            if not bindings:
                continue
            compiled = policy.compiled
            results.append(evaluate_policy(compiled, bindings, parameters, inputs))
            try:
                given = parameters_of(compiled, bindings, parameters, inputs.request_namespace)
            except ConfigurationError:
                continue
            # What the validations cost, with the variables that they read.
            costs[policy.policy.name] = 0
            for params in given:
                names = inputs.names(params, request=compiled.reads_request, namespace=compiled.reads_namespace)
                group = Group(compiled.composition, names, POLICY_LIMIT, None)
                try:
                    for unit in compiled.validations:
                        group.evaluate(unit)
                    cost = POLICY_LIMIT - group.remaining
                except SpentError:
                    cost = POLICY_LIMIT
                costs[policy.policy.name] = max(costs[policy.policy.name], cost)
        return _verdict(mutated, validator.combined(results), costs)


def _verdict(mutated: Mutated, validated: validator.Result, costs: Mapping[str, int]) -> Verdict:
    both = validator.combined([mutated.result, validated])
    denial = mutated.denial or validated.denial
    return Verdict(
        allowed=denial is None,
        code=0 if denial is None else denial.status.code,
        reason="" if denial is None else denial.status.reason,
        message="" if denial is None else denial.native,
        findings=tuple(map(_finding, both.findings)),
        ignored=tuple(map(_finding, both.ignored)),
        warnings=tuple(
            validator.warning_text(finding.policy, finding.binding, finding.message)
            for finding in both.findings
            if "Warn" in finding.actions
        ),
        annotations={key: ", ".join(dict.fromkeys(values)) for key, values in both.published.items()},
        object=mutated.object,
        costs=costs,
    )


_NOTHING = Request()


@overload
def compile(
    source: str, *, variables: Mapping[str, str] = ..., result: Result = ..., kubernetes: str = ...
) -> Expression: ...
@overload
def compile(source: Documents, *, kubernetes: str = ...) -> Policies: ...
def compile(
    source: str | Documents,
    *,
    variables: Mapping[str, str] | None = None,
    result: Result = "any",
    kubernetes: str = NEWEST.name,
) -> Expression | Policies:
    """An expression, from its text, or the policies in documents.

    variables: what `variables` has, in order, as expressions. result: the type that is demanded. kubernetes: the
    release that judges; policies may use what it takes into new ones, an expression alone all that it evaluates. Raises
    ExpressionError and DocumentError, with all that is wrong, and ReleaseError.
    """
    release = _release(kubernetes)
    if not isinstance(source, str):
        return Policies(_files(source, release))
    composition = Composition(admission(dialect=Dialect(release, stored=True)))
    try:
        # Each variable may read those before it.
        for name, part in (variables or {}).items():
            composition = composition.declare(name, part, source=Source(part, f"variables.{name}"))
            program = composition.programs[name]
            if isinstance(program, CompileError):
                raise program
        composition = composition.for_mutations() if result in PATCHING else composition
        origin = Source(source, "expression")
        return Expression(
            source, compile_expression(source, composition.environment, *RESULTS[result], source=origin), composition
        )
    except CompileError as error:
        raise ExpressionError(error) from None


@overload
def evaluate(compiled: Expression, request: Request | Mapping[str, Any] = ...) -> Evaluation: ...
@overload
def evaluate(compiled: Policies, request: Request | Mapping[str, Any]) -> Verdict: ...
def evaluate(compiled: Expression | Policies, request: Request | Mapping[str, Any] = _NOTHING) -> Evaluation | Verdict:
    """The value of an expression, or what policies say. request: or an object that is to be created.

    Raises RequestError.
    """
    if isinstance(compiled, Expression):
        return compiled.evaluation(_request(request))
    return compiled.verdict(_request(request))


def explain(compiled: Expression, request: Request | Mapping[str, Any] = _NOTHING) -> tuple[Cause, ...]:
    """Why an expression is false or fails: the smallest parts that decided it. Empty if it is neither."""
    return compiled.causes(_request(request))


def _request(request: Request | Mapping[str, Any]) -> Request:
    return request if isinstance(request, Request) else Request(object=request)
