"""Exceptions from rules: data that lets some requests pass, for a while and for a reason."""

from datetime import date
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from support.builders import TODAY, pod, request, resource
from support.tables import rows

from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.rule import PolicyException, longest

_ALWAYS = {"name": "moving", "rules": ("labels",), "reason": "migration", "until": TODAY}
_DEPLOYMENT = request(resource("apps/v1", "Deployment", name="web-1"), namespace="team-a", user="carol")
_POD = request(pod(), namespace="team-a", user="carol", name="")
_NODE = request(resource("v1", "Node", name="n1"), user="carol")
_NAMESPACE = request(resource("v1", "Namespace", name="team-a"), user="carol")


@rows(__file__, "covers")
def test_what_an_exception_covers(
    limits: dict[str, tuple[str, ...]],
    deployment: bool,  # noqa: FBT001
    unnamed_pod: bool,  # noqa: FBT001
    node: bool,  # noqa: FBT001
) -> None:
    """Every limit that is given must hold, each by one of its globs; one that is empty holds for everything."""
    exception = PolicyException(**{**_ALWAYS, **limits})  # type: ignore[arg-type]

    assert tuple(exception.concerns("labels", asked) for asked in (_DEPLOYMENT, _POD, _NODE)) == (
        deployment,
        unnamed_pod,
        node,
    )


def test_a_namespace_is_in_no_namespace() -> None:
    """An exception for a Namespace's objects says nothing about the Namespace itself, which goes by its name."""
    inside = PolicyException("moving", ("labels",), "migration", TODAY, namespaces=("team-a",))
    itself = PolicyException("moving", ("labels",), "migration", TODAY, kinds=("Namespace",), names=("team-a",))

    assert (inside.concerns("labels", _NAMESPACE), itself.concerns("labels", _NAMESPACE)) == (False, True)


def test_an_exception_by_labels() -> None:
    """The selector is met by the object's labels or by those that it had, as Kubernetes takes an objectSelector."""
    exception = PolicyException("moving", ("labels",), "x", TODAY, object_selector=_SELECTOR)
    old, plain = pod(labels={"old": "yes"}), pod()
    covered = [request(old), request(plain, old=old), request(old, old=plain), request(old=old, operation="DELETE")]
    others = [
        request(pod(labels={"old": "no"})),
        request(plain),
        request({"kind": "PodExecOptions"}, operation="CONNECT"),
    ]

    assert [asked for asked in (*covered, *others) if exception.concerns("labels", asked)] == covered


_SELECTOR = LabelSelector((SelectorRequirement("old", "In", ("yes",)),))
_SOME = st.builds(
    PolicyException,
    name=st.sampled_from("abc"),
    rules=st.sampled_from([("labels",), ("sunk",), ("labels", "sunk")]),
    reason=st.just("x"),
    until=st.dates(date(2026, 2, 27), date(2026, 3, 3)),
    users=st.sampled_from([(), ("carol",), ("dave",)]),
)


@given(exceptions=st.lists(_SOME, max_size=5), order=st.randoms())
def test_one_exception_that_holds_is_enough(exceptions: list[PolicyException], order: Random) -> None:
    """The exception that counts holds if any that is about the request does, in whatever order they are given."""
    shuffled = order.sample(exceptions, len(exceptions))
    found = longest(shuffled, "labels", _POD)

    about = [exception for exception in exceptions if exception.concerns("labels", _POD)]
    assert (found in about) if about else found is None
    assert (found is not None and found.holds(TODAY)) is any(exception.holds(TODAY) for exception in about)
