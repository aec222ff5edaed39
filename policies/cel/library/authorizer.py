"""The `authorizer` library: checks of what a user may do. An expression builds a check; the caller answers it.

`authorizer.group('apps').resource('deployments').namespace('team-a').check('create').allowed()`

An evaluation does no I/O. A check without a known answer raises Missing; the caller finds the answer and
evaluates again. Sources: k8s.io/apiserver's pkg/cel/library/authz.go and cost.go,
pkg/authentication/serviceaccount and, for the SubjectAccessReview, plugin/pkg/authorizer/webhook; of selectors
k8s.io/apimachinery's pkg/labels/selector.go and pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from operator import attrgetter
from typing import Any, ClassVar, NoReturn, Protocol

from policies.cel import types
from policies.cel.cost import LIST_CREATION, STRING_TRAVERSAL, STRUCT_CREATION, size
from policies.cel.environment import Implementation, library
from policies.cel.types import Type
from policies.cel.values import CelError, Incomparable, Value, no_such_overload
from policies.engine.interruption import Key
from policies.engine.match import Operator, SelectorRequirement
from policies.golang.strconv import integer, trimmed
from policies.kubernetes.name import dns_label, dns_subdomain, label_key, label_value

AUTHORIZER = types.struct("kubernetes.authorization.Authorizer")
PATH_CHECK = types.struct("kubernetes.authorization.PathCheck")
GROUP_CHECK = types.struct("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK = types.struct("kubernetes.authorization.ResourceCheck")
DECISION = types.struct("kubernetes.authorization.Decision")

CHECK_COST = 350_000
"""The cost of a check. Two checks fit into the limit of an expression, three do not."""

_REQUIREMENT_COST = LIST_CREATION + STRUCT_CREATION
_REQUIREMENTS_PER_CHARACTER = 0.5


# Questions and answers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class User:
    """The user that a check is about. `extra`: keys with their values, in the order of the request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


def service_account(namespace: str, name: str) -> User:
    """The user of a service account (pkg/authentication/serviceaccount). The names are not checked."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(f"system:serviceaccount:{namespace}:{name}", groups=groups)


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """The answer of an authorizer. `allowed`: False for a denial and for no opinion. `error`: possible in all cases."""

    allowed: bool
    reason: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Key[CheckAnswer]):
    """The question whether a user may do something with a path, or without one with a resource in any version."""

    user: User
    verb: str = ""
    path: str | None = None
    api_group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: Requirements = ()
    label_selector: Requirements = ()

    @property
    def missing(self) -> str:
        """The message that the check has no answer."""
        return "an authorization check has no answer yet"

    def failure(self, reason: str) -> CheckAnswer:
        """An errored answer, as from an authorizer that fails. An expression can test it with `errored()`."""
        return CheckAnswer(allowed=False, error=reason)


class Decisions(Protocol):
    """Answers the checks of an expression while it runs."""

    def answer(self, check: Check) -> CheckAnswer:
        """The answer, without waiting. Raises Missing if it is not known."""
        ...


# Values and functions ------------------------------------------------------------------------------------------------


class _Unequal(Incomparable):
    """Values without equality, as in the reference."""

    __slots__ = ()

    def cel_equal(self, other: object) -> NoReturn:
        del other
        raise no_such_overload()


@dataclass(frozen=True, slots=True, eq=False)
class _Inquiry(_Unequal):
    """A check while it is put together, and who answers it. The verb comes last."""

    decisions: Decisions
    check: Check


class Authorizer(_Inquiry):
    """The value of `authorizer`: checks for one user."""

    cel_type = AUTHORIZER


class _PathCheck(_Inquiry):
    cel_type = PATH_CHECK


class _GroupCheck(_Inquiry):
    cel_type = GROUP_CHECK


class ResourceCheck(_Inquiry):
    """`authorizer.group('apps').resource('deployments')` and `authorizer.requestResource`."""

    cel_type = RESOURCE_CHECK


@dataclass(frozen=True, slots=True, eq=False)
class _Decision(_Unequal):
    cel_type: ClassVar[Type] = DECISION
    answer: CheckAnswer


def _service_account(target: Authorizer, namespace: str, name: str) -> Authorizer:
    if dns_subdomain(name):
        raise CelError("Invalid service account name")
    if dns_label(namespace):
        raise CelError("Invalid service account namespace")
    return Authorizer(target.decisions, Check(user=service_account(namespace, name)))


def _narrowed(field: str, read: Callable[[str], Any] = str, kind: type[_Inquiry] = ResourceCheck) -> Implementation:

    def narrowed(target: _Inquiry, value: str) -> _Inquiry:
        if field in ("path", "resource") and not trimmed(value):
            raise CelError(f"{field} must not be empty")
        changes: dict[str, Any] = {field: read(value)}
        return kind(target.decisions, replace(target.check, **changes))

    return narrowed


def _answered(target: _Inquiry, verb: str) -> _Decision:
    return _Decision(target.decisions.answer(replace(target.check, verb=verb)))


def _selector_cost(arguments: Sequence[Value], _: Value) -> int:
    """The cost of a list with as many requirements as the text could contain."""
    length = size(arguments[1])
    requirements = ceil(length * _REQUIREMENTS_PER_CHARACTER)
    return LIST_CREATION + ceil(length * STRING_TRAVERSAL) + requirements * _REQUIREMENT_COST


Requirements = tuple[SelectorRequirement, ...]

_TERM = re.compile(r"(?:[^,\\]|\\.|\\\Z)+", re.DOTALL)
_FIELD = re.compile(r"((?:(?!!?=).)*)(!=|==?)((?:[^\\,=]|\\[\\,=])*)", re.DOTALL)
_LABEL = re.compile(
    r"\s*(!?)\s*([^\s=!(),<>]++)\s*(?:(in|notin)\s*\(([^()]*)\)|(==?|!=|[<>])\s*([^\s=!(),<>]*))?\s*(,|\Z)", re.ASCII
)


def field_requirements(text: str) -> Requirements:
    """The requirements of a field selector such as `spec.nodeName=a,status.phase!=Failed`, sorted by its terms."""
    requirements = []
    for term in sorted(_TERM.findall(text)):
        match = _FIELD.fullmatch(term)
        if match is None:
            return ()
        key, operator, value = match.groups()
        if key:
            value = re.sub(r"\\(.)", r"\1", value)
            requirements.append(SelectorRequirement(key, "NotIn" if operator == "!=" else "In", (value,)))
    return tuple(requirements)


def label_requirements(text: str) -> Requirements:
    """The requirements of a label selector such as `a in (b,c),!d,e=f`, by key; none if it is malformed.

    Comparisons of numbers are left out.
    """
    requirements, position, separator = list[SelectorRequirement](), 0, ","
    while separator:
        match = _LABEL.match(text, position)
        if match is None:
            return ()
        position = match.end()
        absent, key, among, members, sign, value, separator = match.groups()
        values = {one.strip() for one in members.split(",")} if among else {value or ""}
        if label_key(key) or any(map(label_value, values)) or (absent and (among or sign)):
            return ()
        if sign in ("<", ">"):
            try:
                number = integer(value)
            except OverflowError:
                number = None
            if number is None:
                return ()
        elif among or sign:
            is_among: Operator = "NotIn" if among == "notin" or sign == "!=" else "In"
            requirements.append(SelectorRequirement(key, is_among, tuple(sorted(values))))
        else:
            requirements.append(SelectorRequirement(key, "DoesNotExist" if absent else "Exists"))
    return tuple(sorted(requirements, key=lambda requirement: requirement.key))


# An expression cannot use the names of these types, because the reference does not register them.
LIBRARY = library(
    "kubernetes.authz",
    ("authorizer_path: Authorizer.path(string) -> PathCheck", _narrowed("path", kind=_PathCheck)),
    ("authorizer_group: Authorizer.group(string) -> GroupCheck", _narrowed("api_group", kind=_GroupCheck)),
    ("authorizer_serviceaccount: Authorizer.serviceAccount(string, string) -> Authorizer", _service_account),
    ("groupcheck_resource: GroupCheck.resource(string) -> ResourceCheck", _narrowed("resource")),
    ("resourcecheck_subresource: ResourceCheck.subresource(string) -> ResourceCheck", _narrowed("subresource")),
    ("resourcecheck_namespace: ResourceCheck.namespace(string) -> ResourceCheck", _narrowed("namespace")),
    ("resourcecheck_name: ResourceCheck.name(string) -> ResourceCheck", _narrowed("name")),
    ("pathcheck_check: PathCheck.check(string) -> Decision", _answered, CHECK_COST),
    ("resourcecheck_check: ResourceCheck.check(string) -> Decision", _answered, CHECK_COST),
    ("decision_errored: Decision.errored() -> bool", lambda target: target.answer.error is not None),
    ("decision_error: Decision.error() -> string", lambda target: target.answer.error or ""),
    ("decision_allowed: Decision.allowed() -> bool", attrgetter("answer.allowed")),
    ("decision_reason: Decision.reason() -> string", attrgetter("answer.reason")),
    (
        "authorizer_fieldselector: ResourceCheck.fieldSelector(string) -> ResourceCheck",
        _narrowed("field_selector", field_requirements),
        _selector_cost,
    ),
    (
        "authorizer_labelselector: ResourceCheck.labelSelector(string) -> ResourceCheck",
        _narrowed("label_selector", label_requirements),
        _selector_cost,
    ),
    named={t.name.rpartition(".")[2]: t for t in (AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION)},
    work=2.0,
)


# SubjectAccessReview -------------------------------------------------------------------------------------------------


def subject_access_review(check: Check) -> dict[str, Any]:
    """The `spec` of an authorization.k8s.io/v1 SubjectAccessReview, as the webhook authorizer writes it."""
    name, about = "nonResourceAttributes", _set({"path": check.path, "verb": check.verb})
    if check.path is None:
        selectors = {"fieldSelector": check.field_selector, "labelSelector": check.label_selector}
        name, about = "resourceAttributes", _set({
            "namespace": check.namespace, "verb": check.verb, "group": check.api_group, "version": "*",
            "resource": check.resource, "subresource": check.subresource, "name": check.name,
            **{field: _set({"requirements": [one.to_json() for one in own]}) for field, own in selectors.items()},
        })  # fmt: skip
    user, extra = check.user, {key: list(values) for key, values in check.user.extra}
    return {name: about, **_set({"user": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra})}


def _set(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value}


def answer_of(status: Mapping[str, Any]) -> CheckAnswer:
    """The answer in the `status` of a SubjectAccessReview.

    `evaluationError` is the error that the API server's authorizers returned with the decision, so it is the error here
    too. Like the webhook authorizer, this counts allowed and denied at once as denied, with an error.
    """
    allowed, denied = status.get("allowed") is True, status.get("denied") is True
    error = status.get("evaluationError") or None
    if allowed and denied:
        error = "webhook subject access review returned both allow and deny response"
    return CheckAnswer(allowed and not denied, str(status.get("reason") or ""), None if error is None else str(error))
