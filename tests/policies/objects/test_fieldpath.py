"""Field paths: read from tables, found in objects, written for people."""

from typing import Any

import pytest

from policies.objects.fieldpath import Location, Pattern, Wildcard, locate, lookup, parse, render

_OBJECT: Any = {
    "spec": {
        "tasks": [{"template": {"a": 1}}, {}, None, {"template": None}],
        "replicas": {"Launcher": {"template": "l"}, "worker-2": {"template": []}, "odd": 3},
    }
}


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        pytest.param("", (), id="the-object"),
        pytest.param("spec", ("spec",), id="key"),
        pytest.param("spec.template", ("spec", "template"), id="keys"),
        pytest.param("spec.tasks[*].template", ("spec", "tasks", Wildcard.ITEMS, "template"), id="items"),
        pytest.param("spec.replicas.*.template", ("spec", "replicas", Wildcard.VALUES, "template"), id="values"),
        pytest.param("a[*][*].b", ("a", Wildcard.ITEMS, Wildcard.ITEMS, "b"), id="items-of-items"),
        pytest.param("a[*]", ("a", Wildcard.ITEMS), id="items-last"),
        pytest.param("spec.my-key_2", ("spec", "my-key_2"), id="hyphens"),
    ],
)
def test_patterns(text: str, pattern: Pattern) -> None:
    """A pattern is read step by step, and written again as it was."""
    assert (parse(text), render(pattern)) == (pattern, text)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        *((".spec", 0), ("[*].a", 0), ("spec.", 4), ("spec..a", 4), ("spec[0]", 4), ("spec[", 4)),
        *(("spec[*]a", 7), ("a.b]", 3)),
    ],
)
def test_what_is_no_pattern(text: str, position: int) -> None:
    """A mistake is told with its position and an example of the right form."""
    with pytest.raises(ValueError, match="is not a field path") as raised:
        parse(text)

    assert str(raised.value) == (
        f"{text!r} is not a field path from position {position} on; write it like spec.items[*].template"
    )


def test_locating() -> None:
    """Every place that is there is found in order with its value, a null too; absent or odd parents yield nothing."""
    replicas = _OBJECT["spec"]["replicas"]
    found: dict[str, list[tuple[Location, Any]]] = {
        "": [((), _OBJECT)],
        "spec.tasks[*].template": [
            (("spec", "tasks", 0, "template"), {"a": 1}),
            (("spec", "tasks", 3, "template"), None),
        ],
        "spec.replicas.*.template": [
            (("spec", "replicas", name, "template"), replicas[name]["template"]) for name in ("Launcher", "worker-2")
        ],
    }
    absent = ("spec.absent", "metadata.labels", "spec.tasks.template", "spec.replicas[*].template", "spec.tasks.*")

    assert {path: list(locate(_OBJECT, parse(path))) for path in (*found, *absent)} == {
        **found,
        **{path: [] for path in absent},
    }


def test_looking_up() -> None:
    """What stands at a location, or nothing where the way there ends."""
    found: dict[Location, Any] = {(): _OBJECT, ("spec", "tasks", 0, "template", "a"): 1}
    nothing: list[Location] = [
        *(("spec", "tasks", step, "template") for step in (3, 9)),
        *(("spec", "tasks", "0"), ("spec", 0), ("spec", "replicas", "odd", "template"), ("metadata", "labels")),
    ]

    assert {at: lookup(_OBJECT, at) for at in (*found, *nothing)} == {**found, **dict.fromkeys(nothing)}


def test_locations_for_people() -> None:
    """A location is written as Kubernetes writes a field path."""
    texts: dict[Location, str] = {
        (): "",
        ("spec", "containers", 0, "image"): "spec.containers[0].image",
        ("metadata", "annotations", "example.org/x"): "metadata.annotations[example.org/x]",
        ("spec", "replicas", "worker-2"): "spec.replicas.worker-2",
        ("data", "1st"): "data[1st]",
        ("data", ""): "data[]",
    }

    assert {location: render(location) for location in texts} == texts
