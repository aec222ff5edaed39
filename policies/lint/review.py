"""Reviews policies and bindings: all findings, except those that a document ignores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.problem import Problem
from policies.admissionpolicy.documents.reader import Loaded, objects
from policies.admissionpolicy.model import LINT_IGNORE, Policy
from policies.cel.checking.hints import nearest
from policies.cel.checking.validation import walk
from policies.cel.evaluation.recursion import deeply
from policies.cel.syntax.ast import Call, Node, Select
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import Issue
from policies.engine.request import GroupVersionKind
from policies.kubernetes.release import NEWEST, Release
from policies.lint import expressions, matching, quantities
from policies.lint.catalog import ResourceCatalog, catalog
from policies.lint.code import BY_NAME, UnknownCodeError, named
from policies.lint.finding import LintFinding, LintSubject
from policies.lint.typecheck import TypedPolicy, checked_kinds
from policies.lint.unguarded import unguarded


def review(loaded: Loaded, documents: Iterable[Document], release: Release = NEWEST) -> tuple[LintFinding, ...]:
    """All findings about policies and bindings without errors, sorted by file and place.

    documents: the source of the policies and bindings, for the places of fields. release: the API server's.
    """
    places = {_identity(document): document for document in objects(documents)}
    known = catalog((document.value for document in loaded.context), release)
    policies: dict[tuple[str, str], Policy] = {(policy.kind, policy.name): policy for policy in loaded.policies}
    all_findings: list[LintFinding] = []
    for key, policy in policies.items():
        subject = LintSubject(policy.kind, policy.name, places[key])
        findings = deeply(lambda: list(_of_policy(policy, subject, known)))  # noqa: B023 - called at once
        all_findings += _kept(findings, policy.annotations, subject)
    # A policy without a binding has one that nobody wrote.
    written = (binding for binding in loaded.bindings if (binding.kind, binding.name) in places)
    for binding in written:
        subject = LintSubject(binding.kind, binding.name, places[binding.kind, binding.name])
        bound = policies.get((binding.kind.removesuffix("Binding"), binding.policy_name))
        all_findings += _kept(matching.of_binding(binding, bound, subject, known), binding.annotations, subject)
    all_findings += map(_doubt, loaded.warnings)
    return tuple(sorted(all_findings, key=lambda finding: (finding.file, finding.line, finding.column, finding.id)))


def _identity(document: Document) -> tuple[str, str]:
    """The kind and name of an object; empty if it has none."""
    match document.value:
        case {"kind": str(kind), "metadata": {"name": str(name)}}:
            return kind, name
        case _:
            return "", ""


def _doubt(problem: Problem) -> LintFinding:
    """The finding for a warning from reading the documents."""
    return LintFinding(
        id="doubtful",
        subject="",
        file=problem.file,
        line=problem.line,
        column=problem.column,
        path=problem.path,
        message=problem.message,
        remedy=problem.hint,
    )


def _of_policy(policy: Policy, subject: LintSubject, known: ResourceCatalog) -> Iterator[LintFinding]:
    typed = [TypedPolicy(policy, kind, known) for kind in checked_kinds(policy, known)]
    untyped = TypedPolicy(policy, None, known)
    yield from _type_errors(policy, subject, typed)
    yield from quantities.compared(policy, subject, known, typed)
    yield from unguarded(policy, subject, known, typed or [untyped])
    yield from expressions.unreachable(policy, subject, known.release)
    yield from matching.of_policy(policy, subject, known)
    yield from expressions.without_remedy(policy, subject)
    yield from expressions.panics(policy, subject, untyped, known.release)
    yield from expressions.unused(policy, subject)


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
    mutations = {mutation.expression for mutation in policy.mutations}
    for expression in policy.expressions:
        shared = {
            node.position for node in walk(parse(expression.source)) if expression not in judged or _is_test(node)
        }
        issues: dict[int, list[tuple[GroupVersionKind | None, Issue]]] = {}
        for policy_ in typed:
            errors = policy_.errors(expression, patch_types=expression in mutations)
            for issue in errors.error.issues if errors else ():
                issues.setdefault(issue.position, []).append((policy_.kind, issue))
        for position, occurrences in issues.items():
            kinds = dict.fromkeys(kind.kind for kind, _ in occurrences if kind is not None)
            alive = sum(position in policy_.live_positions(expression) for policy_ in typed)
            if position not in shared or len(kinds) == alive:
                message = f"{occurrences[0][1].message}, if the object is a {' or '.join(kinds)}"
                hint = next((issue.hint for _, issue in occurrences if issue.hint), "look it up with kubectl explain")
                yield subject.within("type-error", expression, position, message, hint)


def _is_test(node: Node) -> bool:
    """Whether a node is `has(a.b)` or `a.?b`."""
    return (isinstance(node, Select) and node.test_only) or (isinstance(node, Call) and node.function == "_?._")
