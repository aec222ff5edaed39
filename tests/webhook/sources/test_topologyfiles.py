"""Files with topologies: several in a file, directories, and mistakes with their places."""

import json
from pathlib import Path

import pytest

from policies.topology.topology import Level, Topology
from webhook.files.yamlfile import FileError
from webhook.sources import topologyfiles

_KAI = """\
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: halls}
spec:
  levels:
  - {nodeLabel: example.org/hall, alias: room}
"""
_KUEUE = """\
apiVersion: v1
kind: List
items:
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: Topology
  metadata: {name: blocks}
  spec: {levels: [{nodeLabel: example.org/block}]}
- name: more
  levels: [example.org/block]
"""
_RUNAI = json.dumps({"name": "racks", "levels": ["example.org/rack"]})
_HALLS = Level("example.org/hall", ("example.org/hall",), "room")
_BLOCKS, _RACKS = (Level(f"example.org/{name}", (f"example.org/{name}",)) for name in ("block", "rack"))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the names of files short."""
    monkeypatch.chdir(tmp_path)


def _write(name: str, text: str) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(text.encode("utf-8", "surrogateescape"))
    return name


def _errors(*paths: str) -> list[str]:
    """The lines of the error."""
    with pytest.raises(FileError) as caught:
        topologyfiles.read(paths)
    return str(caught.value).splitlines()


def test_a_file_of_topologies() -> None:
    """Objects of KAI and of Kueue and Run:ai's JSON know where they stand, in whatever file is named."""
    text = f"---\n{_KAI}---\n---\n{_RUNAI}\n---\n{_KUEUE}"

    assert topologyfiles.read([_write("plain", text), _write("none.yaml", "# nothing yet\n")]) == [
        Topology("halls", (_HALLS,), source="plain:2", objects=("KAI",)),
        Topology("racks", (_RACKS,), source="plain:10"),
        Topology("blocks", (_BLOCKS,), source="plain:15", objects=("Kueue",)),
        Topology("more", (_BLOCKS,), source="plain:19"),
    ]


_KEY = "a level is the key of a node label, such as example.org/rack; found"
_LEVELS = "a topology needs levels, farthest first, found"


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (f"{_KAI}  - alias: room\n    nodeLabel: the hall\n", [f'8: spec.levels[1].nodeLabel: {_KEY} "the hall"']),
        ('{\n  "name": "\\ud83e\\udde0",\n  "levels": ["the hall"]\n}\n', [f'3: levels[0]: {_KEY} "the hall"']),
        (
            _KAI.partition("{name")[0] + "\n  labels: {}\nspec:\n  levels: rack\n",
            ["3: metadata.name: a topology needs a name, found null", f'6: spec.levels: {_LEVELS} "rack"'],
        ),
        (
            "name: fabric\n---\nname: 7\nlevels: [example.org/hall]\n",
            [f"1: levels: {_LEVELS} none", "3: name: a topology needs a name, found the number 7"],
        ),
        (
            "kind: TopologyList\nitems:\n- name: a\n  levels: [the hall]\n- 3\n",
            [f'4: items[0].levels[0]: {_KEY} "the hall"', "5: items[1]: a map was expected, found the number 3"],
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, errors: list[str]) -> None:
    """Every mistake in a file has a line with the file, its own line and path, and what was found."""
    assert _errors(_write("a.yaml", text)) == [f"a.yaml:{error}" for error in errors]


def test_all_mistakes_of_all_files_are_told_at_once() -> None:
    """Whoever corrects files reads of every one that is wrong, in the order in which they are read."""
    for name, text in (("a", "halls\n"), ("b", _KAI), ("c", "name: [\n"), ("d", "name: \udcff\n")):
        _write(f"dir/{name}.yaml", text)
    Path("dir/gone.yaml").symlink_to("nowhere")
    Path("dir/loop.yaml").symlink_to("loop.yaml")

    assert _errors("dir", "nowhere.yaml", _write("more.json", "[]")) == [
        'dir/a.yaml:1: a map was expected, found "halls"',
        "dir/c.yaml:2:1: not valid YAML: did not find expected node content",
        "dir/d.yaml: not UTF-8 text: invalid start byte at byte 6",
        "dir/gone.yaml: cannot be read: No such file or directory",
        "dir/loop.yaml: cannot be read: Too many levels of symbolic links",
        "nowhere.yaml: cannot be read: No such file or directory",
        "more.json:1: a map was expected, found a list",
    ]


def test_versions() -> None:
    """A version is another one where a file holds something else, comes, goes or can no longer be read."""

    def version(**texts: str) -> str:
        for name, text in texts.items():
            _write(f"all/{name}.json" if name != "alone" else "alone.json", text)
        return topologyfiles.version(("all", "alone.json"))

    found = [version(one="{}"), version(alone="{}"), version(one="[]"), version(two="[]")]
    Path("all/one.json").touch()
    same = version()
    Path("alone.json").unlink()
    Path("all/two.json").unlink()
    Path("alone.json").symlink_to("alone.json")
    unreadable = version(one="{}")
    Path("alone.json").unlink()

    assert (same, len({*found, unreadable}), version()) == (found[3], 5, found[0])
