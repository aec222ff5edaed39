"""Admission policies as rules of the engine: what they are asked about, together and one by one, and how they fail."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from datetime import date
from textwrap import dedent
from typing import Any

import pytest
from msgspec.structs import replace
from support.builders import (
    FACTS,
    TODAY,
    WORKLOADS,
    Json,
    NamespacesLost,
    NamespacesToAsk,
    deployment,
    pod,
    request,
    resource,
)
from support.cel.celrun import compiled, names
from support.policies.admissionpolicies import CONFIG_MAPS, inputs, parameters, validating
from support.policies.policydocuments import documents

from policies.admissionpolicy.documents.reader import Loaded, read
from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS, StaticParameters
from policies.admissionpolicy.evaluation.validator import Group
from policies.admissionpolicy.model import MatchResources, NamedRule
from policies.admissionpolicy.rules import policyrule
from policies.admissionpolicy.rules.policyrule import Matcher, MatchError, SubjectCache, is_seen
from policies.admissionpolicy.schema import built_in, unknown
from policies.cel.cost import EXPRESSION_LIMIT, POLICY_LIMIT
from policies.engine import engine
from policies.engine.engine import Answer, Decision
from policies.engine.facts import NamespaceKey, StaticFacts
from policies.engine.interruption import Missing, PostponedError
from policies.engine.match import LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.request import AdmissionRequest
from policies.engine.rule import PolicyException, Rule, RuleSet
from webhook.metrics import RuleTimes

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


def _judging(text: str) -> Sequence[Rule]:
    """The rules of validating policies."""
    loaded = _loaded(text)
    return policyrule.validating_rules(loaded.policies, loaded.bindings, NO_PARAMETERS, WORKLOADS)


def _validating(derive: str = "true") -> Rule:
    (rule,) = _judging(_VALIDATING.replace("DERIVE", derive))
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
    (rule,) = _judging("---\n".join([policy, *bound]))

    assert [[each.key for each in hook.namespaces.requirements] for hook in rule.hooks] == [expected]


def test_what_an_explanation_needs_is_read_too() -> None:
    """A rule reads what its expressions read, and the names of items, since the words about an item have its name."""
    expression = "'object.spec.containers.all(c, c.image.size() > 1 && c.ports.all(p, p.hostPort == 0))'"
    (rule,) = _judging(_VALIDATING.replace("DERIVE", "false").replace("has(object.spec.priorityClassName)", expression))

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
    rules = _judging(_BROKEN.replace("EXPRESSIONS", expressions))

    answer = engine.validate(request(pod(labels={})), RuleSet(rules), _IN_FORCE)

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
    return engine.mutate(request(pod()), RuleSet(rules, exceptions), StaticFacts(TODAY, {"default": {"team": team}}))


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


def test_an_exception_from_a_mutating_policy_that_fails() -> None:
    """Its failure refuses nothing, as it is not evaluated; once the exception has ended the refusal says so."""
    failing = _MUTATING.replace("FAILURE", "Fail").replace("'low'", "object.spec.missing")

    assert _changed(failing, [_exception("class")]).allowed
    assert _changed(failing, [_exception("class", until=_ENDED)]).message.splitlines() == [
        (
            "policy 'class' with binding 'class' denied request: expression 'Object{spec: "
            "Object.spec{priorityClassName: object.spec.missing}}' resulted in error: no such key: missing"
        ),
        'The exception "moving" from class ended on 2026-02-28 (OPS-1).',
    ]


def _out_of_time(*, skipped: bool, rule: Rule, run: Callable[..., Answer]) -> Answer:
    """The answer where no time is left from the first look within a policy on, or where the policies are skipped."""
    looks = iter([False])
    slow = replace(_IN_FORCE, expired=lambda: next(looks, True))
    facts = replace(_IN_FORCE, skipped=frozenset({"limits", "class"})) if skipped else slow
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


def test_a_request_with_the_same_facts_is_one_subject() -> None:
    """Its inputs and Pods are made once, and after a look-up it is judged with what was found."""
    subjects, asked = SubjectCache(WORKLOADS), request(deployment())
    first, second = subjects.of(asked, FACTS), subjects.of(asked, FACTS)
    assert (first is second, first.inputs is second.inputs, first.pods is second.pods) == (True, True, True)
    assert [pod.owner.kind for pod, _ in first.pods] == ["Deployment"]
    known = StaticFacts(FACTS.as_of, {"team": {"a": "b"}})
    after = subjects.of(asked, known)
    assert (first.facts, after.facts, after.inputs is first.inputs) == (FACTS, known, False)


def test_a_request_is_kept_no_longer_than_its_review() -> None:
    """The cache does not keep the last request alive, nor the objects in it."""
    subjects, asked = SubjectCache(WORKLOADS), request(deployment())
    reference = weakref.ref(asked)
    subject = weakref.ref(subjects.of(asked, FACTS))
    assert len(subjects.of(asked, FACTS).pods) == 1
    del asked
    assert (reference(), subject()) == (None, None)


def test_an_evaluation_leaves_nothing_to_the_garbage_collector() -> None:
    """Variables hold the object of a review: it is freed with them, and policies with their last reference."""
    variables = [{"name": "a", "expression": "object.data.a"}, {"name": "b", "expression": "variables.a + variables.a"}]
    gc.collect()
    gc.disable()
    try:
        compiled = validating("variables.b == '11'", variables=variables)
        group = Group(compiled.composition, inputs().names(None), POLICY_LIMIT, None)
        assert group.evaluate(compiled.validations[0]) is True
        del compiled, group
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_parameter_is_the_first_of_its_name() -> None:
    """Of two objects alike the first counts, and one without a proper name is never meant."""
    first, second, nameless = (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team"}, "data": {"n": text}}
        for name, text in (("p", "1"), ("p", "2"), (["p"], "3"))
    )
    known = StaticParameters((nameless, first, second), parameters().scopes)
    assert known.named(CONFIG_MAPS, "team", "p") is first


_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  matchConstraints:
    resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]
  variables: [{{name: v, expression: "{variable}"}}]
  validations: [{{expression: "{expression}"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec: {{policyName: {name}, validationActions: [Deny]}}
---
"""
_LISTS = "[1,1,1,1,1,1,1,1,1,1]"
# Some 12 units of cost for each of 10,000 sums, and ten times that.
_SHARED = f"{_LISTS}.all(b, {_LISTS}.all(c, {_LISTS}.all(d, b + c + d + 1 + 1 + 1 == 6)))"
_COSTLY = f"{_LISTS}.all(a, {_LISTS}.all(b, {_LISTS}.all(c, {_LISTS}.all(d, a + b + c + d == 4))))"
_DEAR = f"{_LISTS}.all(z, {_COSTLY})"


def _rules(*expressions: str, variable: str = "1") -> RuleSet:
    """Policies p0, p1, ..., of one validation each, and of one variable."""
    text = "".join(
        _POLICY.format(name=f"p{index}", expression=expression, variable=variable)
        for index, expression in enumerate(expressions)
    )
    return RuleSet(_judging(text))


def _asked(rules: RuleSet, obj: Any, facts: StaticFacts = FACTS) -> list[str]:
    """The policies that are asked one by one after they are fused; before that, all of them are."""
    asked = request(obj)
    ((screener, those),) = rules.turn("validate", asked).screens
    assert set(screener.asked(those, asked, facts)) == {rule.name for rule in rules.rules}
    assert screener.is_waiting
    screener.prepare()
    assert not screener.is_waiting
    return list(screener.asked(those, asked, facts))


@pytest.mark.parametrize(
    ("expressions", "obj", "asked"),
    [
        (
            ("true", "object.spec.none == 1", "has(object.spec)", "object.kind == 'Job'", "variables.v == 1"),
            pod(),
            ["p1", "p3"],
        ),
        (("true", _DEAR, "true"), pod(), ["p1"]),
        (("object.kind == 'Pod'", "object.spec.containers.all(c, has(c.resources.limits))"), deployment(), ["p1"]),
    ],
    ids=["false, failing or true", "over a limit", "the Pods of a template"],
)
def test_only_what_may_have_something_to_say_is_asked(
    expressions: tuple[str, ...], obj: Json, asked: list[str]
) -> None:
    """A policy that is false, that fails or that is over a limit is asked; the others are not."""
    assert _asked(_rules(*expressions), obj) == asked


def test_a_variable_that_fails_fails_all_that_read_it() -> None:
    """It is written once for both policies, and each of them is asked."""
    rules = _rules("variables.v == 1", "object.kind == 'Pod' || variables.v == 1", "variables.v != 2", variable="1 / 0")

    assert _asked(rules, pod()) == ["p0", "p2"]


def test_a_shared_variable_costs_each_policy_the_same() -> None:
    """Its cost counts for each policy that reads it, also for one that finds it evaluated."""
    rules = _rules(*["variables.v"] * 10, variable=_SHARED)
    (screener,) = rules.screeners
    asked = request(pod())
    engine.validate(asked, rules, FACTS)
    screener.prepare()
    ((_, those),) = rules.turn("validate", asked).screens

    first = EXPRESSION_LIMIT // 10 // compiled(_SHARED).evaluate(names()).cost
    assert 0 < first < 10
    assert list(screener.asked(those, asked, FACTS)) == [f"p{index}" for index in range(first, 10)]
    assert engine.validate(asked, rules, FACTS).allowed


def test_what_is_used_of_a_limit_is_told() -> None:
    """Of policies that use a tenth of it, whether or not they were judged together first."""
    rules = _rules("true", _COSTLY, _DEAR)
    cost = compiled(_COSTLY).evaluate(names()).cost
    times = RuleTimes()
    asked, facts = request(pod()), StaticFacts(TODAY, spend=times.spend)
    (screener,) = rules.screeners
    for _ in range(2):
        engine.validate(asked, rules, facts)
        screener.prepare()

        (costly, dear), times.used = times.used.items(), {}
        assert (costly, dear[0]) == (("p1", cost / EXPRESSION_LIMIT), "p2")
        assert dear[1] >= 1


def test_a_policy_that_is_skipped_is_asked() -> None:
    """The policy itself then says that it is skipped."""
    facts = StaticFacts(TODAY, skipped=frozenset({"p1"}))

    assert _asked(_rules("true", "true"), pod(), facts) == ["p1"]


def test_an_evaluation_that_takes_too_long_names_its_policy() -> None:
    """Reviews for this rule go to the child process from then on."""

    def expired() -> bool:
        raise PostponedError

    rules = _rules("true", _COSTLY, "true")
    asked = request(pod())
    engine.validate(asked, rules, FACTS)
    for screener in rules.screeners:
        screener.prepare()
    with pytest.raises(PostponedError) as caught:
        engine.validate(asked, rules, StaticFacts(TODAY, expired=expired))

    assert caught.value.rule == "p1"


def test_all_answers_in_which_every_rule_admits_are_one() -> None:
    """No object is made for a policy that has nothing to say."""
    rules = _rules("true", "true")
    _asked(rules, pod())

    first, second = (engine.validate(request(pod(hostname=name)), rules, FACTS) for name in ("a", "b"))

    assert first is second
    assert [decision.rule for decision in first.unanimity or ()] == ["p0", "p1"]


def _named(*resources: str) -> NamedRule:
    """Every operation on resources of any group."""
    return NamedRule(api_groups=("*",), api_versions=("*",), operations=("*",), resources=resources)


def _is_selected(asked: AdmissionRequest, resources: str = "pods", **fields: Any) -> bool:
    """Whether a policy for production is about a request, where `far` is not known yet and no other Namespace is."""

    def labels(namespace: str) -> None:
        if namespace == "far":
            raise Missing(NamespaceKey(namespace))

    match = MatchResources(resource_rules=(_named(resources),), namespace_selector=_PRODUCTION, **fields)
    return Matcher(match).matches(asked, labels)


_PRODUCTION = LabelSelector((SelectorRequirement("env", "In", ("prod",)),))


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        (request(pod(), namespace="gone"), MatchError, '^namespaces "gone" not found$'),
        (
            request(None, old=resource("v1", "Namespace", name="")),
            MatchError,
            "^Internal error occurred: resource name may not be empty$",
        ),
        (request(pod(), namespace="far"), Missing, "far"),
    ],
    ids=["not there", "without a name", "not known yet"],
)
def test_a_namespace_without_labels_is_an_error(asked: AdmissionRequest, error: type[Exception], words: str) -> None:
    """Kubernetes' words say that there is none; labels that are not at hand are asked for as a look-up."""
    with pytest.raises(error, match=words):
        _is_selected(asked, "*/*")


@pytest.mark.parametrize("name", ["gone", "far"])
@pytest.mark.parametrize(
    ("resources", "fields"),
    [
        ("services", {}),
        ("pods", {"exclude_resource_rules": (_named("pods"),)}),
        ("pods", {"object_selector": _PRODUCTION}),
    ],
    ids=["rules", "exclusion", "object selector"],
)
def test_no_namespace_is_asked_about_in_vain(name: str, resources: str, fields: dict[str, Any]) -> None:
    """Where something else does not match, an error about the Namespace does not count."""
    assert _is_selected(request(pod(), namespace=name), resources, **fields) is False


def test_resources_that_no_policy_sees() -> None:
    """No policy is asked about policies or about reviews of access."""
    unseen = [
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ]
    listed = [*unseen, ("example.org", "tokenreviews"), ("", "pods")]
    asked = [request({"apiVersion": f"{group}/v1".lstrip("/"), "kind": "X"}, resource=name) for group, name in listed]

    assert [each for each, one in zip(listed, asked, strict=True) if not is_seen(one)] == unseen
