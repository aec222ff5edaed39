"""Field paths: read from tables, found in objects, written for people."""

import pytest

from policies.objects.fieldpath import Location, Pattern, Wildcard, parse, render


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
