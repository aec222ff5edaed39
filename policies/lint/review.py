"""Reviews policies and bindings: all findings, except those that a document ignores.

Here are those about constant or crashing expressions, unused names, messages that do not help, compared quantities, and
rules that no request meets; absence.py has those about what may be absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import product
from typing import Any

from policies.admissionpolicy.builtin.table import ApiResource, served_resources
from policies.admissionpolicy.documents.document import Document, Path
from policies.admissionpolicy.documents.reader import Loaded, objects
from policies.admissionpolicy.model import LINT_IGNORE, Binding, Expression, MatchResources, NamedRule, Policy
from policies.admissionpolicy.mutation.merge import atomics
from policies.admissionpolicy.schema import SchemaNode, built_in
from policies.cel import types
from policies.cel.checker import nearest
from policies.cel.environment import Dialect
from policies.cel.kubernetes import admission
from policies.cel.program import compile_expression
from policies.cel.recursion import deeply
from policies.cel.syntax import ast
from policies.cel.syntax.formatting import literal
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Issue
from policies.cel.types import Kind
from policies.cel.values import Uint
from policies.engine.request import GroupVersionKind
from policies.kubernetes.release import NEWEST, Release
from policies.kubernetes.spelling import closest
from policies.lint.absence import unguarded
from policies.lint.finding import BY_NAME, LintFinding, LintSubject, UnknownCodeError, named
from policies.lint.typecheck import QUANTITY_TYPE, ResourceCatalog, TypedPolicy, catalog, checked_kinds


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
    places: dict[tuple[str, str], Document] = {}
    for document in objects(documents):
        match document.value:
            case {"kind": str(kind), "metadata": {"name": str(name)}}:
                places[kind, name] = document
            case _:
                pass
    known = catalog((document.value for document in loaded.context), release)
    policies: dict[tuple[str, str], Policy] = {(policy.kind, policy.name): policy for policy in loaded.policies}
    all_findings: list[LintFinding] = []
    for key, policy in policies.items():
        subject = LintSubject(policy.kind, policy.name, places[key])
        with within(policy):
            findings = deeply(lambda: list(_of_policy(policy, subject, known)))  # noqa: B023 - called at once
        all_findings += _kept(findings, policy.annotations, subject)
    for binding in loaded.bindings:
        if (binding.kind, binding.name) in places:  # a policy without a binding has one that nobody wrote
            subject = LintSubject(binding.kind, binding.name, places[binding.kind, binding.name])
            bound = policies.get((binding.kind.removesuffix("Binding"), binding.policy_name))
            all_findings += _kept(_of_binding(binding, bound, subject, known), binding.annotations, subject)
    all_findings += [
        LintFinding("doubtful", "", doubt.file, doubt.line, doubt.column, doubt.path, doubt.message, doubt.hint)
        for doubt in loaded.warnings
    ]
    return tuple(sorted(all_findings, key=lambda finding: (finding.file, finding.line, finding.column, finding.id)))


def _kept(
    findings: Iterable[LintFinding], annotations: Mapping[str, str], subject: LintSubject
) -> Iterator[LintFinding]:
    """The findings that the annotation does not ignore, and findings about unknown names in the annotation."""
    ignored: set[str] = set()
    for name in filter(None, map(str.strip, annotations.get(LINT_IGNORE, "").split(","))):
        try:
            ignored |= named(name)
        except UnknownCodeError:
            remedy = nearest(name, BY_NAME) or f"write one of {', '.join(BY_NAME)}"
            path = ("metadata", "annotations", LINT_IGNORE)
            yield subject.at("unknown-ignore", path, f"there is no finding {name!r}", remedy)
    yield from (finding for finding in findings if finding.code not in ignored)


def _of_policy(policy: Policy, subject: LintSubject, known: ResourceCatalog) -> Iterator[LintFinding]:
    typed = [TypedPolicy(policy, kind, known) for kind in checked_kinds(policy, known)]
    untyped = TypedPolicy(policy, None, known)
    yield from _type_errors(policy, subject, typed)
    yield from _compared_quantities(policy, subject, known, typed)
    yield from unguarded(policy, subject, known, typed or [untyped])
    yield from _futile(policy, subject, typed)
    yield from _unreachable(policy, subject, known.release)
    yield from _of_resources(policy.match_constraints, subject, ("spec", "matchConstraints"), known)
    yield from _conversions(policy, subject, known.release)
    yield from _without_remedy(policy, subject)
    yield from _panics(policy, subject, untyped, known.release)
    yield from _unused(policy, subject)


# Expressions ---------------------------------------------------------------------------------------------------------


def _type_errors(policy: Policy, subject: LintSubject, typed: Sequence[TypedPolicy]) -> Iterator[LintFinding]:
    """Findings about type errors, one for each issue, with all kinds that have it.

    Validations and their messages are checked for each kind, as in Kubernetes. Variables and match conditions may be
    intended for only some of the kinds, and tests may be about fields that only some have: there, an issue counts only
    if all kinds have it.
    """
    judged = set(policy.judged_expressions)
    for expression in policy.expressions:
        shared = {
            node.position
            for node in ast.walk(parse(expression.source))
            if expression not in judged
            or (isinstance(node, ast.Select) and node.test_only)
            or (isinstance(node, ast.Call) and node.function == "_?._")
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


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NUMBERS = frozenset((Kind.INT, Kind.UINT, Kind.DOUBLE))


def _compared_quantities(
    policy: Policy, subject: LintSubject, catalog: ResourceCatalog, typed: Sequence[TypedPolicy]
) -> Iterable[LintFinding]:
    """Findings about comparisons of quantities, each place once. typed: the policy for each of its kinds.

    Expressions see a quantity as a text such as `500m`, whatever its author wrote. A comparison with a number fails,
    one with another text goes letter by letter.
    """
    findings: dict[tuple[str, int], LintFinding] = {}
    for plain in typed:
        deep = TypedPolicy(policy, plain.kind, catalog, deep=True)
        for expression in policy.expressions:
            for position, message, remedy in _comparisons(deep, expression):
                finding = subject.within("quantity-comparison", expression, position, message, remedy)
                findings.setdefault((expression.path, position), finding)
    return findings.values()


def _comparisons(typed: TypedPolicy, expression: Expression) -> Iterator[tuple[int, str, str]]:
    """The wrong comparisons of quantities in an expression: the place, the problem and the remedy of each."""
    tree, text = typed.tree(expression), expression.source.text
    live = typed.live_positions(expression)
    for node in () if isinstance(tree, CompileError) else ast.walk(tree):
        sign = node.function[1:-1] if isinstance(node, ast.Call) and node.position in live else ""
        if not isinstance(node, ast.Call) or sign not in ("==", "!=", *_MIRRORED):
            continue
        own, other = node.args
        if not _is_quantity(own):
            own, other, sign = other, own, _MIRRORED.get(sign, sign)
        with_number = other.type is not None and other.type.kind in _NUMBERS
        with_text = sign in _MIRRORED and (other.type == types.STRING or _is_quantity(other))
        if not _is_quantity(own) or not (with_number or with_text):
            continue
        written, amount = text[own.start : own.end], text[other.start : other.end]
        if not with_number:
            why = ': texts are compared letter by letter, so "10" comes before "9"'
        elif sign in _MIRRORED:
            why = ": compared with a number, it is an error"
        else:
            why = " that is never equal to a number"
        message = f'{written} is a quantity, which expressions see as a text such as "8" or "500m"{why}'
        # Numbers have to become texts, also the one to which an absent quantity falls back.
        default = own.args[0] if isinstance(own, ast.Call) and own.function == "orValue" else None
        if default is not None and (number := _number(default)):
            written = f"{text[own.start : default.start]}{number}{text[default.end : own.end]}"
        amount = _number(other) or (f"string({amount})" if with_number else amount)
        yield node.position, message, f"write quantity({written}).compareTo(quantity({amount})) {sign} 0"


def _is_quantity(node: ast.Node) -> bool:
    type_ = node.type
    while type_ is not None and type_.name == types.OPTIONAL.name:
        type_ = type_.parameters[0]
    return type_ == QUANTITY_TYPE


def _number(node: ast.Node) -> str:
    """A number that is written out, as a text in CEL; empty for anything else."""
    value = node.value if isinstance(node, ast.Literal) else None
    return literal(str(value)) if isinstance(value, int | float | Uint) and not isinstance(value, bool) else ""


_OPERATIONS = ("add", "copy", "move", "remove", "replace", "test")


def _futile(policy: Policy, subject: LintSubject, typed: Sequence[TypedPolicy]) -> Iterator[LintFinding]:
    schemas = [built_in(one.kind) for one in typed if one.kind is not None]
    roots = [schema.root for schema in schemas if schema is not None]
    known = roots if len(roots) == len(schemas) else []
    for expression in (mutation.expression for mutation in policy.mutations):
        for node in ast.walk(parse(expression.source)):
            problems: list[tuple[ast.Node, str, str]] = []
            if isinstance(node, ast.StructLiteral) and node.type_name == "Object":
                refused = [set(atomics(_skeleton(node), root)) for root in known]
                problems += (
                    (
                        node,
                        f"an ApplyConfiguration may not write {path}, which is atomic",
                        "write the whole by a JSONPatch",
                    )
                    for path in (sorted(set.intersection(*refused)) if refused else ())
                )
            elif isinstance(node, ast.StructLiteral) and node.type_name == "JSONPatch":
                problems += (one for field in node.fields for one in _futile_patch(field, known))
            for at, message, remedy in problems:
                yield subject.within("type-error", expression, at.position, message, remedy)


def _skeleton(node: ast.Node) -> Any:
    """The maps and lists that literals write, whatever is in them."""
    if isinstance(node, ast.StructLiteral):
        return {field.name: _skeleton(field.value) for field in node.fields}
    return [_skeleton(item) for item in node.elements] if isinstance(node, ast.ListLiteral) else None


def _futile_patch(field: ast.FieldValue, roots: Sequence[SchemaNode]) -> Iterator[tuple[ast.Node, str, str]]:
    text = field.value.value if isinstance(field.value, ast.Literal) else None
    if not isinstance(text, str) or field.name not in ("op", "path", "from"):
        return
    if field.name == "op":
        if text not in _OPERATIONS:
            yield field.value, f"there is no operation {text!r}", f"write one of {', '.join(_OPERATIONS)}"
    elif not text.startswith("/"):
        yield field.value, f"the path {text!r} does not begin with /", "write it as /spec/replicas"
    elif roots and not any(_leads(text, root) for root in roots):
        yield field.value, f"no field is at the path {text!r}", "look it up with kubectl explain"


def _leads(path: str, node: SchemaNode) -> bool:
    below: SchemaNode | None = node
    for step in path.split("/")[1:]:
        if below is None:
            return False
        is_index = below.item is not None and (step == "-" or step.isdecimal())
        below = below.item if is_index else below.child(step.replace("~1", "/").replace("~0", "~"))
    return below is not None


_FOLDED = 10_000  # the cost up to which constant expressions are computed


def _unreachable(policy: Policy, subject: LintSubject, release: Release) -> Iterator[LintFinding]:
    """Findings about validations that are never false: constants, duplicates, and all behind a false condition."""
    known = admission(dialect=Dialect(release, stored=True))

    def constant(expression: Expression) -> bool | None:
        """The value of a constant expression; None if it reads something or fails."""
        names = {node.name for node in ast.walk(parse(expression.source)) if isinstance(node, ast.Ident)}
        if names & known.variables.keys():
            return None
        try:
            value = compile_expression(expression.text, known, types.BOOL).evaluate({}, limit=_FOLDED).value
        except CompileError:
            return None
        return value if isinstance(value, bool) else None

    for condition in policy.match_conditions:
        if constant(condition.expression) is False:
            message = f"the match condition {condition.name} is always false, so nothing is ever validated"
            remedy = "remove the condition, or the whole policy"
            yield subject.within("unreachable-validation", condition.expression, 0, message, remedy)
    earlier: dict[str, str] = {}  # the paths of the expressions that demand what a text says
    for expression in (validation.expression for validation in policy.validations):
        whole = " ".join(expression.text.split())
        if constant(expression) is True:
            remedy = "remove it, or test the object"
            yield subject.within("unreachable-validation", expression, 0, "this is always true", remedy)
        elif whole in earlier:
            message = f"{earlier[whole]} already requires the same"
            yield subject.within("unreachable-validation", expression, 0, message, "remove one of them")
        parts = [parse(expression.source)]
        for part in parts:
            earlier.setdefault(" ".join(expression.text[part.start : part.end].split()), expression.path)
            parts += part.args if isinstance(part, ast.Call) and part.function == "_&&_" else ()


_SHORTEST = 20  # characters: a shorter message has no room for a remedy


def _without_remedy(policy: Policy, subject: LintSubject) -> Iterator[LintFinding]:
    for index, validation in enumerate(policy.validations):
        text = validation.message.strip()
        if validation.message_expression is not None or len(text) >= _SHORTEST:
            continue
        field, message = "expression", "there is no message, so users see the expression"
        if text:
            field, message = "message", f"the message {text!r} does not say what to do"
        remedy = "write a message that says what is wrong and how to fix it"
        yield subject.at("no-remedy", ("spec", "validations", index, field), message, remedy)


def _panics(policy: Policy, subject: LintSubject, untyped: TypedPolicy, release: Release) -> Iterator[LintFinding]:
    """Findings about expressions on which kube-apiserver panics: `[?object[?'a']]`, `{?'k': object[?'a']}`.

    Its library assumes that the type of an optional element is an optional, but an optional index of dyn is dyn
    (mapLiteral and listLiteral in cel-go's cel/validator.go).
    """
    for expression in policy.expressions:
        tree = untyped.tree(expression)
        elements: list[ast.Node] = []
        for node in () if isinstance(tree, CompileError) else ast.walk(tree):
            if isinstance(node, ast.ListLiteral):
                elements += [node.elements[index] for index in sorted(node.optional)]
            elif isinstance(node, ast.MapLiteral):
                elements += [entry.value for entry in node.entries if entry.optional]
        for element in elements:
            if element.type == types.DYN:
                message = f"kube-apiserver {release.name} panics on an optional element of unknown type"
                remedy = "select with .?name instead of [?'name'], or append .optMap(x, x)"
                yield subject.within("native-panic", expression, element.start, message, remedy)


def _unused(policy: Policy, subject: LintSubject) -> Iterator[LintFinding]:
    trees = [parse(expression.source) for expression in policy.expressions]
    read = [ast.variables(tree) for tree in trees]
    for index, variable in enumerate(policy.variables):
        if not any(known is None or variable.name in known for known in read):
            path = ("spec", "variables", index, "name")
            yield subject.at(
                "unused-variable", path, f"no expression reads variables.{variable.name}", "remove it, or use it"
            )
    names = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Ident)}
    if policy.param_kind is not None and "params" not in names:
        message = f"no expression reads params, but without a {policy.param_kind.kind} the policy may have no effect"
        remedy = "remove paramKind, and paramRef from the bindings"
        yield subject.at("unused-params", ("spec", "paramKind"), message, remedy)


# Rules ---------------------------------------------------------------------------------------------------------------

_ID = "never-matches"
_ALL = "*"
# Subresources that are connections. All other resources are created, updated or deleted.
_CONNECTED = frozenset({"pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy"})
_UPDATED_ONLY = ("status", "scale", "finalize", "resize", "ephemeralcontainers")


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


def _of_binding(
    binding: Binding, policy: Policy | None, subject: LintSubject, catalog: ResourceCatalog
) -> Iterator[LintFinding]:
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
        yield subject.at(_ID, (*path, "resourceRules"), message, "use resources and operations that the policy matches")


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
        for index, requirement in enumerate(selector.requirements):
            for other in filter(requirement.excludes, selector.requirements[:index]):
                both = " and ".join(
                    f"{one.operator} [{', '.join(one.values)}]" if one.values else one.operator
                    for one in (other, requirement)
                )
                message = f"no object can meet both requirements for the label {requirement.key}: {both}"
                yield subject.at(_ID, (*path, name), message, "remove one of them")


def _of_rule(rule: NamedRule, subject: LintSubject, path: Path, catalog: ResourceCatalog) -> Iterator[LintFinding]:
    built_in_groups = {resource.group for resource in served_resources()}
    known: list[ApiResource] = []
    is_known = True
    for index, name in enumerate(rule.resources):
        at = (*path, "resources", index)
        own = [
            resource
            for resource in catalog.resources
            if resource.group in rule.api_groups
            and resource.name == name
            and (_ALL in rule.api_versions or resource.version in rule.api_versions)
        ]
        known += own
        is_known = is_known and bool(own)
        happens = ["CREATE", "UPDATE", "DELETE"]
        if name in _CONNECTED:
            happens = ["CONNECT"]
        elif name.partition("/")[2] in _UPDATED_ONLY:
            happens = ["UPDATE"]
        meant = _misnamed(rule, name, catalog)
        if meant is not None:
            groups = " or ".join(group or "the core group" for group in rule.api_groups)
            remedy = f"write {meant}" if meant else "use the plural name, such as pods"
            yield subject.at(_ID, at, f"there is no resource {name!r} in {groups}", remedy)
        elif (
            _ALL not in name
            and built_in_groups.issuperset(rule.api_groups)
            and not {_ALL, *happens} & {*rule.operations}
        ):
            verb = "happens" if len(rule.operations) == 1 else "happen"
            message = f"{' and '.join(rule.operations)} never {verb} to {name}"
            yield subject.at(_ID, at, message, f"write {' or '.join(happens)}, or name another resource")
    scopes = {resource.scope for resource in known}
    if rule.scope != _ALL and scopes and is_known and rule.scope not in scopes:
        message = f"the scope is {rule.scope}, but {', '.join(rule.resources)} is {scopes.pop()}"
        yield subject.at(_ID, (*path, "scope"), message, 'remove the scope, or write "*"')


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
    for resource in known:
        if name.lower() == resource.kind.kind.lower() and "/" not in resource.name:
            return resource.name
    suggestion = closest(name, [resource.name for resource in known])
    return suggestion if suggestion or _ALL not in rule.api_versions else None


def _overlap(rule: NamedRule, other: NamedRule) -> bool:
    """Whether two rules may match the same request. Versions and names of equivalent kinds are not compared."""
    lists = zip(_lists(rule), _lists(other), strict=True)
    return all(_ALL in {*mine, *theirs} or {*mine} & {*theirs} for mine, theirs in lists) and any(
        all(_ALL in parts or len({*parts}) == 1 for parts in zip(name, also, strict=True))
        for name, also in product(_resources(rule), _resources(other))
    )


def _covers(wide: NamedRule, narrow: NamedRule) -> bool:
    lists = ((wide.api_versions, narrow.api_versions), *zip(_lists(wide), _lists(narrow), strict=True))
    return all(_ALL in above or {*above} >= {*below} for above, below in lists) and all(
        any(all(above in (below, _ALL) for above, below in zip(other, name, strict=True)) for other in _resources(wide))
        for name in _resources(narrow)
    )


def _lists(rule: NamedRule) -> Sequence[Sequence[str]]:
    """What a rule names, without its versions and resources; a `*` where it names nothing in particular."""
    return rule.api_groups, rule.operations, rule.resource_names or (_ALL,), (rule.scope,)


def _resources(rule: NamedRule) -> list[Sequence[str]]:
    return [name.partition("/")[::2] for name in rule.resources]
