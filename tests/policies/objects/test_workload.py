"""The table of workloads, which a page has whole, and field paths: read from tables, found in objects, written."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from policies.objects.fieldpath import Location, Pattern, Wildcard, parse, render
from policies.objects.workload import BUILT_IN, SHIPPED, table, workload


def test_a_kind_is_found_by_group_and_kind() -> None:
    """Kinds of one name in two groups, such as Job, stay apart."""
    batch, volcano = workload("batch", "Job", ["spec.template"]), workload("batch.volcano.sh", "Job", ["spec.tasks[*]"])

    assert table([batch, volcano]) == {("batch", "Job"): batch, ("batch.volcano.sh", "Job"): volcano}


@pytest.mark.parametrize(("group", "shown"), [("batch", "batch"), ("", "core")])
def test_a_kind_that_stands_twice_is_an_error(group: str, shown: str) -> None:
    """A configured row for a kind that is there already is refused by name, since one of them would be ignored."""
    with pytest.raises(ValueError, match=f"^Job of group '{shown}' is in the table of workloads twice$"):
        table([workload(group, "Job"), workload(group, "Job", ["spec.template"])])


@pytest.mark.parametrize("places", ["templates", "jobs", "claims", "node_labels", "claim_labels", "pod_labels"])
def test_a_path_that_does_not_parse_is_an_error(places: str) -> None:
    """A mistyped path is told with the position of the mistake, whichever column it stands in."""
    with pytest.raises(ValueError, match="not a field path") as raised:
        workload("example.org", "Train", **{places: ["spec.workers[0]"]})  # type: ignore[arg-type] # any of six

    assert str(raised.value) == (
        "'spec.workers[0]' is not a field path from position 12 on; write it like spec.items[*].template"
    )


_GROVE = table(BUILT_IN)["grove.io", "PodCliqueSet"]
_SLINKY = table(BUILT_IN)["slinky.slurm.net", "NodeSet"]


def test_a_template_of_another_shape() -> None:
    """A clique is seen as a pod template, and places in it are found where they stand."""
    clique = {
        "name": "a",
        "labels": {"b": "c"},
        "annotations": {"d": "e"},
        "spec": {"replicas": 2, "podSpec": {"f": 1}},
    }
    obj = {"spec": {"template": {"cliques": [clique]}}}
    at = ("spec", "template", "cliques", 0)

    assert list(_GROVE.pods(obj)) == [
        (at, {"metadata": {"labels": {"b": "c"}, "annotations": {"d": "e"}}, "spec": {"f": 1}})
    ]
    assert [
        render(_GROVE.place(obj, at, place))
        for place in (("metadata", "labels", "b"), ("metadata", "annotations", "d"), ("spec", "containers", 0))
    ] == [
        "spec.template.cliques[0].labels.b",
        "spec.template.cliques[0].annotations.d",
        "spec.template.cliques[0].spec.podSpec.containers[0]",
    ]


def test_a_container_beside_the_template() -> None:
    """The container slurmd comes before those of the template, and is found where it stands."""
    spec = {"slurmd": {"image": "x"}, "template": {"spec": {"containers": [{"name": "side"}]}}}
    obj, at = {"spec": spec}, ("spec", "template")

    assert list(_SLINKY.pods(obj)) == [
        (at, {"spec": {"containers": [{"name": "slurmd", "image": "x"}, {"name": "side"}]}})
    ]
    assert [render(_SLINKY.place(obj, at, ("spec", "containers", index, "image"))) for index in (0, 1)] == [
        "spec.slurmd.image",
        "spec.template.spec.containers[0].image",
    ]
    assert list(_SLINKY.pods({"spec": {"template": {"spec": {"a": 1}}}})) == [(at, {"spec": {"a": 1}})]


_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "workloads.md"
_COLUMNS = ("kind", "group", "templates", "jobs", "claims", "node labels", "claim labels", "pod labels", "changes")


def _rows() -> Iterator[tuple[str, ...]]:
    """The rows of the page's one table, without the backticks."""
    lines = [line for line in _PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    for line in lines[:1] + lines[2:]:
        yield tuple(cell.strip().replace("`", "") for cell in re.split(r"(?<!\\)\|", line)[1:-1])


def _paths(patterns: tuple[Pattern, ...]) -> str:
    return "<br>".join(render(pattern) or "the object itself" for pattern in patterns) or "-"


def test_the_page_has_the_whole_table() -> None:
    """Each built-in kind has a row, in the order of the table, with its paths and when annotations may be written."""
    assert list(_rows()) == [
        _COLUMNS,
        *(
            (
                row.kind,
                row.group or "core",
                _paths(row.templates),
                _paths(row.jobs),
                _paths(row.claims),
                _paths(row.node_labels),
                _paths(row.claim_labels),
                _paths(row.pod_labels),
                row.changes if row.templates else "-",
            )
            for row in (*BUILT_IN, *SHIPPED)
        ),
    ]


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
