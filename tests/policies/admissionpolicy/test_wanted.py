from __future__ import annotations

import pytest
from support.policies.admissionpolicies import CLASSES, CONFIG_MAPS, binding, policy

from policies.admissionpolicy.model import ParamRef
from policies.admissionpolicy.wanted import WantedParameters, label_selector, wanted
from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement

SMALL = LabelSelector((SelectorRequirement("size", "In", ("s", "xs")),))


def reference(**fields: object) -> ParamRef:
    """A reference to parameters."""
    return ParamRef(parameter_not_found_action="Deny", **fields)  # type: ignore[arg-type]


def test_what_policies_want() -> None:
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

    assert wanted(policies, bindings) == {
        WantedParameters(kind=CONFIG_MAPS, name="five"),
        WantedParameters(kind=CONFIG_MAPS, namespace="team", name="five"),
        WantedParameters(kind=CONFIG_MAPS, selector=SMALL),
        WantedParameters(kind=CLASSES),
    }
    assert wanted([policy()], bindings) == frozenset()


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
        pytest.param(WantedParameters(kind=CLASSES), "PriorityClass of scheduling.k8s.io/v1", id="kind"),
        pytest.param(WantedParameters(kind=CLASSES, name="high"), "PriorityClass high", id="name"),
        pytest.param(
            WantedParameters(kind=CONFIG_MAPS, namespace="team", selector=SMALL),
            "every ConfigMap with labels 'size in (s,xs)' in namespace team",
            id="selector",
        ),
        pytest.param(WantedParameters(kind=CONFIG_MAPS, selector=EVERYTHING), "every ConfigMap", id="all"),
    ],
)
def test_what_is_wanted_in_words(what: WantedParameters, text: str) -> None:
    """Errors name parameters as people do."""
    assert str(what) == text
