"""Files with topologies: each form that people have them in, directories, and mistakes with their places."""

import json
from pathlib import Path
from textwrap import dedent

import pytest

from policies.topology.topology import Level, Topology
from webhook.sources import topologyfiles
from webhook.sources.topologyfiles import TopologyFilesError

_KAI = """\
    apiVersion: kai.scheduler/v1alpha1
    kind: Topology
    metadata:
      name: halls
    spec:
      levels:
      - nodeLabel: example.org/site
      - nodeLabel: example.org/hall
        alias: room
      - nodeLabel: kubernetes.io/hostname
    """
_KUEUE = """\
    # From another cluster.
    apiVersion: kueue.x-k8s.io/v1beta1
    kind: Topology
    metadata: {name: blocks, uid: 2f1c}
    spec:
      levels: [{nodeLabel: example.org/block}]
    status: {}
    """
_RUNAI = {
    "name": "fabric",
    "clusterId": "71f69d83-ba66-4822-adf5-55ce55efd210",
    "levels": ["backend.coreweave.cloud/fabric", "node.coreweave.cloud/rack", "kubernetes.io/hostname"],
}
_HOSTNAME = Level("kubernetes.io/hostname", ("kubernetes.io/hostname",))
_HALLS = (
    Level("example.org/site", ("example.org/site",)),
    Level("example.org/hall", ("example.org/hall",), "room"),
    _HOSTNAME,
)
_BLOCKS = (Level("example.org/block", ("example.org/block",)),)
_FABRIC = (
    Level("backend.coreweave.cloud/fabric", ("backend.coreweave.cloud/fabric", "ib.coreweave.cloud/fabric")),
    Level("node.coreweave.cloud/rack", ("node.coreweave.cloud/rack",)),
    _HOSTNAME,
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the names of files short."""
    monkeypatch.chdir(tmp_path)


def _write(name: str, text: str | bytes) -> str:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
    return name


def _errors(*paths: str) -> list[str]:
    """The lines of the error."""
    with pytest.raises(TopologyFilesError) as caught:
        topologyfiles.read(paths)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.yaml", _KAI, [Topology("halls", _HALLS, source="a.yaml:1", objects=("KAI",))]),
        ("a.yml", _KUEUE, [Topology("blocks", _BLOCKS, source="a.yml:2", objects=("Kueue",))]),
        ("a.json", json.dumps(_RUNAI), [Topology("fabric", _FABRIC, source="a.json:1")]),
        (
            "a.json",
            json.dumps({**_RUNAI, "createdBy": "\U0001f9e0"}, indent=2),
            [Topology("fabric", _FABRIC, source="a.json:1")],
        ),
        ("plain", _KAI, [Topology("halls", _HALLS, source="plain:1", objects=("KAI",))]),
        (
            "a.yaml",
            f"---\n{dedent(_KAI)}---\n---\n{json.dumps(_RUNAI)}\n---\n{dedent(_KUEUE)}",
            [
                Topology("halls", _HALLS, source="a.yaml:2", objects=("KAI",)),
                Topology("fabric", _FABRIC, source="a.yaml:14"),
                Topology("blocks", _BLOCKS, source="a.yaml:17", objects=("Kueue",)),
            ],
        ),
        (
            "a.yaml",
            """\
            apiVersion: v1
            kind: List
            items:
            - apiVersion: kueue.x-k8s.io/v1beta2
              kind: Topology
              metadata: {name: blocks}
              spec: {levels: [{nodeLabel: example.org/block}]}
            - name: more
              levels: [example.org/block]
            """,
            [
                Topology("blocks", _BLOCKS, source="a.yaml:4", objects=("Kueue",)),
                Topology("more", _BLOCKS, source="a.yaml:8"),
            ],
        ),
        ("a.yaml", "# nothing yet\n", []),
    ],
)
def test_a_file_of_topologies(name: str, text: str, expected: list[Topology]) -> None:
    """Objects of KAI and of Kueue and Run:ai's JSON are read with levels and aliases, and know where they stand."""
    assert topologyfiles.read([_write(name, text)]) == expected


def test_a_directory_of_topologies() -> None:
    """A directory stands for the YAML and JSON in it and below, by name; what else is there is no topology."""
    _write("dir/b.yaml", _KAI)
    _write("dir/a.json", json.dumps(_RUNAI))
    _write("dir/sub/c.yml", _KUEUE)
    _write("dir/notes.txt", "no topology at all")
    _write("dir/.hidden.yaml", "no topology at all")

    assert [(each.name, each.source) for each in topologyfiles.read(["dir", "dir/sub/c.yml"])] == [
        ("fabric", "dir/a.json:1"),
        ("halls", "dir/b.yaml:1"),
        ("blocks", "dir/sub/c.yml:2"),
        ("blocks", "dir/sub/c.yml:2"),
    ]


def test_a_mounted_config_map() -> None:
    """The files of a mounted ConfigMap, which stand in a hidden directory under links, are read once."""
    _write("mounted/..2026_03_01/halls.yaml", _KAI)
    Path("mounted/..data").symlink_to("..2026_03_01", target_is_directory=True)
    Path("mounted/halls.yaml").symlink_to("..data/halls.yaml")

    assert topologyfiles.read(["mounted"]) == [
        Topology("halls", _HALLS, source="mounted/halls.yaml:1", objects=("KAI",))
    ]


def test_no_files_are_no_topologies() -> None:
    """Without any path, and with an empty directory, there are none."""
    Path("empty").mkdir()

    assert topologyfiles.read([]) == topologyfiles.read(["empty"]) == []


_LEVELS = "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: halls}\nspec:\n  levels:\n"
_KEY = "a level is the key of a node label, such as example.org/rack; found"
_EXPECTED = "a Topology of kai.scheduler or kueue.x-k8s.io, or a ClusterTopologyBinding of grove.io was expected, found"


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (
            f"{_LEVELS}  - nodeLabel: example.org/site\n  - alias: room\n    nodeLabel: the hall\n",
            [f'8: spec.levels[1].nodeLabel: {_KEY} "the hall"'],
        ),
        (
            '{\n  "name": "fabric",\n  "levels": [\n    "example.org/site",\n    "the hall"\n  ]\n}\n',
            [f'5: levels[1]: {_KEY} "the hall"'],
        ),
        ('{\n  "name": "\\ud83e\\udde0",\n  "levels": ["the hall"]\n}\n', [f'3: levels[0]: {_KEY} "the hall"']),
        (
            "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata:\n  labels: {}\nspec:\n  levels: rack\n",
            [
                "3: metadata.name: a topology needs a name, found null",
                '6: spec.levels: a topology needs levels, farthest first, found "rack"',
            ],
        ),
        (
            "name: fabric\n---\nname: 7\nlevels: [example.org/hall]\n",
            [
                "1: levels: a topology needs levels, farthest first, found none",
                "3: name: a topology needs a name, found the number 7",
            ],
        ),
        (
            "kind: TopologyList\nitems:\n- name: a\n  levels: [the hall]\n- 3\n",
            [f'4: items[0].levels[0]: {_KEY} "the hall"', "5: items[1]: a map was expected, found the number 3"],
        ),
        ("apiVersion: v1\nkind: ConfigMap\n", [f'2: kind: {_EXPECTED} "ConfigMap" of "v1"']),
        ("halls\n", ['1: a map was expected, found "halls"']),
        ("name: a\nname: b\n", ['2:1: duplicate field "name", first on line 1']),
        ("name: [\n", ["2:1: not valid YAML: did not find expected node content"]),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, errors: list[str]) -> None:
    """Every mistake in a file has a line with the file, its own line and path, and what was found."""
    assert _errors(_write("a.yaml", text)) == [f"a.yaml:{error}" for error in errors]


def test_a_file_that_is_no_text() -> None:
    """Bytes that are no UTF-8 are told with their position."""
    assert _errors(_write("a.yaml", b"name: \xff\n")) == ["a.yaml: not UTF-8 text: invalid start byte at byte 6"]


def test_what_cannot_be_read() -> None:
    """A file that is not there, and a link that leads nowhere in a directory, are told with the cause."""
    Path("dir").mkdir()
    Path("dir/gone.yaml").symlink_to("nowhere")
    Path("dir/loop.yaml").symlink_to("loop.yaml")

    assert _errors("nowhere.yaml", "dir") == [
        "nowhere.yaml: cannot be read: No such file or directory",
        "dir/gone.yaml: cannot be read: No such file or directory",
        "dir/loop.yaml: cannot be read: Too many levels of symbolic links",
    ]


def test_all_mistakes_of_all_files_are_told_at_once() -> None:
    """Whoever corrects files reads of every one that is wrong, in the order in which they are read."""
    _write("dir/a.yaml", "halls\n")
    _write("dir/b.yaml", _KAI)
    _write("dir/c.yaml", "name: [\n")

    assert _errors("dir", "nowhere.yaml", _write("more.json", "[]")) == [
        'dir/a.yaml:1: a map was expected, found "halls"',
        "dir/c.yaml:2:1: not valid YAML: did not find expected node content",
        "nowhere.yaml: cannot be read: No such file or directory",
        "more.json:1: a map was expected, found a list",
    ]


def test_versions(tmp_path: Path) -> None:
    """A version is another one where a file holds something else, comes, goes or can no longer be read."""
    directory, alone = tmp_path / "all", tmp_path / "alone.json"
    directory.mkdir()
    (directory / "one.json").write_text("{}", encoding="utf-8")
    paths = (str(directory), str(alone))

    found = [topologyfiles.version(paths)]
    alone.write_text("{}", encoding="utf-8")
    found.append(topologyfiles.version(paths))
    (directory / "one.json").touch()
    assert topologyfiles.version(paths) == found[1]
    (directory / "one.json").write_text("[]", encoding="utf-8")
    found.append(topologyfiles.version(paths))
    (directory / "two.json").write_text("[]", encoding="utf-8")
    found.append(topologyfiles.version(paths))

    assert len(set(found)) == len(found)
    alone.unlink()
    (directory / "two.json").unlink()
    (directory / "one.json").write_text("{}", encoding="utf-8")
    assert topologyfiles.version(paths) == found[0]
