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


def planned(keys: list[ParametersKey], *refused: ParametersKey) -> dict[str, int]:
    """How many references each watch serves, by what it asks for."""
    return {str(reach): len(part) for reach, part in plan(keys, refused).items()}


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
    assert planned(keys) == watches


def test_what_is_refused_is_divided() -> None:
    """A refused kind becomes namespaces, a refused namespace references, and a refused reference stays."""
    keys = [*(key(f"ns-{n}", f"x-{n}") for n in range(5)), key("ns-0", "second"), key(name="any")]
    whole, space = key(), key("ns-0")

    by_space = planned(keys, whole)
    by_name = planned(keys, whole, space, key("ns-0", "second"))

    others = {f"ConfigMap x-{n} in namespace ns-{n}": 1 for n in range(1, 5)} | {"ConfigMap any": 1}
    assert by_space == {**others, "every ConfigMap in namespace ns-0": 2}
    assert by_name == {**others, "ConfigMap x-0 in namespace ns-0": 1, "ConfigMap second in namespace ns-0": 1}


def test_every_reference_has_a_watch() -> None:
    """Division never ends in a reach that was refused for several references, even where both reach everywhere."""
    keys = [key(name=f"x-{n}") for n in range(6)] + [key("a", "y")]

    parts = plan(keys, [key()])

    assert frozenset().union(*parts.values()) == frozenset(keys)
    assert [len(part) for part in parts.values()] == [1] * 7
