"""What a rule is: a name, the requests it is for, a decision about them, and what happens when it finds something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from policies.engine.exception import PolicyException
from policies.engine.facts import Facts
from policies.engine.match import EVERYTHING, LabelSelector, ResourceRule
from policies.engine.request import AdmissionRequest
from policies.engine.violation import Violation

Action = Literal["deny", "warn", "audit", "off"]
FailurePolicy = Literal["Fail", "Ignore"]
Phase = Literal["mutate", "validate"]
Scope = Literal["Namespaced", "Cluster", "*"]

POLICY_GROUPS: Mapping[FailurePolicy, str] = {"Fail": "policies", "Ignore": "policies-ignore"}
"""The groups of hooks under which the API server asks about policies, such as `/validate/policies`.

Those that ignore failures have one of their own, so that nothing is refused for their sake when the service is down.
"""

# One operation of RFC 6902, such as {"op": "add", "path": "/spec/tolerations/-", "value": {...}}.
PatchOperation = dict[str, Any]


class Note(Struct, frozen=True):
    """Something for the audit log, which says nothing for or against the request."""

    key: str
    value: str


class MutationRefusedError(Exception):
    """What a mutating rule raises that refuses the request, in its own words.

    exception: by which the request would have passed, had it not ended.
    """

    def __init__(self, violation: Violation, exception: PolicyException | None = None) -> None:
        super().__init__(violation.summary)
        self.violation = violation
        self.exception = exception


Validator = Callable[[AdmissionRequest, Facts], Sequence[Violation | Note]]


class Mutation(Struct, frozen=True):
    """What a mutating rule wants changed, and what the person who made the request should know.

    excepted: where the rule applies several policies, those that it left out, each with the exception.
    """

    operations: tuple[PatchOperation, ...] = ()
    warnings: tuple[str, ...] = ()
    excepted: tuple[tuple[str, PolicyException], ...] = ()


NO_MUTATION = Mutation()
Mutator = Callable[[AdmissionRequest, Facts], Mutation]


class HookCondition(Struct, frozen=True):
    """A CEL expression for the API server: it asks only where all conditions are true."""

    name: str
    expression: str


class Hook(Struct, frozen=True):
    """The requests of one phase that a rule is for, and the group under which the API server asks about them.

    Hooks of one phase, group and scope become one entry of the webhook configuration, served at `/<phase>/<group>`;
    they share conditions and failure policy. scope: `Cluster` is an entry without namespaceSelector, `*` one for
    objects in and outside of Namespaces. exact: the resources are meant as they are written, their versions too, so
    that the API server converts nothing. reinvoked: whether a mutation is asked again when other webhooks have changed
    the object since. namespaces: what it asks of Namespaces anyway, so that the API server may ask it of them first.
    everywhere: whether it is also for what `Safety` spares.
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
    """One decision. A rule in Python and a policy in YAML are the same thing.

    action: what a violation leads to. reads: the paths, as `spec.containers[*].resources`, of all that the rule looks
    at in an object beside apiVersion, kind and metadata; the rest may be missing.
    namespaces: the Namespaces whose objects it is for; cluster-scoped objects are always among them.
    validate, mutate: the decision, None where the rule has none in that phase. They must not change the request.
    """

    name: str
    hooks: tuple[Hook, ...]
    action: Action
    reads: frozenset[str]
    namespaces: LabelSelector = EVERYTHING
    validate: Validator | None = None
    mutate: Mutator | None = None
