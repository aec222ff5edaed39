"""RBAC offline: what roles and bindings in files allow, answered as kube-apiserver's RBAC authorizer does.

Sources: kubernetes' plugin/pkg/auth/authorizer/rbac/rbac.go (the decision and its reason),
pkg/registry/rbac/validation/rule.go (which bindings apply, and their description), pkg/apis/rbac/v1/
evaluation_helpers.go (what a rule matches) and pkg/controller/clusterroleaggregation (aggregated roles).

Only roles in the files count, not the default roles of a cluster (`cluster-admin`, `view`, `system:discovery`, ...). A
binding to a role that is not in the files grants nothing, and the reason says that the role was not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from policies.admissionpolicy.documents.document import Document, Path
from policies.cel.library.authorizer import Check, CheckAnswer, User
from policies.engine.match import LabelSelector, Operator, SelectorRequirement, listed
from policies.golang.strconv import quote
from policies.kubernetes.release import NEWEST, Release

API_VERSION: Final = "rbac.authorization.k8s.io/v1"
_MASTERS = "system:masters"
_NOBODY = User("")
_T = TypeVar("_T")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


class RbacError(Exception):
    """An RBAC object cannot be read. The text names the place and the problem."""


class RoleRule(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The verbs that are allowed on resources of API groups, or on paths."""

    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = field(default=(), name="nonResourceURLs")

    def allows(self, check: Check) -> bool:
        """Whether the rule allows the check. A rule with resource names never allows a check without a name."""
        if not listed(check.verb, self.verbs):
            return False
        if check.path is not None:
            # Stars at the end of a URL count as one: `/api/**` matches what starts with `/api/`.
            starts = tuple(url.rstrip("*") for url in self.non_resource_urls if url.endswith("*"))
            return check.path in self.non_resource_urls or check.path.startswith(starts)
        named = not self.resource_names or check.name in self.resource_names
        # `*` and `*/scale` stand for all resources; `pods/*` is no pattern.
        sub = check.subresource
        patterns = {"*", f"{check.resource}/{sub}", f"*/{sub}"} if sub else {"*", check.resource}
        return named and listed(check.api_group, self.api_groups) and not patterns.isdisjoint(self.resources)


class RoleSubject(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The user, group or service account that a binding gives a role to."""

    kind: str
    name: str
    api_group: str = ""
    namespace: str = ""

    def is_user(self, user: User, namespace: str) -> bool:
        """Whether the subject is this user. A ServiceAccount without a namespace is in the namespace of its binding."""
        match self.kind:
            case "User":
                return user.name == self.name
            case "Group":
                return self.name in user.groups
            case "ServiceAccount":
                inside = self.namespace or namespace
                return bool(inside) and user.name == f"system:serviceaccount:{inside}:{self.name}"
            case _:
                return False

    def describe(self, namespace: str) -> str:
        """The subject as reasons name it. For a ServiceAccount the name comes before the namespace."""
        name = f"{self.name}/{self.namespace or namespace}" if self.kind == "ServiceAccount" else self.name
        return f"{self.kind} {quote(name)}"


class _Metadata(Struct, frozen=True):
    name: str
    namespace: str = ""
    labels: dict[str, str] = {}


class _RoleRef(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    kind: Literal["Role", "ClusterRole"]
    name: str
    api_group: str = ""


class _Expression(SelectorRequirement, frozen=True, kw_only=True):
    operator: Operator


class _Selector(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[_Expression, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        equal = (SelectorRequirement(key, "In", (value,)) for key, value in self.match_labels.items())
        return LabelSelector((*equal, *self.match_expressions)).matches(labels)


class _AggregationRule(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    cluster_role_selectors: tuple[_Selector, ...] = ()


class _Object(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: Literal["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"]
    metadata: _Metadata

    @property
    def namespace(self) -> str:
        """The namespace; `default` if the object names none, as in kubectl."""
        return "" if self.kind.startswith("Cluster") else self.metadata.namespace or "default"


class _Role(_Object, frozen=True):
    rules: tuple[RoleRule, ...] = ()
    aggregation_rule: _AggregationRule | None = None


class _Binding(_Object, frozen=True, kw_only=True):
    role_ref: _RoleRef
    subjects: tuple[RoleSubject, ...] = ()

    def describe(self, subject: RoleSubject) -> str:
        """The binding as reasons name it: the name comes before the namespace."""
        name = "/".join(part for part in (self.metadata.name, self.namespace) if part)
        role = f"{self.role_ref.kind} {quote(self.role_ref.name)}"
        return f"{self.kind} {quote(name)} of {role} to {subject.describe(self.namespace)}"


class Rights:
    """The rights that roles and bindings give. Answers the checks of expressions (authorizer.Decisions)."""

    def __init__(self, roles: Iterable[_Role], bindings: Iterable[_Binding], release: Release = NEWEST) -> None:
        by_key = {(role.kind, role.namespace, role.metadata.name): role for role in roles}
        self._rules = {key: tuple(_rules(role, by_key.values(), frozenset())) for key, role in by_key.items()}
        self._prefix = "rbac: " if release.names_authorizers else ""
        self._bindings = {(binding.namespace, binding.metadata.name): binding for binding in bindings}

    def answer(self, check: Check) -> CheckAnswer:
        """Allowed if a binding in the files grants it. Cluster bindings come first, then those of the namespace.

        Members of system:masters may do everything, by an authorizer that precedes RBAC. The reason of a refusal names
        the roles that were not found.
        """
        if _MASTERS in check.user.groups:
            return CheckAnswer(allowed=True)
        missing: list[str] = []
        namespaces = [*dict.fromkeys(("", check.namespace))]
        bindings = sorted(
            (one for one in self._bindings.values() if one.namespace in namespaces),
            key=lambda one: namespaces.index(one.namespace),
        )
        for binding in bindings:
            subject = next((one for one in binding.subjects if one.is_user(check.user, binding.namespace)), None)
            rules = self._given(binding)
            if subject is None:
                continue
            if rules is None:
                role = binding.role_ref
                missing.append(f"{role.kind.lower()}.rbac.authorization.k8s.io {quote(role.name)} not found")
            elif any(rule.allows(check) for rule in rules):
                return CheckAnswer(allowed=True, reason=f"RBAC: allowed by {binding.describe(subject)}")
        # As Go's Aggregate shows errors: each text once, in brackets if there are several.
        texts = ", ".join(dict.fromkeys(missing))
        reason = f"{self._prefix}RBAC: {f'[{texts}]' if len(set(missing)) > 1 else texts}"
        return CheckAnswer(allowed=False, reason=reason if missing else "")

    def actors(self, users: Iterable[str], groups: Iterable[str], namespaces: Iterable[str]) -> list[RoleSubject]:
        """Who may act as others: impersonate them, or create tokens of accounts or Pods in namespaces; each once.

        Service accounts have their namespace.
        """
        asked = [Check(user=_NOBODY, verb="impersonate", resource="users", name=name) for name in users]
        asked += [Check(user=_NOBODY, verb="impersonate", resource="groups", name=name) for name in groups]
        ways = (("impersonate", "serviceaccounts", ""), ("create", "serviceaccounts", "token"), ("create", "pods", ""))
        asked += [
            Check(user=_NOBODY, verb=verb, resource=resource, subresource=sub, namespace=namespace)
            for namespace in namespaces
            for verb, resource, sub in ways
        ]
        actors = []
        for binding in self._bindings.values():
            own = [check for check in asked if binding.namespace in ("", check.namespace)]
            if any(rule.allows(check) for rule in self._given(binding) or () for check in own):
                actors += [
                    msgspec.structs.replace(subject, namespace=subject.namespace or binding.namespace)
                    for subject in binding.subjects
                ]
        return list(dict.fromkeys(actors))

    def _given(self, binding: _Binding) -> tuple[RoleRule, ...] | None:
        kind, name = binding.role_ref.kind, binding.role_ref.name
        return self._rules.get((kind, binding.namespace if kind == "Role" else "", name))


def read(documents: Iterable[Document], release: Release = NEWEST) -> Rights | None:
    """The rights that the RBAC objects among the documents give; None without RBAC objects. Raises RbacError.

    release: the API server's.
    """
    roles: list[_Role] = []
    bindings: list[_Binding] = []
    for document in documents:
        if not isinstance(document.value, dict) or document.value.get("apiVersion") != API_VERSION:
            continue
        if str(document.value.get("kind")).endswith("Binding"):
            bindings.append(_converted(document, _Binding))
        else:
            roles.append(_converted(document, _Role))
    return Rights(roles, bindings, release) if roles or bindings else None


def _converted(document: Document, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(_without_nulls(document.value), kind)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at ")
        steps: Path = tuple(int(index) if index else name for name, index in _STEP.findall(path))
        line, column = document.place(steps)
        where = f" at {path.strip('`').removeprefix('$.')}" if steps else ""
        raise RbacError(f"{document.name}:{line}:{column}: {document.value.get('kind')}{where}: {text}") from None


def _rules(role: _Role, roles: Iterable[_Role], above: frozenset[str]) -> Iterator[RoleRule]:
    """The rules of a role. An aggregated role has those of the ClusterRoles it selects, as its controller fills it."""
    if role.aggregation_rule is None:
        yield from role.rules
        return
    above |= {role.metadata.name}
    for selector in role.aggregation_rule.cluster_role_selectors:
        for other in roles:
            chosen = other.kind == "ClusterRole" and selector.matches(other.metadata.labels)
            if chosen and other.metadata.name not in above:
                yield from _rules(other, roles, above)


def _without_nulls(value: Any) -> Any:
    """The value without its nulls. RBAC objects treat null as absent."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
