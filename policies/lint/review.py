"""Reviews policies and bindings: all findings, except those that a document ignores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import product

from policies.admissionpolicy.builtin.table import ApiResource, served_resources
from policies.admissionpolicy.documents.document import Document, Path
from policies.admissionpolicy.documents.reader import Loaded, objects
from policies.admissionpolicy.model import LINT_IGNORE, Binding, MatchResources, NamedRule, Policy
from policies.cel.checker import nearest
from policies.cel.recursion import deeply
from policies.cel.syntax.ast import Call, Node, Select, walk
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import Issue
from policies.engine.match import LabelSelector
from policies.engine.request import GroupVersionKind
from policies.kubernetes.release import NEWEST, Release
from policies.kubernetes.spelling import closest
from policies.lint import expressions
from policies.lint.absence import unguarded
from policies.lint.finding import BY_NAME, LintFinding, LintSubject, UnknownCodeError, named
from policies.lint.typecheck import ResourceCatalog, TypedPolicy, catalog, checked_kinds

_ID = "never-matches"
_ALL = "*"
# Subresources that are connections. All other resources are created, updated or deleted.
_CONNECTED = frozenset({"pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy"})
_UPDATED_ONLY = ("status", "scale", "finalize", "resize", "ephemeralcontainers")


def _of_binding(
    binding: Binding, policy: Policy | None, subject: LintSubject, catalog: ResourceCatalog
) -> Iterator[LintFinding]:
    """Findings about a binding's matchResources, alone and together with its policy."""
    resources = binding.match_resources
    if resources is None:
        return
    path = ("spec", "matchResources")
    yield from _of_resources(resources, subject, path, catalog)
    rules = resources.resource_rules
    if policy is None or not rules:
        return
    if not any(_overlap(rule, other) for rule, other in product(rules, policy.match_constraints.resource_rules)):
        message = f"no request matches both this binding and the policy {policy.name}"
        remedy = "use resources and operations that the policy matches"
        yield subject.at(_ID, (*path, "resourceRules"), message, remedy)


def _of_resources(
    resources: MatchResources, subject: LintSubject, path: Path, catalog: ResourceCatalog
) -> Iterator[LintFinding]:
    for index, rule in enumerate(resources.resource_rules):
        at = (*path, "resourceRules", index)
        if any(_covers(excluded, rule) for excluded in resources.exclude_resource_rules):
            message = "excludeResourceRules excludes everything that this rule matches"
            yield subject.at(_ID, at, message, "remove this rule, or narrow the exclusion")
        yield from _of_rule(rule, subject, at, catalog)
    selectors = {"objectSelector": resources.object_selector, "namespaceSelector": resources.namespace_selector}
    for name, selector in selectors.items():
        yield from _of_selector(selector, subject, (*path, name))


def _of_rule(rule: NamedRule, subject: LintSubject, path: Path, catalog: ResourceCatalog) -> Iterator[LintFinding]:
    for index, name in enumerate(rule.resources):
        at = (*path, "resources", index)
        meant = _misnamed(rule, name, catalog)
        if meant is not None:
            groups = " or ".join(group or "the core group" for group in rule.api_groups)
            message = f"there is no resource {name!r} in {groups}"
            yield subject.at(_ID, at, message, f"write {meant}" if meant else "use the plural name, such as pods")
        elif (happens := _impossible(rule, name)) is not None:
            verb = "happens" if len(rule.operations) == 1 else "happen"
            message = f"{' and '.join(rule.operations)} never {verb} to {name}"
            yield subject.at(_ID, at, message, f"write {happens}, or name another resource")
    scopes = {resource.scope for name in rule.resources for resource in _known(rule, name, catalog)}
    unknown = any(not list(_known(rule, name, catalog)) for name in rule.resources)
    if rule.scope != _ALL and scopes and not unknown and rule.scope not in scopes:
        message = f"the scope is {rule.scope}, but {', '.join(rule.resources)} is {scopes.pop()}"
        yield subject.at(_ID, (*path, "scope"), message, 'remove the scope, or write "*"')


def _known(rule: NamedRule, name: str, catalog: ResourceCatalog) -> Iterator[ApiResource]:
    """The resources of the catalog that a name in a rule matches."""
    for resource in catalog.resources:
        if (
            resource.group in rule.api_groups
            and resource.name == name
            and (_ALL in rule.api_versions or resource.version in rule.api_versions)
        ):
            yield resource


def _misnamed(rule: NamedRule, name: str, catalog: ResourceCatalog) -> str | None:
    """The name that is probably intended if a resource does not exist, or empty; None if the resource may exist.

    All resources are known only for built-in groups, and only in versions that are on by default.
    """
    served = {(resource.group, resource.version) for resource in served_resources()}
    wanted = [pair for pair in product(rule.api_groups, rule.api_versions) if pair[1] != _ALL]
    complete = {group for group, _ in served}.issuperset(rule.api_groups) and served.issuperset(wanted)
    if _ALL in name or not rule.api_groups or not complete:
        return None
    known = [resource for resource in catalog.resources if resource.group in rule.api_groups]
    if any(resource.name == name for resource in known):
        return None
    singular = [
        resource.name for resource in known if name.lower() == resource.kind.kind.lower() and "/" not in resource.name
    ]
    if singular:
        return singular[0]
    suggestion = closest(name, [resource.name for resource in known])
    return suggestion if suggestion or _ALL not in rule.api_versions else None


def _impossible(rule: NamedRule, name: str) -> str | None:
    """The operations of a resource, if the rule has none of them; None otherwise."""
    if _ALL in name or not {resource.group for resource in served_resources()}.issuperset(rule.api_groups):
        return None
    happens = ["CREATE", "UPDATE", "DELETE"]
    if name in _CONNECTED:
        happens = ["CONNECT"]
    elif name.partition("/")[2] in _UPDATED_ONLY:
        happens = ["UPDATE"]
    return None if {_ALL, *happens} & set(rule.operations) else " or ".join(happens)


def _of_selector(selector: LabelSelector, subject: LintSubject, path: Path) -> Iterator[LintFinding]:
    requirements = selector.requirements
    for index, requirement in enumerate(requirements):
        for other in requirements[:index]:
            if requirement.excludes(other):
                both = " and ".join(
                    f"{each.operator} [{', '.join(each.values)}]" if each.values else each.operator
                    for each in (other, requirement)
                )
                message = f"no object can meet both requirements for the label {requirement.key}: {both}"
                yield subject.at(_ID, path, message, "remove one of them")


def _overlap(rule: NamedRule, other: NamedRule) -> bool:
    """Whether two rules may match the same request. Versions and names of equivalent kinds are not compared."""
    return (
        _meet(rule.api_groups, other.api_groups)
        and _meet(rule.operations, other.operations)
        and (not rule.resource_names or not other.resource_names or _meet(rule.resource_names, other.resource_names))
        and (_ALL in (rule.scope, other.scope) or rule.scope == other.scope)
        and any(
            all(left == right or _ALL in (left, right) for left, right in zip(_split(name), _split(also), strict=True))
            for name, also in product(rule.resources, other.resources)
        )
    )


def _meet(names: Sequence[str], others: Sequence[str]) -> bool:
    return _ALL in names or _ALL in others or bool(set(names) & set(others))


def _covers(wide: NamedRule, narrow: NamedRule) -> bool:
    return (
        _holds(wide.api_groups, narrow.api_groups)
        and _holds(wide.api_versions, narrow.api_versions)
        and _holds(wide.operations, narrow.operations)
        and (
            not wide.resource_names
            or (bool(narrow.resource_names) and _holds(wide.resource_names, narrow.resource_names))
        )
        and wide.scope in (_ALL, narrow.scope)
        and all(
            any(
                all(left in (right, _ALL) for left, right in zip(_split(resource), _split(name), strict=True))
                for resource in wide.resources
            )
            for name in narrow.resources
        )
    )


def _holds(wide: Sequence[str], narrow: Sequence[str]) -> bool:
    return _ALL in wide or set(narrow) <= set(wide)


def _split(name: str) -> Sequence[str]:
    return name.partition("/")[::2]


def review(
    loaded: Loaded,
    documents: Iterable[Document],
    release: Release = NEWEST,
    within: Callable[[Policy], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> tuple[LintFinding, ...]:
    """All findings about policies and bindings without errors, sorted by file and place.

    documents: the source of the policies and bindings, for the places of fields. release: the API server's. within: the
    block in which a policy is reviewed.
    """
    places = {_identity(document): document for document in objects(documents)}
    known = catalog((document.value for document in loaded.context), release)
    policies: dict[tuple[str, str], Policy] = {(policy.kind, policy.name): policy for policy in loaded.policies}
    all_findings: list[LintFinding] = []
    for key, policy in policies.items():
        subject = LintSubject(policy.kind, policy.name, places[key])
        with within(policy):
            findings = deeply(lambda: list(_of_policy(policy, subject, known)))  # noqa: B023 - called at once
        all_findings += _kept(findings, policy.annotations, subject)
    # A policy without a binding has one that nobody wrote.
    written = (binding for binding in loaded.bindings if (binding.kind, binding.name) in places)
    for binding in written:
        subject = LintSubject(binding.kind, binding.name, places[binding.kind, binding.name])
        bound = policies.get((binding.kind.removesuffix("Binding"), binding.policy_name))
        all_findings += _kept(_of_binding(binding, bound, subject, known), binding.annotations, subject)
    all_findings += [
        LintFinding(
            id="doubtful", subject="", file=doubt.file, line=doubt.line, column=doubt.column, path=doubt.path,
            message=doubt.message, remedy=doubt.hint,
        )
        for doubt in loaded.warnings
    ]  # fmt: skip
    return tuple(sorted(all_findings, key=lambda finding: (finding.file, finding.line, finding.column, finding.id)))


def _identity(document: Document) -> tuple[str, str]:
    """The kind and name of an object; empty if it has none."""
    match document.value:
        case {"kind": str(kind), "metadata": {"name": str(name)}}:
            return kind, name
        case _:
            return "", ""


def _of_policy(policy: Policy, subject: LintSubject, known: ResourceCatalog) -> Iterator[LintFinding]:
    typed = [TypedPolicy(policy, kind, known) for kind in checked_kinds(policy, known)]
    untyped = TypedPolicy(policy, None, known)
    yield from _type_errors(policy, subject, typed)
    yield from expressions.compared_quantities(policy, subject, known, typed)
    yield from unguarded(policy, subject, known, typed or [untyped])
    yield from expressions.futile(policy, subject, typed)
    yield from expressions.unreachable(policy, subject, known.release)
    yield from _of_resources(policy.match_constraints, subject, ("spec", "matchConstraints"), known)
    yield from _conversions(policy, subject, known.release)
    yield from expressions.without_remedy(policy, subject)
    yield from expressions.panics(policy, subject, untyped, known.release)
    yield from expressions.unused(policy, subject)


def _conversions(policy: Policy, subject: LintSubject, release: Release) -> Iterator[LintFinding]:
    """What makes the API server convert objects: mutations, and before 1.37 all (k8s.io/apiserver's plugin/cel)."""
    constraints = policy.match_constraints
    is_narrow = constraints.namespace_selector.requirements or constraints.object_selector.requirements
    places: list[tuple[Path, str]] = []
    if policy.mutations:
        places.append((("spec", "mutations"), "mutations are evaluated for everything that the rules match"))
    elif release.converts_objects and not is_narrow:
        at: Path = ("spec", "matchConstraints", "resourceRules")
        wide = [index for index, rule in enumerate(constraints.resource_rules) if {_ALL, "*/*"} & {*rule.resources}]
        places += (((*at, index, "resources"), "the policy is evaluated for all resources") for index in wide)
    for place, why in places if not policy.match_conditions else ():
        message = f"this makes kube-apiserver convert the object: {why}"
        yield subject.at("object-conversion", place, message, "add a match condition, or narrow the rules")


def _kept(
    findings: Iterable[LintFinding], annotations: Mapping[str, str], subject: LintSubject
) -> Iterator[LintFinding]:
    """The findings that the annotation does not ignore, and findings about unknown names in the annotation."""
    ignored: set[str] = set()
    unknown = []
    for name in filter(None, map(str.strip, annotations.get(LINT_IGNORE, "").split(","))):
        try:
            ignored |= named(name)
        except UnknownCodeError:
            unknown.append(name)
    yield from (finding for finding in findings if finding.code not in ignored)
    for name in unknown:
        remedy = nearest(name, BY_NAME) or f"write one of {', '.join(BY_NAME)}"
        yield subject.at(
            "unknown-ignore", ("metadata", "annotations", LINT_IGNORE), f"there is no finding {name!r}", remedy
        )


def _type_errors(policy: Policy, subject: LintSubject, typed: Sequence[TypedPolicy]) -> Iterator[LintFinding]:
    """Findings about type errors, one for each issue, with all kinds that have it.

    Validations and their messages are checked for each kind, as in Kubernetes. Variables and match conditions may be
    intended for only some of the kinds, and tests may be about fields that only some have: there, an issue counts only
    if all kinds have it.
    """
    judged = set(policy.judged_expressions)
    for expression in policy.expressions:
        shared = {
            node.position for node in walk(parse(expression.source)) if expression not in judged or _is_test(node)
        }
        issues: dict[int, list[tuple[GroupVersionKind | None, Issue]]] = {}
        for policy_ in typed:
            errors = policy_.errors(expression)
            for issue in errors.issues if errors else ():
                issues.setdefault(issue.position, []).append((policy_.kind, issue))
        for position, occurrences in issues.items():
            kinds = dict.fromkeys(kind.kind for kind, _ in occurrences if kind is not None)
            alive = sum(position in policy_.live_positions(expression) for policy_ in typed)
            if position not in shared or len(kinds) == alive:
                message = f"{occurrences[0][1].message}, if the object is a {' or '.join(kinds)}"
                hint = next((issue.hint for _, issue in occurrences if issue.hint), "look it up with kubectl explain")
                yield subject.within("type-error", expression, position, message, hint)


def _is_test(node: Node) -> bool:
    return (isinstance(node, Select) and node.test_only) or (isinstance(node, Call) and node.function == "_?._")
