"""Which references to parameters share a watch."""

from __future__ import annotations

import pytest

from policies.admissionpolicy.evaluation.parameters import ParametersKey
from policies.admissionpolicy.model import ParamKind
from policies.engine.match import LabelSelector, SelectorRequirement
from webhook.cluster.watches.parameters import plan

KIND = ParamKind(api_version="v1", kind="ConfigMap")
BIG = SelectorRequirement("size", "In", ("l",))
RED = SelectorRequirement("colour", "In", ("red",))


def key(namespace: str = "", name: str = "", *requirements: SelectorRequirement) -> ParametersKey:
    """A reference by name, or by selector."""
    selector = LabelSelector(requirements) if requirements or not name else None
    return ParametersKey(kind=KIND, namespace=namespace, name=name, selector=selector)


@pytest.mark.parametrize(
    ("keys", "watches"),
    [
        pytest.param([], {}, id="none"),
        pytest.param(
            [key("a", "x"), key("b", "y"), key(name="z"), key("", "", BIG)],
            {
                "ConfigMap x in namespace a": 1,
                "ConfigMap y in namespace b": 1,
                "ConfigMap z": 1,
                "every ConfigMap with labels 'size in (l)'": 1,
            },
            id="few",
        ),
        pytest.param([key("a", f"x-{n}") for n in range(150)], {"every ConfigMap in namespace a": 150}, id="namespace"),
        pytest.param(
            [key(f"ns-{n % 2}", f"x-{n}") for n in range(150)],
            {"every ConfigMap in namespace ns-0": 75, "every ConfigMap in namespace ns-1": 75},
            id="two namespaces",
        ),
        pytest.param([key(f"ns-{n}", f"x-{n}") for n in range(1000)], {"every ConfigMap": 1000}, id="everywhere"),
        pytest.param([key(f"ns-{n}", "limits") for n in range(1000)], {"ConfigMap limits": 1000}, id="one name"),
        pytest.param(
            [key(f"ns-{n}", "", BIG, *([RED] if n else [])) for n in range(9)],
            {"every ConfigMap with labels 'size in (l)'": 9},
            id="a common requirement",
        ),
        pytest.param(
            [*(key(f"ns-{n}", "", BIG) for n in range(9)), key("x", "y")], {"every ConfigMap": 10}, id="mixed"
        ),
    ],
)
def test_few_watches_that_are_narrow(keys: list[ParametersKey], watches: dict[str, int]) -> None:
    """At most four watches of a kind: a reference each, or a namespace each, or one with what all have in common."""
    assert {str(reach): len(part) for reach, part in plan(keys).items()} == watches
