"""The parts of a rule: its name, the requests it applies to, its decision, and the action on a violation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from policies.engine.exception import PolicyException
from policies.engine.facts import Facts
from policies.engine.match import EVERYTHING, LabelSelector, ResourceRule
from policies.engine.request import AdmissionRequest
from policies.engine.screen import Screener
from policies.engine.violation import More, Violation

Action = Literal["deny", "warn", "audit", "off"]
FailurePolicy = Literal["Fail", "Ignore"]
Phase = Literal["mutate", "validate"]
Scope = Literal["Namespaced", "Cluster", "*"]

POLICY_GROUPS: Mapping[FailurePolicy, str] = {"Fail": "policies", "Ignore": "policies-ignore"}
"""The groups of hooks for policies. The API server calls them at paths such as `/validate/policies`.

Policies that ignore failures have a group of their own, so that the API server refuses nothing because of them while
the service is down.
"""

# One operation of RFC 6902, such as {"op": "add", "path": "/spec/tolerations/-", "value": {...}}.
PatchOperation = dict[str, Any]


class Note(Struct, frozen=True):
    """An entry for the audit log that does not affect the decision."""

    key: str
    value: str


class Skip(Struct, frozen=True):
    """A part of a rule that could not be evaluated, and whose failurePolicy ignores that. rule: its name."""

    rule: str
    reason: str


class SkippedError(Exception):
    """A policy could not be evaluated. The text is the API server's."""


class MutationRefusedError(Exception):
    """A mutating rule refuses the request.

    exception: the ended exception that would have let the request pass.
    """

    def __init__(self, violation: Violation, exception: PolicyException | None = None) -> None:
        super().__init__(violation.summary)
        self.violation = violation
        self.exception = exception


Validator = Callable[[AdmissionRequest, Facts], Sequence[Violation | Note | More | Skip]]


class Mutation(Struct, frozen=True):
    """The changes of a mutating rule, and warnings for the requester.

    excepted: for a rule that applies several policies, those it left out, each with its exception. skipped: those that
    could not be evaluated. notes: for the audit log. ways: who keeps the Pods of each placed template together, for the
    metrics.
    """

    operations: tuple[PatchOperation, ...] = ()
    warnings: tuple[str, ...] = ()
    excepted: tuple[tuple[str, PolicyException], ...] = ()
    skipped: tuple[Skip, ...] = ()
    notes: tuple[Note, ...] = ()
    ways: tuple[str, ...] = ()


NO_MUTATION = Mutation()
Mutator = Callable[[AdmissionRequest, Facts], Mutation]


class HookCondition(Struct, frozen=True):
    """A CEL expression for the API server, which calls the service only if all conditions are true."""

    name: str
    expression: str


class Hook(Struct, frozen=True):
    """The requests of one phase that a rule applies to, and the group under which the API server asks about them.

    Hooks of one phase, group and scope become one entry of the webhook configuration, served at `/<phase>/<group>`;
    they share conditions and failure policy. scope: `Cluster` is an entry without namespaceSelector, `*` one for
    namespaced and cluster-scoped objects. exact: resources and versions match exactly, so the API server converts
    nothing. reinvoked: whether the API server calls a mutation again after other webhooks have changed the object.
    namespaces: a requirement of the rule on Namespaces that the API server may check first. everywhere: whether the
    hook also applies to requests that `Safety` spares, and fails closed for what is essential.
    """

    phase: Phase
    group: str
    resources: tuple[ResourceRule, ...]
    failure_policy: FailurePolicy
    conditions: tuple[HookCondition, ...] = ()
    scope: Scope = "Namespaced"
    exact: bool = False
    reinvoked: bool = True
    namespaces: LabelSelector = EVERYTHING
    everywhere: bool = False


class Rule(Struct, frozen=True):
    """One rule, written in Python or made from a policy in YAML.

    action: the consequence of a violation. reads: the paths that the rule reads in an object besides apiVersion, kind
    and metadata, such as `spec.containers[*].resources`; other paths may be missing. namespaces: selects the Namespaces
    to whose objects the rule applies; it always applies to cluster-scoped objects. validate, mutate: the decision in a
    phase, or None. They must not change the request. screener: judges the rule together with others, if it has one.
    """

    name: str
    hooks: tuple[Hook, ...]
    action: Action
    reads: frozenset[str]
    namespaces: LabelSelector = EVERYTHING
    validate: Validator | None = None
    mutate: Mutator | None = None
    screener: Screener | None = None
