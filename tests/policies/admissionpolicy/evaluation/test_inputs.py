"""Variables and parameters of an evaluation are those that kube-apiserver would take, with its words for none."""

from __future__ import annotations

import pytest
from support.builders import TODAY
from support.policies.admissionpolicies import CLASSES, CONFIG_MAPS, binding, config_map, inputs, parameters, policy

from policies.admissionpolicy.evaluation.inputs import (
    ConfigurationError,
    KnownParameters,
    ParametersKey,
    ReviewParameters,
    as_mutating_policies_see,
    collect,
    label_selector,
    parameter_keys,
)
from policies.admissionpolicy.model import ParamKind, ParamRef
from policies.engine.facts import Facts, StaticFacts
from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement
from policies.engine.request import GroupVersionKind


def test_a_request_has_no_uid() -> None:
    """The API server's own engine does not know it; a webhook does, and must not show it."""
    assert inputs(request={"uid": "1234"}).names(None)["request"]["uid"] == ""


def test_the_kind_is_that_of_the_object() -> None:
    """Also where the request was for another version."""
    request = {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, "requestKind": {"version": "v1beta1"}}
    assert inputs(request=request).kind == GroupVersionKind("apps", "v1", "Deployment")


FIVE = config_map("five", labels={"size": "s"}, limit="5")
SIX = config_map("six", labels={"size": "s"}, limit="6")
ELSEWHERE = config_map("elsewhere", "default", limit="8")
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
KNOWN = parameters(SIX, FIVE, ELSEWHERE, HIGH)
SMALL = LabelSelector((SelectorRequirement("size", "In", ("s", "xs")),))
NOT_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"


def reference(action: str = "Deny", **fields: object) -> ParamRef:
    """A reference to parameters."""
    return ParamRef(parameter_not_found_action=action, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "ref", "namespace", "words"),
    [
        pytest.param(CONFIG_MAPS, reference(name="none"), "team", NOT_FOUND, id="not-found"),
        pytest.param(CONFIG_MAPS, reference(selector=SMALL), "default", NOT_FOUND, id="none-selected"),
        pytest.param(
            CONFIG_MAPS,
            reference(name="five"),
            "",
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources",
            id="no-namespace",
        ),
        pytest.param(
            CLASSES,
            reference(name="high", namespace="team"),
            "team",
            "paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
            id="namespace-for-cluster-scoped",
        ),
        pytest.param(CONFIG_MAPS, reference(), "team", "one of name or selector must be provided", id="neither"),
        pytest.param(
            ParamKind(api_version="a.example/v1", kind="No"),
            reference(name="x"),
            "team",
            "failed to find resource referenced by paramKind: 'a.example/v1, Kind=No'",
            id="unknown-kind",
        ),
    ],
)
def test_a_wrong_reference_is_a_configuration_error(kind: ParamKind, ref: ParamRef, namespace: str, words: str) -> None:
    """What cannot be followed is refused in the API server's words."""
    with pytest.raises(ConfigurationError) as error:
        collect(kind, binding(param_ref=ref), KNOWN, namespace)
    assert str(error.value) == words


def test_parameters_of_a_review() -> None:
    """Objects of the cluster hide those of the same name that were given, which add others and further kinds."""
    ours = config_map("five", labels={"size": "s"}, limit="50")
    four = config_map("four", labels={"size": "s"})
    facts: Facts = StaticFacts(TODAY)
    for key, objects in (
        (ParametersKey(kind=CONFIG_MAPS), ()),
        (ParametersKey(kind=CONFIG_MAPS, namespace="team", name="five"), (ours,)),
        (ParametersKey(kind=CONFIG_MAPS, namespace="team", selector=SMALL), (ours, SIX)),
    ):
        facts = facts.entered(key, KnownParameters("Namespaced", objects))
    known = ReviewParameters(facts, parameters(FIVE, four, HIGH))

    assert [known.named(CONFIG_MAPS, "team", name) for name in ("five", "four", "none")] == [ours, four, None]
    assert known.selected(CONFIG_MAPS, "team", SMALL) == [ours, four, SIX]
    assert (known.scope(CONFIG_MAPS), known.scope(CLASSES)) == ("Namespaced", "Cluster")
    assert known.scope(ParamKind(api_version="v1", kind="No")) is None


def test_mutating_policies_see_no_type_of_built_in_parameters() -> None:
    """A ConfigMap has no kind there, a custom resource has."""
    custom = {"apiVersion": "a.example/v1", "kind": "Limit", "metadata": {"name": "x"}}
    seen = as_mutating_policies_see(FIVE, CONFIG_MAPS)
    assert seen == {"metadata": FIVE["metadata"], "data": FIVE["data"]}
    assert as_mutating_policies_see(custom, ParamKind(api_version="a.example/v1", kind="Limit")) == custom
    assert as_mutating_policies_see(None, CONFIG_MAPS) is None


def test_keys_of_policies() -> None:
    """Each binding with a paramRef wants those objects, one without wants the kind to be known, others want nothing."""
    policies = [
        policy(param_kind=CONFIG_MAPS),
        policy("MutatingAdmissionPolicy", param_kind=CLASSES),
        policy(name="unbound", param_kind=CLASSES),
    ]
    bindings = [
        binding(param_ref=reference(name="five")),
        binding(name="again", param_ref=reference(name="five")),
        binding(param_ref=reference(name="five", namespace="team")),
        binding(param_ref=reference(selector=SMALL)),
        binding(kind="MutatingAdmissionPolicyBinding"),
    ]

    assert parameter_keys(policies, bindings) == {
        ParametersKey(kind=CONFIG_MAPS, name="five"),
        ParametersKey(kind=CONFIG_MAPS, namespace="team", name="five"),
        ParametersKey(kind=CONFIG_MAPS, selector=SMALL),
        ParametersKey(kind=CLASSES),
    }
    assert parameter_keys([policy()], bindings) == frozenset()


@pytest.mark.parametrize(
    ("requirements", "text"),
    [
        pytest.param((), "", id="everything"),
        pytest.param((SelectorRequirement("a/b", "In", ("c", "d")),), "a/b in (c,d)", id="In"),
        pytest.param((SelectorRequirement("a", "NotIn", ("b",)),), "a notin (b)", id="NotIn"),
        pytest.param(
            (SelectorRequirement("a", "Exists"), SelectorRequirement("b", "DoesNotExist")), "a,!b", id="presence"
        ),
    ],
)
def test_selectors_as_kubectl_has_them(requirements: tuple[SelectorRequirement, ...], text: str) -> None:
    """Each operator has the notation of the API's labelSelector parameter."""
    assert label_selector(LabelSelector(requirements)) == text


@pytest.mark.parametrize(
    ("what", "text"),
    [
        pytest.param(ParametersKey(kind=CLASSES), "PriorityClass of scheduling.k8s.io/v1", id="kind"),
        pytest.param(ParametersKey(kind=CLASSES, name="high"), "PriorityClass high", id="name"),
        pytest.param(
            ParametersKey(kind=CONFIG_MAPS, namespace="team", selector=SMALL),
            "every ConfigMap with labels 'size in (s,xs)' in namespace team",
            id="selector",
        ),
        pytest.param(ParametersKey(kind=CONFIG_MAPS, selector=EVERYTHING), "every ConfigMap", id="all"),
    ],
)
def test_keys_in_words(what: ParametersKey, text: str) -> None:
    """Errors name parameters as people do."""
    assert str(what) == text
