"""What an audit asks: the rules of the settings, of policies in files and of the cluster's own, and the requests.

It asks about the creation of an object by somebody who is not exempt. Then there is no old object, and match conditions
that leave requesters out are true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import Struct, structs

from policies import guard
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
from policies.engine.request import (
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    JsonObject,
    UserInfo,
    mapping,
)
from policies.engine.rule import Rule, RuleSet
from policies.topology.topology import Catalog
from webhook.configuration import rules
from webhook.configuration.rules import workload_table
from webhook.configuration.settings import Settings
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


def made(settings: Settings, files: PolicyFiles, native: Loaded = NOTHING, catalog: Catalog | None = None) -> Rules:
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
