"""Admission policies as rules of the engine: what they are asked about, and how they meet its look-ups and failures."""

from collections.abc import Callable, Sequence
from datetime import date
from textwrap import dedent

import pytest
from msgspec.structs import replace
from support.builders import FACTS, TODAY, WORKLOADS, NamespacesLost, NamespacesToAsk, deployment, pod, request
from support.policies.policydocuments import documents

from policies.admissionpolicy.documents.reader import Loaded, read
from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS
from policies.admissionpolicy.rules import policyrule
from policies.admissionpolicy.schema import built_in, unknown
from policies.engine import engine
from policies.engine.engine import Answer, Decision
from policies.engine.facts import NamespaceKey, StaticFacts
from policies.engine.interruption import Missing
from policies.engine.match import ResourceRule
from policies.engine.rule import PolicyException, Rule, RuleSet

_SPEC = """\
    matchConstraints:
      matchPolicy: Exact
      namespaceSelector: {matchLabels: {team: ml}}
      resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods]}]
    """
_VALIDATING = f"""\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: limits, annotations: {{cks-admission.dev/derive: "DERIVE"}}}}
spec:
{_SPEC}
    validations: [{{expression: has(object.spec.priorityClassName)}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: limits}}
spec: {{policyName: limits, validationActions: [Deny]}}
"""
_MUTATING = f"""\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: class}}
spec:
{_SPEC}
    failurePolicy: FAILURE
    reinvocationPolicy: Never
    mutations:
    - patchType: ApplyConfiguration
      applyConfiguration: {{expression: "Object{{spec: Object.spec{{priorityClassName: 'low'}}}}"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: class}}
spec: {{policyName: class}}
"""


def _loaded(text: str) -> Loaded:
    loaded = read(documents(dedent(text)))
    assert loaded.problems == ()
    return loaded


def _validating(derive: str = "true") -> Rule:
    loaded = _loaded(_VALIDATING.replace("DERIVE", derive))
    (rule,) = policyrule.validating_rules(loaded.policies, loaded.bindings, NO_PARAMETERS, WORKLOADS)
    return rule


def _mutating(failure_policy: str = "Fail") -> Rule:
    loaded = _loaded(_MUTATING.replace("FAILURE", failure_policy))
    (rule,) = policyrule.mutating_rules(loaded.policies, loaded.bindings, NO_PARAMETERS, unknown)
    return rule


_PODS = ResourceRule(("CREATE", "UPDATE", "DELETE", "CONNECT"), ("",), ("pods",), ("v1",))


def test_a_policy_on_pods_asks_about_workloads_too() -> None:
    """The hook of a derived policy has every kind whose templates are judged; of another one only what it names."""
    unjudged = {("", "Pod"), ("apps", "ControllerRevision")}
    unjudged |= {("trainer.kubeflow.org", kind) for kind in ("ClusterTrainingRuntime", "TrainJob")}
    templates = [
        ResourceRule(("CREATE", "UPDATE"), (row.group,), (f"{row.kind.lower()}s",))
        for row in WORKLOADS.values()
        if row.templates and (row.group, row.kind) not in unjudged
    ]

    assert [hook.resources for hook in _validating().hooks] == [(_PODS, *templates)]
    assert [hook.resources for hook in _validating("false").hooks] == [(_PODS,)]
    assert [hook.resources for hook in _mutating().hooks] == [(_PODS,)]


@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        pytest.param([""], ["team"], id="none in the binding"),
        pytest.param(["{a: b, c: d}"], ["team", "a", "c"], id="one binding"),
        pytest.param(["{a: b, c: d}", "{c: d, e: f}"], ["team", "c"], id="what all bindings ask"),
        pytest.param(["{a: b}", ""], ["team"], id="one binding for all"),
    ],
)
def test_the_namespaces_of_a_policy(bindings: list[str], expected: list[str]) -> None:
    """A hook tells what the policy and all of its bindings ask of Namespaces: nothing else ever comes of a request."""
    policy, binding = _VALIDATING.replace("DERIVE", "true").split("---\n")
    bound = [
        binding.replace("metadata: {name: limits}", f"metadata: {{name: limits-{number}}}").replace(
            "Deny]", f"Deny], matchResources: {{namespaceSelector: {{matchLabels: {labels}}}}}" if labels else "Deny]"
        )
        for number, labels in enumerate(bindings)
    ]
    loaded = _loaded("---\n".join([policy, *bound]))
    (rule,) = policyrule.validating_rules(loaded.policies, loaded.bindings, NO_PARAMETERS, WORKLOADS)

    assert [[each.key for each in hook.namespaces.requirements] for hook in rule.hooks] == [expected]


def test_what_an_explanation_needs_is_read_too() -> None:
    """A rule reads what its expressions read, and the names of items, since the words about an item have its name."""
    expression = "'object.spec.containers.all(c, c.image.size() > 1 && c.ports.all(p, p.hostPort == 0))'"
    loaded = _loaded(_VALIDATING.replace("DERIVE", "false").replace("has(object.spec.priorityClassName)", expression))
    (rule,) = policyrule.validating_rules(loaded.policies, loaded.bindings, NO_PARAMETERS, WORKLOADS)

    items = ("spec.containers[*]", "spec.containers[*].ports[*]")
    assert rule.reads == {f"{items[0]}.image", f"{items[1]}.hostPort", *(f"{item}.name" for item in items)}


@pytest.mark.parametrize("obj", [pod(), deployment()], ids=["pod", "deployment"])
def test_a_namespace_that_is_not_known_is_asked_for(obj: dict[str, object]) -> None:
    """A selector that needs a Namespace asks for it, for a template as well."""
    with pytest.raises(Missing) as needed:
        engine.validate(request(obj), RuleSet([_validating()]), NamespacesToAsk(FACTS.as_of))

    assert needed.value.key == NamespaceKey("default")


@pytest.mark.parametrize(("failure_policy", "allowed"), [("Fail", False), ("Ignore", True)])
def test_a_namespace_that_is_lost_follows_the_failure_policy(failure_policy: str, *, allowed: bool) -> None:
    """What cannot be judged is refused or let pass as the policy says."""
    answer = engine.mutate(request(pod()), RuleSet([_mutating(failure_policy)]), NamespacesLost(FACTS.as_of))

    assert (answer.allowed, answer.operations) == (allowed, ())


_IN_FORCE = StaticFacts(TODAY, namespaces={"default": {"team": "ml"}})
_BROKEN = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: broken, annotations: {cks-admission.dev/derive: "false"}}
spec:
  failurePolicy: Ignore
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: EXPRESSIONS
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: broken}
spec: {policyName: broken, validationActions: [Deny]}
"""
_LIST = "[" + ", ".join(["1"] * 100) + "]"
_QUADRATIC = f"{_LIST}.all(a, {_LIST}.all(b, {_LIST}.all(c, {_LIST}.all(d, a + b + c + d > 0))))"


@pytest.mark.parametrize(
    ("expressions", "denied", "told"),
    [
        ('[{expression: "object.metadata.labels.missing == 1"}]', False, "no such key"),
        (f'[{{expression: "{_QUADRATIC}"}}]', False, "cost"),
        ('[{expression: "object.metadata.labels.missing == 1"}, {expression: "false"}]', True, "no such key"),
    ],
    ids=["error", "over-budget", "beside-a-violation"],
)
def test_what_is_skipped_is_told(expressions: str, denied: bool, told: str) -> None:  # noqa: FBT001
    """An error that the failurePolicy ignores is a warning and a decision on record, beside what was found."""
    loaded = _loaded(_BROKEN.replace("EXPRESSIONS", expressions))
    (rule,) = policyrule.validating_rules(loaded.policies, loaded.bindings, NO_PARAMETERS, WORKLOADS)

    answer = engine.validate(request(pod(labels={})), RuleSet([rule]), _IN_FORCE)

    assert answer.allowed is not denied
    assert [decision.verdict for decision in answer.decisions] == (["deny", "error"] if denied else ["error"])
    assert answer.warnings[0].startswith("policy 'broken' was skipped: ")
    error = answer.decisions[-1].failure
    assert error is not None
    assert told in str(error.error)


def test_a_mutating_policy_that_is_skipped_is_told() -> None:
    """The same holds for policies that change objects; those beside it change the object as ever."""
    broken = _MUTATING.replace("FAILURE", "Ignore").replace("class}", "broken}").replace("'low'", "object.spec.missing")
    answer = _changed(f"{broken}---\n{_TWO}")

    assert [(decision.rule, decision.verdict) for decision in answer.decisions] == [
        ("mutating-policies", "patch"),
        ("broken", "error"),
    ]
    assert answer.warnings[0].startswith("policy 'broken' was skipped")


_TWO = "---\n".join(
    _MUTATING.replace("FAILURE", "Fail").replace("class}", f"{name}}}").replace("priorityClassName: 'low'", field)
    for name, field in (("class", "priorityClassName: 'low'"), ("host", "hostname: 'h'"))
)


def _changed(
    text: str, exceptions: Sequence[PolicyException] = (), team: str = "ml", schemas: policyrule.Schemas = unknown
) -> Answer:
    """What the mutating policies do to a Pod in a Namespace of a team."""
    loaded = _loaded(text)
    rules = policyrule.mutating_rules(loaded.policies, loaded.bindings, NO_PARAMETERS, schemas, exceptions)
    facts = StaticFacts(TODAY, namespaces={"default": {"team": team}})
    return engine.mutate(request(pod()), RuleSet(rules, exceptions), facts)


def test_defaults_are_set_between_two_mutations() -> None:
    """A policy sees what the policy before it added with the defaults that kube-apiserver fills in."""
    container = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'sidecar', image: 'a'}]}}"
    there = "string(has(object.spec.containers[1].imagePullPolicy))"
    seen = f"Object{{metadata: Object.metadata{{annotations: {{'seen': {there}}}}}}}"
    adding = _MUTATING.replace("FAILURE", "Fail").replace("class}", "a}")
    looking = _MUTATING.replace("FAILURE", "Fail").replace("class}", "b}")
    change = "Object{spec: Object.spec{priorityClassName: 'low'}}"
    answer = _changed(
        "---\n".join([adding.replace(change, container), looking.replace(change, seen)]), schemas=built_in
    )

    assert [operation for operation in answer.operations if "annotations" in operation["path"]] == [
        {"op": "add", "path": "/metadata/annotations", "value": {"seen": "true"}}
    ]


def _exception(*policies: str, until: date = TODAY, users: tuple[str, ...] = ()) -> PolicyException:
    return PolicyException("moving", policies, "OPS-1", until, users=users)


_ENDED = date(2026, 2, 28)
_CLASS, _HOST = "/spec/priorityClassName", "/spec/hostname"


@pytest.mark.parametrize(
    ("exception", "decisions", "changed"),
    [
        pytest.param(_exception("class", "labels"), "patch class", {_HOST}, id="from one of several"),
        pytest.param(_exception("class", "host"), "admit class host", set(), id="from all"),
        pytest.param(_exception("class", until=_ENDED), "patch", {_CLASS, _HOST}, id="ended"),
        pytest.param(_exception("class", users=("dave",)), "patch", {_CLASS, _HOST}, id="for others"),
        pytest.param(_exception("labels"), "patch", {_CLASS, _HOST}, id="from another rule"),
    ],
)
def test_an_exception_from_mutating_policies(exception: PolicyException, decisions: str, changed: set[str]) -> None:
    """A policy is left out and on record as excepted, and the others change the object as ever."""
    answer = _changed(_TWO, [exception])

    verdict, *excepted = decisions.split()
    assert [(decision.rule, decision.verdict, decision.exception) for decision in answer.decisions] == [
        ("mutating-policies", verdict, None),
        *((name, "excepted", exception) for name in excepted),
    ]
    assert {operation["path"] for operation in answer.operations} == changed


def test_an_exception_from_a_policy_that_does_not_match_is_not_used() -> None:
    """Only a policy that would have been asked is on record as left out."""
    assert _changed(_TWO, [_exception("class")], team="web").decisions == (Decision("mutating-policies", "admit"),)


_FAILING = _MUTATING.replace("FAILURE", "Fail").replace("'low'", "object.spec.missing")


def test_an_exception_from_a_mutating_policy_that_fails() -> None:
    """A policy that is left out is not evaluated, so that its own failure refuses nothing."""
    assert _changed(_FAILING, [_exception("class")]).allowed


def test_a_failure_that_an_ended_exception_would_have_spared() -> None:
    """The refusal says which exception from the policy has ended."""
    denied = (
        "policy 'class' with binding 'class' denied request: expression 'Object{spec: "
        "Object.spec{priorityClassName: object.spec.missing}}' resulted in error: no such key: missing"
    )
    assert _changed(_FAILING, [_exception("class", until=_ENDED)]).message.splitlines() == [
        denied,
        'The exception "moving" from class ended on 2026-02-28 (OPS-1).',
    ]


def _out_of_time(*, skipped: bool, rule: Rule, run: Callable[..., Answer]) -> Answer:
    """The answer where no time is left from the first look within a policy on, or where the policies are skipped."""
    looks = iter([False])
    facts = replace(StaticFacts(TODAY, namespaces={"default": {"team": "ml"}}), skipped=frozenset({"limits", "class"}))
    if not skipped:
        facts = replace(facts, skipped=frozenset(), expired=lambda: next(looks, True))
    return run(request(pod()), RuleSet([rule]), facts)


@pytest.mark.parametrize("skipped", [False, True], ids=["slow", "skipped"])
def test_a_policy_without_time_follows_its_failure_policy(*, skipped: bool) -> None:
    """A policy that had no time, or is skipped for being slow, has failed: Fail refuses and Ignore says so."""
    refused = _out_of_time(skipped=skipped, rule=_mutating(), run=engine.mutate)
    admitted = _out_of_time(skipped=skipped, rule=_mutating("Ignore"), run=engine.mutate)
    why = "it was too slow several times" if skipped else "the time for the review is over"

    assert (refused.allowed, refused.operations) == (False, ())
    assert why in refused.message
    assert (admitted.allowed, admitted.operations) == (True, ())
    assert [warning.startswith(f"policy 'class' was skipped: {why}") for warning in admitted.warnings] == [True]


def test_a_validating_policy_that_is_skipped() -> None:
    """A validating policy that is skipped has failed, too, and is not evaluated."""
    answer = _out_of_time(skipped=True, rule=_validating(), run=engine.validate)
    assert answer.message.startswith("Rule 'limits' could not be evaluated (SkippedPolicyError: it was too slow")
