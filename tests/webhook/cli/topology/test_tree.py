"""`cks-admission topology tree`: as data, in colours, and as a picture in which nothing lies on anything else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from support.service.commands import run
from support.service.nodefiles import HELD, IB, SMALL, Json, node, place, pod, write

from webhook.cli.main import main
from webhook.cli.topology.drawing import shares, text_width

_SVG = "{http://www.w3.org/2000/svg}"
_ROUNDING = 0.15  # lengths have one decimal


def _picture(items: Sequence[Json], *arguments: str) -> str:
    result = run("topology", "tree", "-f", write(Path("nodes.json"), *items), "-o", "svg", *arguments)
    assert result.exit_code == 0
    return result.stdout


def _parsed(items: Sequence[Json], *arguments: str) -> ET.Element:
    """The picture with all places counted from its corner."""
    picture = ET.fromstring(_picture(items, *arguments))  # noqa: S314 - our own text
    picture[:] = list(_placed(picture, 0.0, 0.0))
    return picture


def _placed(group: ET.Element, left: float, top: float) -> Iterator[ET.Element]:
    """What is in a group, without groups that only move what is in them."""
    for child in group:
        if move := child.get("transform"):
            x, y = map(float, move.removeprefix("translate(").rstrip(")").split())
            yield from _placed(child, left + x, top + y)
        else:
            child.set("x", str(left + float(child.get("x", "0"))))
            child.set("y", str(top + float(child.get("y", "0"))))
            child[:] = list(_placed(child, left, top))
            yield child


def _many(nodes: int) -> list[Json]:
    """So many Nodes of eight GPUs in racks of eight, with Pods on every other one."""
    found: list[Json] = []
    for number in range(nodes):
        superpod, rack = str(number // 128 + 1), str(number // 8 + 1)
        found.append(node(f"g{number:04d}.example.org", place(superpod, rack), cordoned=number % 29 == 3))
        if number % 2:
            found.append(pod(f"p{number}", f"g{number:04d}.example.org", number % 7 + 1))
    return found


_HUGE_NAMES = [node("n" * 253, place("s" * 63, "r" * 63)), node("m" * 253, place("t" * 63, "r" * 63)), *HELD]
_PICTURES = [
    pytest.param([*SMALL, *HELD], (), id="small"),
    pytest.param(SMALL, (), id="without-pods"),
    pytest.param(_many(8), (), id="8-nodes"),
    pytest.param(_many(60), (), id="60-nodes"),
    pytest.param(_many(500), (), id="500-nodes"),
    pytest.param(_many(500), ("--level", "superpod"), id="cut"),
    pytest.param(_many(1100), (), id="1100-nodes"),
    pytest.param(_HUGE_NAMES, (), id="huge-names"),
]


class _Rect(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other: _Rect) -> bool:
        """Whether the other one is within."""
        return (
            self.left - _ROUNDING <= other.left
            and self.top - _ROUNDING <= other.top
            and other.right <= self.right + _ROUNDING
            and other.bottom <= self.bottom + _ROUNDING
        )

    def meets(self, other: _Rect) -> bool:
        """Whether the two lie on top of each other."""
        return (
            min(self.right, other.right) - max(self.left, other.left) > _ROUNDING
            and min(self.bottom, other.bottom) - max(self.top, other.top) > _ROUNDING
        )


def _rect(element: ET.Element) -> _Rect:
    x, y = float(element.get("x", "0")), float(element.get("y", "0"))
    return _Rect(x, y, x + float(element.get("width", "0")), y + float(element.get("height", "0")))


def _text_rect(element: ET.Element) -> _Rect:
    size, x, y = (float(element.get(key, "0")) for key in ("font-size", "x", "y"))
    width = text_width(element.text or "", size, bold=element.get("class") == "strong")
    left = x - width * {"end": 1.0, "middle": 0.5}.get(element.get("text-anchor", ""), 0.0)
    return _Rect(left, y - size * 0.75, left + width, y + size * 0.2)


def _groups(picture: ET.Element, kind: str) -> list[ET.Element]:
    return [each for each in picture.iter(f"{_SVG}g") if each.get("class") == kind]


def _title(element: ET.Element) -> str:
    return element.findtext(f"{_SVG}title") or ""


def _own(group: ET.Element, tag: str) -> list[ET.Element]:
    return group.findall(f"{_SVG}{tag}")


def test_each_domain_has_its_name_and_numbers() -> None:
    """A box says what it is and how many GPUs are free and there; with a mouse over it, it says so in words."""
    domains = _groups(_parsed([*SMALL, *HELD]), "domain")

    assert [tuple(text.text for text in _own(domain, "text")) for domain in domains] == [
        ("region east \u203a zone east-1", "14 / 40"),
        ("fabric f1", "14 / 40"),
        ("superpod 1", "8 / 24"),
        ("rack 9", "0 / 8"),
        ("rack 10", "8 / 16"),
        ("superpod 2 \u203a rack 11", "6 / 8"),
        ("(no superpod) \u203a rack 11", "0 / 8"),
        ("(no fabric)", "no GPUs"),
    ]
    assert [_title(domain) for domain in domains][2:4] == [
        "superpod 1: 3 Nodes · 8 of 24 GPUs free · 1 cordoned",
        "rack 9: 1 Node · 0 of 8 GPUs free · 1 cordoned",
    ]


def _squares(cell: ET.Element) -> Counter[str]:
    return Counter(rect.get("class", "") for rect in _own(cell, "rect"))


def test_each_node_has_a_cell_with_a_square_for_each_gpu() -> None:
    """Used, free and unavailable GPUs are squares of different kinds; a Node without any has its cell all the same."""
    cells = _groups(_parsed([*SMALL, *HELD]), "node")

    assert {_title(cell): dict(_squares(cell)) for cell in cells} == {
        "g3: 0 of 8 GPUs free, cordoned": {"cell closed": 1, "used": 3, "unavailable": 5},
        "g1: 0 of 8 GPUs free": {"cell": 1, "used": 8},
        "g2: 8 of 8 GPUs free": {"cell": 1, "free": 8},
        "g10: 6 of 8 GPUs free": {"cell": 1, "used": 2, "free": 6},
        "g11: 0 of 8 GPUs free, not ready; incomplete: no superpod": {"cell closed flawed": 1, "unavailable": 8},
        "cpu: no GPUs": {"cell": 1},
    }


def test_without_pods_no_square_is_free_or_used() -> None:
    """What is not known is drawn as such, and the legend says so."""
    picture = _parsed(SMALL)

    assert sum((_squares(cell) for cell in _groups(picture, "node")), Counter()) == {
        "cell": 4,
        "cell closed": 1,
        "cell closed flawed": 1,
        "unknown": 40,
    }
    assert [text.text for text in _own(picture, "text")] == [
        "Topology coreweave",
        "6 Nodes · 40 GPUs, free ones unknown · 1 cordoned, 1 not ready, 1 incomplete",
        "a GPU; free or not is not known",
        "Node that takes no Pods",
        "Node with a flaw of its network",
        "numbers: all GPUs",
    ]


def _overlaps(parts: Sequence[_Rect], near: int = 1000) -> list[tuple[_Rect, _Rect]]:
    """Those of the parts that lie on top of each other. near: only so many that follow are looked at."""
    return [(a, b) for index, a in enumerate(parts) for b in parts[index + 1 : index + near] if a.meets(b)]


@pytest.mark.parametrize(("items", "arguments"), _PICTURES)
def test_the_picture_fits_a_screen_and_holds_all(
    items: list[Json], arguments: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    """It is 1200 wide at most; each Node is drawn once, unless the tree ends above; no text leaves it or is covered.

    No name of a usual length is cut.
    """
    picture = _parsed(items, *arguments)
    left, top, width, height = map(float, (picture.get("viewBox") or "").split())
    texts = list(picture.iter(f"{_SVG}text"))
    places = sorted(map(_text_rect, texts), key=lambda rect: rect.top)
    names = sorted(each["metadata"]["name"] for each in items if each["kind"] == "Node" and not arguments)

    assert (left, top, width <= 1200) == (0, 0, True)
    assert sorted(_title(cell).split(":")[0] for cell in _groups(picture, "node")) == names
    assert [text for text in places if not _Rect(0, 0, width, height).holds(text)] == []
    assert _overlaps(places, 150) == []
    is_cut = any("…" in (text.text or "") for text in texts)
    assert is_cut == (request.node.callspec.id == "huge-names")


@pytest.mark.parametrize(("items", "arguments"), _PICTURES)
def test_boxes_are_within_boxes_and_beside_each_other(items: list[Json], arguments: tuple[str, ...]) -> None:
    """A box holds its heading and whatever is in it, a cell its squares and its name; nothing overlaps."""
    picture = _parsed(items, *arguments)
    for domain in _groups(picture, "domain"):
        box, *bars = map(_rect, _own(domain, "rect"))
        inner = [_rect(_own(group, "rect")[0]) for group in _own(domain, "g")]
        parts = [*inner, *map(_text_rect, _own(domain, "text")), *bars]

        assert ([part for part in parts if not box.holds(part)], _overlaps(parts)) == ([], [])
    for cell in _groups(picture, "node")[:100]:
        outline, *squares = map(_rect, _own(cell, "rect"))
        parts = [*squares, *map(_text_rect, _own(cell, "text"))]

        assert ([part for part in parts if not outline.holds(part)], _overlaps(parts)) == ([], [])


def test_the_picture_depends_on_the_nodes_only() -> None:
    """The same Nodes give the same text, in whatever order they come, without a script in it."""
    items = [*_many(60), *SMALL]

    first = _picture(items)

    assert _picture(items[::-1]) == first
    assert "<script" not in first


def test_names_are_escaped() -> None:
    """A name with characters that mean something in XML is a name, and control characters are not in it."""
    odd = node('a<b>&"\x07', place("<&>", "1", IB))

    picture = _parsed([odd, *HELD])

    assert [text.text for text in _own(_groups(picture, "domain")[0], "text")] == [
        "region east \u203a zone east-1 \u203a fabric f1 \u203a superpod <&> \u203a rack 1",
        "8 / 8",
    ]
    assert [_title(cell) for cell in _groups(picture, "node")] == [r'a<b>&"\u0007: 8 of 8 GPUs free']


def test_the_picture_of_the_guide_is_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture in the guide about placement is the one that is drawn of its Nodes."""
    monkeypatch.chdir(Path(__file__).parents[4] / "docs" / "guides" / "topology")

    assert run("topology", "tree", "-f", "nodes.yaml", "-o", "svg").stdout == Path("tree.svg").read_text("utf-8")


def test_many_nodes_that_are_alike_share_a_line() -> None:
    """A rack of many Nodes is a few lines: those that are alike are together, with some of their names."""
    nodes = [node(f"g{number}", place("1", "1")) for number in range(1, 11)]
    name = write(Path("nodes.json"), *nodes, pod("a", "g2"), pod("b", "g4"))

    assert run("topology", "tree", "-f", name).stdout.splitlines()[3:-2] == [
        "   ├─ 8 Nodes with 8 GPUs each: g1, g3, g5 and 5 more           8    64    64  ░░░░░░░░",
        "   ├─ g2                                                              0     8  ████████",
        "   └─ g4                                                              0     8  ████████",
    ]


def test_a_tree_as_data() -> None:
    """The same is there for machines; a group of Nodes that lack a level has no name."""
    found = json.loads(run("topology", "tree", "-f", write(Path("a.json"), *SMALL, *HELD), "-o", "json").stdout)
    zone = found.pop("domains")[0].pop("domains")[0]
    fabric, no_fabric = zone.pop("domains")
    first, second, no_superpod = fabric["domains"]

    closed = {"closedNodes": 2, "obstacles": {"cordoned": 1, "not ready": 1}}
    counts = {"nodes": 6, **closed, "gpus": 40, "used": 13, "free": 14, "unavailable": 13, "flaws": {"incomplete": 1}}
    assert (found, zone) == ({"topology": "coreweave", **counts}, {"level": "zone", "name": "east-1", **counts})
    assert [(one["level"], one["name"], one["free"]) for one in (first, second, no_superpod)] == [
        ("superpod", "1", 8),
        ("superpod", "2", 6),
        ("superpod", None, 0),
    ]
    assert no_superpod["domains"][0]["members"][0]["flaws"] == [{"kind": "incomplete", "text": "no superpod"}]
    assert first["domains"][0]["members"] == [
        {"name": "g3", "gpus": 8, "used": 3, "free": 0, "ready": True, "cordoned": True, "obstacles": ["cordoned"]}
    ]
    nothing = {"gpus": 0, "used": 0, "free": 0}
    member = {"name": "cpu", **nothing, "ready": True, "cordoned": False, "obstacles": []}
    group: dict[str, object] = {
        "level": "fabric",
        "name": None,
        "nodes": 1,
        "closedNodes": 0,
        "obstacles": {},
        **nothing,
    }
    assert no_fabric == {**group, "unavailable": 0, "members": [member]}


def test_colours_are_for_terminals() -> None:
    """A terminal gets the same text in colours."""
    name = write(Path("nodes.json"), *SMALL, *HELD)

    assert "\x1b[32m░░░" in CliRunner().invoke(main, ["topology", "tree", "-f", name], color=True).stdout
    assert "\x1b" not in run("topology", "tree", "-f", name).stdout


def test_shares_of_a_bar() -> None:
    """A bar is as long as it should be, and what there is of any kind is seen in it; the rest goes to the first."""
    rows = {
        (0, 0, 0): [0, 0, 0],
        (8, 0, 0): [8, 0, 0],
        (1, 999, 0): [1, 7, 0],
        (1, 1, 998): [1, 1, 6],
        (4, 2, 2): [4, 2, 2],
        (1, 1, 1): [3, 3, 2],
    }

    assert {amounts: shares(amounts, 8) for amounts in rows} == rows
