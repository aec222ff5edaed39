"""Judges objects that exist as if somebody created them today: rules and requests in, findings out.

The rules are those of the settings, of policies in files and of the cluster's own. An audit asks about the creation of
an object by somebody who is not exempt. Then there is no old object, and match conditions that leave requesters out are
true.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import Struct, structs

from policies import guard, labels
from policies.admissionpolicy.documents.reader import Loaded
from policies.admissionpolicy.evaluation.compilation import Compile, compile_policy
from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS, ParametersKey, parameter_keys
from policies.admissionpolicy.model import DERIVE, Policy
from policies.admissionpolicy.rules import policyrule
from policies.cel.kubernetes import admission
from policies.cel.program import NO_VARIABLES, compile_expression
from policies.cel.syntax.ast import Ident, Node, Select, children, walk
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Source
from policies.engine import engine, patch
from policies.engine.engine import Answer, Decision
from policies.engine.facts import Facts
from policies.engine.interruption import FactUnavailable, Key, Missing, PostponedError
from policies.engine.request import (
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    JsonObject,
    UserInfo,
    is_being_deleted,
    is_owned,
    mapping,
)
from policies.engine.rule import PatchOperation, Rule, RuleSet
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL, is_control_plane
from policies.engine.violation import BLANKS, Violation, printable, shortened
from policies.objects.fieldpath import Location, lookup, render
from policies.topology.topology import Catalog
from webhook.audit.finding import Finding, Judged, Owners, Subject, Verdict, subject
from webhook.configuration import rules
from webhook.configuration.rules import workload_table
from webhook.configuration.settings import Settings
from webhook.limits import limited
from webhook.sources.policyfiles import PolicyFiles
from webhook.sources.policyset import Native

ANYBODY: Final = UserInfo("user", groups=("system:authenticated",))
"""Who sends the requests: somebody who is not exempt from anything."""

# What the API server fills in after admission, or takes from nobody.
_OF_THE_SERVER: Final = ("resourceVersion", "managedFields", "selfLink")
_NODE: Final = ("", "Node")
_POD: Final = ("", "Pod")


def creation(obj: JsonObject, resource: GroupVersionResource, *, namespaced: bool) -> AdmissionRequest:
    """The request. obj: with apiVersion and kind; it is not changed."""
    group, _, version = str(obj.get("apiVersion")).rpartition("/")
    kind = GroupVersionKind(group, version, str(obj.get("kind")))
    metadata = mapping(obj, "metadata")
    name = str(metadata.get("name") or "")
    is_namespace = kind.group_kind == ("", "Namespace")
    return AdmissionRequest(
        uid="audit",
        kind=kind,
        resource=resource,
        name=name,
        namespace=name if is_namespace else str(metadata.get("namespace") or "") if namespaced else "",
        operation="CREATE",
        user_info=ANYBODY,
        object=as_sent(obj),
        dry_run=True,
    )


def as_sent(obj: JsonObject) -> JsonObject:
    """An object without what nobody sends: its status, and for a Pod the Node that the scheduler chose.

    A kubelet sends the status of its own Node. An object that has nothing of that is returned as it is.
    """
    metadata = mapping(obj, "metadata")
    kept = {key: value for key, value in metadata.items() if key not in _OF_THE_SERVER}
    kind = str(obj.get("apiVersion")).rpartition("/")[0], obj.get("kind")
    changes: dict[str, Any] = {}
    if len(kept) < len(metadata):
        changes["metadata"] = kept
    if kind == _POD and "nodeName" in mapping(obj, "spec") and not _is_named_by_its_author(metadata):
        changes["spec"] = {key: value for key, value in obj["spec"].items() if key != "nodeName"}
    without = ("status",) if kind != _NODE and "status" in obj else ()
    if not changes and not without:
        return obj
    return {key: changes.get(key, value) for key, value in obj.items() if key not in without}


def _is_named_by_its_author(metadata: JsonObject) -> bool:
    """Whether whoever wrote the Pod named its Node, or nobody knows. A scheduler's choice belongs to no manager.

    Source: assignPod in kubernetes' pkg/registry/core/pod/storage/storage.go, which keeps no managedFields.
    """
    managers = metadata.get("managedFields")
    if not isinstance(managers, list) or not managers:
        return "uid" not in metadata
    return any("f:nodeName" in mapping(mapping(manager, "fieldsV1"), "f:spec") for manager in managers)


_WRITES: Final = frozenset({"CREATE", "*"})
_USER, _AUTHORIZER = "request.userInfo", "authorizer"
_ANYBODY: Final[Mapping[str, Any]] = {
    "request": {"userInfo": {"username": ANYBODY.username, "groups": list(ANYBODY.groups)}},
    **dict.fromkeys(("object", "oldObject", "namespaceObject", "params")),
    "variables": NO_VARIABLES,
}


class NotAuditable(Struct, frozen=True):
    """A rule or policy that is not asked, and why. kind: of a policy."""

    policy: str
    reason: str
    kind: str = ""


def reason(policy: Policy) -> str:
    """Why a policy cannot be asked about objects that exist; empty if it can."""
    rules = policy.match_constraints.resource_rules
    if not any(_WRITES.intersection(rule.operations) for rule in rules):
        operations = dict.fromkeys(operation for rule in rules for operation in rule.operations)
        return f"it judges {' and '.join(operations)}, which no object shows"
    conditions = [condition.expression.text for condition in policy.match_conditions]
    texts = [
        *(variable.expression.text for variable in policy.variables),
        *(validation.expression.text for validation in policy.validations),
        *(mutation.expression.text for mutation in policy.mutations),
        *(annotation.value_expression.text for annotation in policy.audit_annotations),
    ]
    for name, among in ((_AUTHORIZER, (*texts, *conditions)), (_USER, texts)):
        if any(_reads(name, text) for text in among):
            return f"it reads {name}, which only a request has"
    if not all(map(_may_hold, conditions)):
        return f"it reads {_USER} to choose whose requests it judges"
    return ""


def _reads(name: str, text: str) -> bool:
    """Whether an expression reads a name; not if it does not compile, and fails everywhere."""
    try:
        tree = parse(Source(text), expand=False)
    except CompileError:
        return False
    return _reads_user(tree) if name == _USER else any(isinstance(n, Ident) and n.name == name for n in walk(tree))


def _reads_user(node: Node) -> bool:
    """Whether the requester is read. `request` alone, as in `dyn(request)`, may be used for anything."""
    if isinstance(node, Select) and isinstance(node.operand, Ident) and node.operand.name == "request":
        return node.field == "userInfo"
    return (isinstance(node, Ident) and node.name == "request") or any(map(_reads_user, children(node)))


def _may_hold(condition: str) -> bool:
    """Whether a match condition does not depend on the requester, or is true for anybody by that alone."""
    if not _reads(_USER, condition):
        return True
    try:
        return compile_expression(condition, admission()).evaluate(_ANYBODY).value is True
    except CompileError:
        return False


NOTHING: Final = Loaded()
_MUTATING: Final = "MutatingAdmissionPolicy"
_GUARD: Final = NotAuditable(guard.RULE, "it judges UPDATE and DELETE, which no object shows")


class Rules(NamedTuple):
    """What an audit asks.

    ruleset: all rules. mutations: a set for each mutating rule and policy, in their order, which tells what it changes.
    silent: what is not asked, and why. parameters: the keys of parameters that policies read. doubts: what is wrong
    with policies or exceptions, a line each.
    """

    ruleset: RuleSet
    mutations: tuple[RuleSet, ...] = ()
    silent: tuple[NotAuditable, ...] = ()
    parameters: frozenset[ParametersKey] = frozenset()
    doubts: tuple[str, ...] = ()


def audit_rules(
    settings: Settings, files: PolicyFiles, native: Loaded = NOTHING, catalog: Catalog | None = None
) -> Rules:
    """The rules for the settings, policies from files and ConfigMaps, and the cluster's own policies.

    native: all of these, also those that do not ask for rules for pod templates. Of policies with one name that of the
    files counts, then that of the cluster, then that of a pack. Raises SettingsError.
    """
    # The cluster's own policies without those whose names others have.
    taken = {*rules.reserved(), *(policy.name for policy in files.loaded.policies)}
    own = tuple(policy for policy in native.policies if policy.name not in taken)
    theirs = {(f"{policy.kind}Binding", policy.name) for policy in own}
    bindings = tuple(binding for binding in native.bindings if (binding.kind, binding.policy_name) in theirs)
    hidden = [
        f"the cluster's {policy.name} is not judged: another rule or policy has this name"
        for policy in native.policies
        if policy.name in taken
    ]

    # All mutating policies are one rule: those of the files and of the cluster, but those that cannot be asked.
    loaded = files.loaded
    both = (*loaded.policies, *(policy for policy in own if policy.kind == _MUTATING))
    kept = tuple(policy for policy in both if policy.kind != _MUTATING or not reason(policy))
    merged = files._replace(loaded=replace(loaded, policies=kept, bindings=(*loaded.bindings, *bindings)))
    compile_ = partial(compile_policy, release=files.release)
    names = tuple(dict.fromkeys(policy.name for policy in own))
    policies = rules.of_policies(settings, merged, compile_, Native(names=names))

    # What is not asked, of what is bound.
    known = (*loaded.policies, *own, *policies.shipped)
    bound: set[tuple[str, str]] = {(binding.kind, binding.policy_name) for binding in merged.loaded.bindings}
    bound |= {(f"{policy.kind}Binding", policy.name) for policy in policies.shipped}
    silent = tuple(
        NotAuditable(policy.name, why, policy.kind)
        for policy in known
        if (f"{policy.kind}Binding", policy.name) in bound and (why := reason(policy))
    )

    # The cluster's own validating policies judge pod templates only where that is asked for.
    asking = [policy for policy in own if "true" in (policy.annotations.get(DERIVE), policy.labels.get(DERIVE))]
    others = [policy for policy in own if policy not in asking]
    table = workload_table(settings)
    of_cluster = (
        *policyrule.validating_rules(asking, bindings, NO_PARAMETERS, table, compile_),
        *policyrule.validating_rules(others, bindings, NO_PARAMETERS, {}, compile_),
    )
    left_out = {entry.policy for entry in silent if entry.kind != _MUTATING}
    asked = policies._replace(
        rules=tuple(r for r in (*policies.rules, *of_cluster) if r.name not in left_out),
        names=tuple(dict.fromkeys((*policies.names, *(policy.name for policy in known)))),
    )
    built = rules.build(settings, (), asked, catalog)
    guarded = (_GUARD,) if any(rule.name == guard.RULE for rule in built.rules) else ()
    return Rules(
        _with_rules(built, [rule for rule in built.rules if rule.name != guard.RULE]),
        tuple(_with_rules(built, (rule,)) for rule in _mutations(merged, built, compile_)),
        (*guarded, *silent),
        parameter_keys(known, merged.loaded.bindings),
        (*hidden, *rules.unknown_names(settings, asked)),
    )


def _with_rules(built: RuleSet, chosen: Sequence[Rule]) -> RuleSet:
    return RuleSet(chosen, built.exceptions, built.safety)


def _mutations(files: PolicyFiles, built: RuleSet, compile_: Compile) -> Iterator[Rule]:
    loaded = files.loaded
    for rule in built.rules:
        if rule.name != policyrule.MUTATING_POLICIES:
            yield from (rule,) if rule.mutate is not None else ()
            continue
        for policy in loaded.policies:
            alone = policyrule.mutating_rules(
                (policy,), loaded.bindings, files.parameters, files.schema, built.exceptions, compile_
            )
            yield from (structs.replace(one, name=policy.name) for one in alone)


_NOBODY: Final[frozenset[str]] = frozenset()
_LABELS: Final = frozenset({labels.RULE})


def spared(request: AdmissionRequest, facts: Facts) -> frozenset[str]:
    """The rules that have nothing to say about an object, whatever they find.

    That is the rule of labels for Nodes, for what a controller owns, and for Namespaces of the control plane with what
    is in them. Raises Missing and FactUnavailable.
    """
    if request.kind.group_kind == _NODE or is_owned(request.object):
        return _LABELS
    if request.kind.group_kind == labels.NAMESPACE:
        own = mapping(mapping(request.object, "metadata"), "labels")
        return _LABELS if own.get(CONTROL_PLANE_LABEL) == CONTROL_PLANE else _NOBODY
    if request.scope_namespace and is_control_plane(request.scope_namespace, facts):
        return _LABELS
    return _NOBODY


_VALUE_LENGTH: Final = 160
# How kube-apiserver begins the sentence of a policy.
_NATIVE, _DENIED = "ValidatingAdmissionPolicy", " denied request: "
_GRAVEST: Final[tuple[Verdict, ...]] = ("deny", "error", "warn", "audit", "exempt", "mutate")


def of_answers(subject: Subject, answers: Iterable[Answer], spared: Collection[str] = ()) -> list[Finding]:
    """The findings of answers. spared: the rules that have nothing to say."""
    decisions = (decision for answer in answers if answer.unanimity is None for decision in answer.decisions)
    return together(f for decision in decisions if decision.rule not in spared for f in _of_decision(subject, decision))


def together(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for each policy and path. It has the gravest verdict, and everything that is said."""
    merged: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = finding.policy, finding.path
        before = merged.get(key)
        merged[key] = finding
        if before is not None:
            first, second = sorted((before, finding), key=lambda finding: _GRAVEST.index(finding.verdict))
            texts: dict[str, str] = {}
            for name in ("message", "remedy"):
                one, other = getattr(before, name), getattr(finding, name)
                texts[name] = one if other in one.split("\n") else "\n".join(filter(None, (one, other)))
            merged[key] = structs.replace(first, until=first.until or second.until, **texts)
    return list(merged.values())


def of_changes(subject: Subject, policy: str, before: Any, operations: Sequence[PatchOperation]) -> Iterator[Finding]:
    """What a mutation would change, a finding for each path. before: the object that it got."""
    by_path: dict[str, list[str]] = {}
    for operation in operations:
        place = _location(operation["path"])
        if operation["op"] == "remove":
            text = "would be removed"
        elif operation["op"] in ("move", "copy"):
            text = f"would be taken from {render(_location(operation['from']))}"
        else:
            new = _shown(operation.get("value"))
            old = lookup(before, place)
            text = f"would be {new}" if old is None else f"would be {new} instead of {_shown(old)}"
            if place and (place[-1] == "-" or isinstance(place[-1], int)) and operation["op"] == "add":
                place, text = place[:-1], f"would get {new}"
        by_path.setdefault(render(place), []).append("would be changed" if subject.kind == "Secret" else text)
    for path, texts in by_path.items():
        yield Finding(subject, policy, "mutate", path, "; ".join(dict.fromkeys(texts)))


def _of_decision(subject: Subject, decision: Decision) -> Iterator[Finding]:
    if decision.failure is not None:
        verdict: Verdict = "error" if decision.denies else "warn"
        text = printable(f"it could not be evaluated: {decision.failure.error}", BLANKS)
        yield Finding(subject, decision.rule, verdict, "", text)
    elif decision.verdict == "excepted" and decision.exception is not None:
        exception = decision.exception
        until, grounds = f"{exception.until.isoformat()}T23:59:59Z", f" (exception {exception.grounds})"
        for violation in decision.violations:
            text = _sentence(decision, violation) + grounds
            yield Finding(subject, decision.rule, "exempt", violation.path, text, violation.remedy, until)
        if not decision.violations:
            yield Finding(subject, decision.rule, "exempt", "", f"it changes nothing here{grounds}", until=until)
    elif decision.verdict in ("deny", "warn", "audit"):
        ended = f" {decision.exception.ending(decision.rule)}" if decision.exception is not None else ""
        for violation in decision.violations:
            text = _sentence(decision, violation) + ended
            yield Finding(subject, decision.rule, decision.verdict, violation.path, text, violation.remedy)
        if decision.more:
            yield Finding(subject, decision.rule, decision.verdict, "", f"{decision.more} more places{ended}")


def _sentence(decision: Decision, violation: Violation) -> str:
    """What is wrong, without the name of the policy, and without that of the binding, which decides nothing here."""
    text = violation.sentence.removeprefix(f"{decision.rule}: ")
    return text.partition(_DENIED)[2] if text.startswith(f"{_NATIVE} '{decision.rule}' ") and _DENIED in text else text


def _location(pointer: str) -> Location:
    """The steps of a JSON Pointer (RFC 6901). A number counts as an index."""
    steps = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    return tuple(int(step) if step.isdecimal() else step for step in steps)


def _shown(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False), _VALUE_LENGTH)


# For one look-up. Nobody waits for an audit, so it may take longer than in a review.
_SECONDS: Final = 30.0
# A policy that takes too long for an object so often is skipped from then on.
_TIMES: Final = 3
LookUp = Callable[[Key[Any], float], Awaitable[Any]]
"""Returns the value of a key within some seconds. Raises FactUnavailable, and Missing if it does not exist."""


class Audit:
    """Judges one object after the other, and keeps none of them.

    rules: those that are judged. facts: beside the objects. look_up: finds those that are not in memory; None without a
    cluster. workloads: knows owners; None if nobody asks for them.
    """

    def __init__(
        self, rules: Rules, facts: Facts, look_up: LookUp | None = None, workloads: Owners | None = None
    ) -> None:
        self.rules = rules
        self._facts = facts
        self._look_up = look_up
        self._workloads = workloads
        self._slow = Counter[str]()
        self._skipped = facts.skipped

    async def judged(self, request: AdmissionRequest) -> Judged:
        """What is found about an object: nothing if it is being deleted."""
        about = subject(request)
        # Again with all facts that judging turns out to need, and without policies that take too long.
        findings: list[Finding] | None = None
        skipped, entered = self._skipped, self._facts.entries
        while findings is None:
            facts = structs.replace(self._facts, entries=entered, skipped=skipped)
            try:
                with limited():
                    findings = self._findings(about, request, facts)
            except Missing as missing:
                entered = facts.entered(missing.key, await self._entry(missing.key)).entries
            except PostponedError as error:
                skipped |= {error.policy}
                self._slow[error.policy] += 1
                self._skipped |= {name for name, times in self._slow.items() if times >= _TIMES}
        if findings and self._workloads is not None:
            workload, scope = await self._workloads.topmost(request)
            about = structs.replace(about, workload=workload, scope=scope)
            findings = [structs.replace(finding, subject=about) for finding in findings]
        return Judged(about, tuple(findings))

    def _findings(self, about: Subject, request: AdmissionRequest, facts: Facts) -> list[Finding]:
        if is_being_deleted(request.object):
            return []
        ruleset = self.rules.ruleset
        mutation = engine.mutate(request, ruleset, facts)
        if not mutation.allowed:  # as in admission, nobody judges what was refused already
            return of_answers(about, (mutation,))
        changed, changes = request, list[Finding]()
        if mutation.operations:
            changed = structs.replace(request, object=patch.apply(request.object or {}, mutation.operations))
            # What each mutation would change, one after the other.
            current = request
            for step in self.rules.mutations:
                operations = engine.mutate(current, step, facts).operations
                for rule in step.rules if operations else ():
                    changes += of_changes(about, rule.name, current.object, operations)
                    current = structs.replace(current, object=patch.apply(current.object or {}, operations))
        validation = engine.validate(changed, ruleset, facts, together=not facts.skipped)
        for screener in ruleset.screeners:
            if screener.is_waiting:  # more objects of the kind will come
                screener.prepare()
        silent = _NOBODY if validation.unanimity is not None else spared(request, facts)
        return together((*of_answers(about, (mutation, validation), silent), *changes))

    async def _entry(self, key: Key[Any]) -> Any:
        if self._look_up is None:
            return key.without_cluster()
        try:
            return await self._look_up(key, _SECONDS)
        except FactUnavailable as error:
            return error
        except Missing:
            return key.failure("it was looked for")
