"""What all policies make of one review is made once, and kept no longer than it is of use."""

import gc
import weakref

from support.builders import FACTS, WORKLOADS, deployment, request
from support.policies.admissionpolicies import CONFIG_MAPS, inputs, parameters, validating

from policies.admissionpolicy.evaluation.inputs import StaticParameters
from policies.admissionpolicy.evaluation.validator import Group
from policies.admissionpolicy.rules.policyrule import SubjectCache
from policies.cel.cost import POLICY_LIMIT
from policies.engine.facts import StaticFacts


def test_a_request_is_one_subject_for_all_policies() -> None:
    """The same request with the same facts is the same subject, whose inputs and Pods are made once."""
    subjects, asked = SubjectCache(WORKLOADS), request(deployment())
    first, second = subjects.of(asked, FACTS), subjects.of(asked, FACTS)
    assert first is second
    assert first.inputs is second.inputs
    assert [pod.owner.kind for pod, _ in first.pods] == ["Deployment"]
    assert first.pods is second.pods


def test_other_facts_make_another_subject() -> None:
    """After a look-up the same request is judged with what was found, and not with what was known before."""
    subjects, asked = SubjectCache(WORKLOADS), request(deployment())
    before = subjects.of(asked, FACTS)
    known = StaticFacts(FACTS.as_of, {"team": {"a": "b"}})
    after = subjects.of(asked, known)
    assert (before.facts, after.facts) == (FACTS, known)
    assert before.inputs is not after.inputs


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
