"""`cks-admission topology tree`: Nodes as a tree of domains, as text and as data, and input that is none."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from support.service.commands import run
from support.service.nodefiles import HELD, SMALL, Json, listed, node, place, pod, write

from webhook.cli.main import main
from webhook.cli.topology.drawing import shares

_LEGEND = ["", "█ used   ░ free   x on Nodes that take no Pods"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes file names in messages short."""
    monkeypatch.chdir(tmp_path)


def _tree(*items: Json, arguments: tuple[str, ...] = ()) -> list[str]:
    """The lines for a file with these Nodes and Pods."""
    result = run("topology", "tree", "-f", write(Path("nodes.json"), *items), *arguments)
    assert (result.stderr, result.exit_code) == ("", 0)
    return result.stdout.splitlines()


def test_nodes_stand_in_their_domains() -> None:
    """Each domain has its free and all GPUs; closed Nodes give none, and Nodes that lack a level are in a group."""
    assert _tree(*SMALL, *HELD) == [
        "                                 NODES  FREE  GPUS",
        "topology coreweave                   6    14    40  ███░░░xx",
        "└─ region east, zone east-1          6    14    40  ███░░░xx  1 cordoned, 1 not ready, 1 incomplete",
        "   ├─ fabric f1                      5    14    40  ███░░░xx  1 cordoned, 1 not ready, 1 incomplete",
        "   │  ├─ superpod 1                  3     8    24  ████░░xx  1 cordoned",
        "   │  │  ├─ rack 9                   1     0     8  ███xxxxx  1 cordoned",
        "   │  │  │  └─ g3                          0     8  ███xxxxx  cordoned",
        "   │  │  └─ rack 10                  2     8    16  ████░░░░",
        "   │  │     ├─ g1                          0     8  ████████",
        "   │  │     └─ g2                          8     8  ░░░░░░░░",
        "   │  ├─ superpod 2, rack 11         1     6     8  ██░░░░░░",
        "   │  │  └─ g10                            6     8  ██░░░░░░",
        "   │  └─ (no superpod), rack 11      1     0     8  xxxxxxxx  1 not ready, 1 incomplete",
        "   │     └─ g11                            0     8  xxxxxxxx  not ready; incomplete: no superpod",
        "   └─ (no fabric)                    1     -     -",
        "      └─ cpu                               -     -",
        *_LEGEND,
    ]


def test_a_tree_ends_at_a_level() -> None:
    """--level shows nothing below."""
    assert _tree(*SMALL, *HELD, arguments=("--level", "superpod")) == [
        "                             NODES  FREE  GPUS",
        "topology coreweave               6    14    40  ███░░░xx",
        "└─ region east, zone east-1      6    14    40  ███░░░xx  1 cordoned, 1 not ready, 1 incomplete",
        "   ├─ fabric f1                  5    14    40  ███░░░xx  1 cordoned, 1 not ready, 1 incomplete",
        "   │  ├─ superpod 1              3     8    24  ████░░xx  1 cordoned",
        "   │  ├─ superpod 2              1     6     8  ██░░░░░░",
        "   │  └─ (no superpod)           1     0     8  xxxxxxxx  1 not ready, 1 incomplete",
        "   └─ (no fabric)                1     -     -",
        *_LEGEND,
    ]


def test_without_pods_only_the_total_is_shown() -> None:
    """What is free is not guessed, and the command that tells it is named."""
    result = run("topology", "tree", "-f", write(Path("nodes.json"), *SMALL[:2]))

    assert result.exit_code == 0
    assert result.stderr == (
        "which GPUs are free is not known without Pods; kubectl get nodes,pods -A -o json gives them\n"
    )
    assert result.stdout.splitlines() == [
        "                                                             NODES  GPUS",
        "topology coreweave                                               2    16",
        "└─ region east, zone east-1, fabric f1, superpod 1, rack 10      2    16",
        "   ├─ g1                                                               8",
        "   └─ g2                                                               8",
    ]


def test_many_nodes_that_are_alike_share_a_line() -> None:
    """A rack of many Nodes is a few lines: those that are alike are together, with some of their names."""
    nodes = [node(f"g{number}", place("1", "1")) for number in range(1, 11)]

    assert _tree(*nodes, pod("a", "g2"), pod("b", "g4"))[3:-2] == [
        "   ├─ 8 Nodes with 8 GPUs each: g1, g3, g5 and 5 more           8    64    64  ░░░░░░░░",
        "   ├─ g2                                                              0     8  ████████",
        "   └─ g4                                                              0     8  ████████",
    ]


def test_a_tree_as_data() -> None:
    """The same is there for machines; a group of Nodes that lack a level has no name."""
    result = run("topology", "tree", "-f", write(Path("nodes.json"), *SMALL, *HELD), "-o", "json")
    found = json.loads(result.stdout)
    zone = found.pop("domains")[0].pop("domains")[0]
    fabric, no_fabric = zone.pop("domains")

    closed = {"closedNodes": 2, "obstacles": {"cordoned": 1, "not ready": 1}}
    counts = {"nodes": 6, **closed, "gpus": 40, "used": 13, "free": 14, "unavailable": 13}
    counts |= {"flaws": {"incomplete": 1}}
    assert found == {"topology": "coreweave", **counts}
    assert zone == {"level": "zone", "name": "east-1", **counts}
    assert [(each["level"], each["name"], each["free"]) for each in fabric["domains"]] == [
        ("superpod", "1", 8),
        ("superpod", "2", 6),
        ("superpod", None, 0),
    ]
    assert fabric["domains"][2]["domains"][0]["members"][0]["flaws"] == [{"kind": "incomplete", "text": "no superpod"}]
    assert fabric["domains"][0]["domains"][0]["members"] == [
        {"name": "g3", "gpus": 8, "used": 3, "free": 0, "ready": True, "cordoned": True, "obstacles": ["cordoned"]}
    ]
    counts = {"gpus": 0, "used": 0, "free": 0, "unavailable": 0}
    member = {"name": "cpu", "gpus": 0, "used": 0, "free": 0, "ready": True, "cordoned": False, "obstacles": []}
    assert no_fabric == {
        "level": "fabric",
        "name": None,
        "nodes": 1,
        "closedNodes": 0,
        "obstacles": {},
        **counts,
        "members": [member],
    }


def test_yaml_and_json_are_read_alike() -> None:
    """The two forms of kubectl, and standard input, give the same tree."""
    content = listed([*SMALL, *HELD])
    Path("nodes.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    Path("nodes.json").write_text(json.dumps(content), encoding="utf-8")

    shown = [run("topology", "tree", "-f", name).stdout for name in ("nodes.yaml", "nodes.json")]
    piped = run("topology", "tree", "-f", "-", stdin=json.dumps(content)).stdout

    assert len(shown[0].splitlines()) == 18
    assert {*shown, piped} == {shown[0]}


def test_the_parts_of_a_node_list_need_no_kind() -> None:
    """`kubectl get --raw /api/v1/nodes` gives items that do not say what they are."""
    bare = [{key: value for key, value in each.items() if key not in ("kind", "apiVersion")} for each in SMALL]
    content = {"apiVersion": "v1", "kind": "NodeList", "items": bare}

    result = run("topology", "tree", "-f", "-", "--level", "region", stdin=json.dumps(content))

    assert result.stdout.splitlines()[1:] == [
        "topology coreweave      6    40",
        "└─ region east          6    40  1 cordoned, 1 not ready, 1 incomplete",
    ]


def test_a_node_in_two_files_is_one_node() -> None:
    """Files that overlap do not count twice."""
    write(Path("nodes.json"), *SMALL)
    write(Path("all.json"), *SMALL, *HELD)

    result = run("topology", "tree", "-f", "nodes.json", "-f", "all.json", "--level", "region")

    assert result.stdout.splitlines()[1].split() == ["topology", "coreweave", "6", "14", "40", "███░░░xx"]


def test_another_topology_is_taken_by_name() -> None:
    """--topology shows Nodes by levels of another one, and says for how many of them it is."""
    name = write(Path("nodes.json"), *SMALL[:2], *HELD)

    result = run("topology", "tree", "-f", name, "--topology", "coreweave-roce", "--level", "zone")

    assert result.stderr == "topology coreweave-roce is for 0 of 2 Nodes; all are shown\n"
    assert result.stdout.splitlines()[1:3] == [
        "topology coreweave-roce          2     8    16  ████░░░░",
        "└─ region east, zone east-1      2     8    16  ████░░░░",
    ]


def test_a_level_that_no_node_has_is_told() -> None:
    """A tree that ends at a level which is not there says why it has fewer branches."""
    result = run("topology", "tree", "-f", write(Path("nodes.json"), *SMALL, *HELD), "--level", "leafgroup")

    keys = "backend.coreweave.cloud/leafgroup or ib.coreweave.cloud/leafgroup"
    assert (result.stderr, result.exit_code) == (f"no Node has the level leafgroup: the label {keys}\n", 0)


def test_colours_are_for_terminals() -> None:
    """A terminal gets the same text in colours."""
    name = write(Path("nodes.json"), *SMALL, *HELD)

    coloured = CliRunner().invoke(main, ["topology", "tree", "-f", name], color=True).stdout

    assert "\x1b[32m░░░" in coloured
    assert "\x1b" not in run("topology", "tree", "-f", name).stdout


@pytest.mark.parametrize(
    ("content", "error"),
    [
        pytest.param(
            '{"apiVersion": "v1", "kind": "List", "items": [\n'
            '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},\n'
            ' "status": {"allocatable": {"nvidia.com/gpu": "eight"}}}]}',
            "nodes:2: Node a cannot be read: nvidia.com/gpu is 'eight'; a whole number of devices was expected",
            id="quantity",
        ),
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\n"
            "apiVersion: v1\nkind: Node\nmetadata:\n  name: a\n  labels: {example.org/rack: 3}\n",
            "nodes:5: Node a cannot be read: Expected `str`, got `int` - at `$.metadata.labels[...]`",
            id="label-that-is-no-text",
        ),
        pytest.param("{a: [", "nodes:2:1: not valid YAML: did not find expected node content", id="no-yaml"),
        pytest.param("kind: Node\n", "nodes:1: not a Kubernetes object: it has no apiVersion", id="no-object"),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n",
            "nodes: no Nodes found; kubectl get nodes,pods -A -o json prints them with their Pods",
            id="no-nodes",
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(content: str, error: str) -> None:
    """A file that is no list of Nodes is exit code 2, and the place is named."""
    Path("nodes").write_text(content, encoding="utf-8")

    result = run("topology", "tree", "-f", "nodes")

    assert (result.stdout, result.stderr, result.exit_code) == ("", f"Error: {error}\n", 2)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(
            (),
            "give the Nodes: -f FILE with what kubectl get nodes,pods -A -o json prints, or a cluster by --kubeconfig",
            id="no-source",
        ),
        pytest.param(
            ("-f", "nodes.json", "--kubeconfig", "config"),
            "give the Nodes: -f FILE with what kubectl get nodes,pods -A -o json prints, or a cluster by --kubeconfig",
            id="two-sources",
        ),
        pytest.param(("-f", "nowhere"), "nowhere: cannot be read: No such file or directory", id="no-file"),
        pytest.param(
            ("-f", "nodes.json", "--level", "rak"),
            '--level rak: topology "coreweave" has no such level. Levels of topology "coreweave", farthest first: '
            "region, zone, fabric, superpod, leafgroup, rack, hostname.",
            id="level",
        ),
    ],
)
def test_wrong_usage_is_told(arguments: tuple[str, ...], error: str) -> None:
    """What is missing or unknown is named, with exit code 2."""
    write(Path("nodes.json"), *SMALL)

    result = run("topology", "tree", *arguments)

    assert (result.stdout, result.stderr.splitlines()[-1], result.exit_code) == ("", f"Error: {error}", 2)


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        pytest.param((0, 0, 0), [0, 0, 0], id="nothing"),
        pytest.param((8, 0, 0), [8, 0, 0], id="one"),
        pytest.param((1, 999, 0), [1, 7, 0], id="little-is-seen"),
        pytest.param((1, 1, 998), [1, 1, 6], id="two-that-are-little"),
        pytest.param((4, 2, 2), [4, 2, 2], id="exact"),
        pytest.param((1, 1, 1), [3, 3, 2], id="the-rest-goes-to-the-first"),
    ],
)
def test_shares_of_a_bar(amounts: tuple[int, ...], expected: list[int]) -> None:
    """A bar is as long as it should be, and what there is of any kind is seen in it."""
    assert shares(amounts, 8) == expected
