"""The policies in force after each change of their sources: what is taken, what is refused and why."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from support.policies.policydocuments import documents, policy

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import Part, parts, together
from policies.kubernetes.release import NEWEST
from webhook.child import Child, ChildError
from webhook.files.yamlfile import FileError
from webhook.limits import Limits
from webhook.sources import policyfiles, policyset
from webhook.sources.policyset import EMPTY, Content, Directories, PolicySet, Readings, Unit, updated

_TODAY = date(2026, 11, 21)
_POLICY, _BINDING = policy("NAME", "EXPRESSION").removesuffix("---\n").split("---\n")


def _policy(name: str, expression: str = "true") -> str:
    return _POLICY.replace("NAME", name).replace("EXPRESSION", expression)


def _bound(name: str, expression: str = "true") -> str:
    return f"{_policy(name, expression)}---\n{_BINDING.replace('NAME', name)}"


def _content(text: str, source: str) -> Content:
    found = [part for document in documents(text, f"{source}.yaml") for part in parts(document)]
    return Content(text, tuple(found))


def _after(current: PolicySet, **texts: str) -> PolicySet:
    return updated(current, {source: _content(text, source) for source, text in texts.items()}, _TODAY)


def _in_force(found: PolicySet) -> Mapping[str, str]:
    """The policies in force with their expression."""
    return {policy.name: policy.validations[0].expression.text for policy in found.files.loaded.policies}


_HISTORIES = {
    "without errors the set is what all sources hold": (["a:first b:second"], "first=true second=true", ""),
    "what breaks keeps what it had, others follow their changes": (
        ["a:first b:second", "a:first=tru b:second=false"],
        "first=true second=false",
        "a",
    ),
    "a new source with errors is left out": (["a:first b:second=1"], "first=true", "b"),
    "whoever had a name keeps it": (["b:one", "a:one=false b:one"], "one=true", "a"),
    "and changes it freely": (["b:one", "a:one b:one", "a:one=1==1 b:one=false"], "one=false", "a"),
    "what a binding needs does not go": (["a:one- b:-one", "b:-one"], "one=true", "a"),
    "and comes again": (["a:one- b:-one", "b:-one", "a:one-=false b:-one"], "one=false", ""),
    "nobody else is kept back by that": (
        ["a:one- b:-one c:third", "b:-one c:third=false d:fourth"],
        "third=false fourth=true one=true",
        "a",
    ),
    "nor where it is unknown who removed it": (
        ["a:one-,two b:-one c:third", "a:two b:-one c:third=false"],
        "one=true two=true third=false",
        "a",
    ),
    "a binding before its policy is refused": (["a:-one"], "", "a"),
    "until the policy is there": (["a:-one", "a:-one b:one-"], "one=true", ""),
    "policies go with their source": (["a:first b:second", "b:second"], "second=true", ""),
}


def _texts(state: str) -> dict[str, str]:
    """Texts by source. `one` is a policy with its binding, `one-` without, `-one` the binding; `=` its expression."""
    texts = {}
    for source, words in (item.split(":") for item in state.split()):
        named = [word.partition("=") for word in words.split(",")]
        made = (
            _BINDING.replace("NAME", name[1:])
            if name.startswith("-")
            else (_policy if name.endswith("-") else _bound)(name.rstrip("-"), expression or "true")
            for name, _, expression in named
        )
        texts[source] = "---\n".join(made)
    return texts


@pytest.mark.parametrize(("states", "in_force", "refused"), _HISTORIES.values(), ids=_HISTORIES)
def test_sources_that_change(states: list[str], in_force: str, refused: str) -> None:
    """What is in force after sources changed, and whose newest content is not."""
    found = EMPTY
    for state in states:
        found = _after(found, **_texts(state))

    expected = dict(one.split("=") for one in in_force.split())
    assert (_in_force(found), list(found.refused)) == (expected, refused.split())


_BOTH = _after(EMPTY, a=_bound("first"), b=_bound("second"))


def test_the_reasons() -> None:
    """A refusal says what is wrong where, which other object has the name, or who needs what went."""
    duplicate = _after(_after(EMPTY, b=_bound("one")), a=_bound("one", "false"), b=_bound("one"))
    gone = _after(_after(EMPTY, **_texts("a:one- b:-one")), **_texts("b:-one"))
    unread = updated(_BOTH, {"a": Content("2", (), "a.yaml: cannot be read"), "b": _BOTH.contents["b"]}, _TODAY)

    assert _after(_BOTH, a=_bound("first", "tru"), b=_bound("second")).refused == {
        "a": "a.yaml:7:31: spec.validations[0].expression: undeclared reference to 'tru' (in container '')\ntru\n^"
    }
    assert duplicate.refused == {
        "a": 'a.yaml:3:18: metadata.name: Duplicate value: "one"\n'
        "hint: the first ValidatingAdmissionPolicy of this name is at b.yaml:3: rename one\n"
        'a.yaml:11:18: metadata.name: Duplicate value: "one"\n'
        "hint: the first ValidatingAdmissionPolicyBinding of this name is at b.yaml:11: rename one"
    }
    assert gone.refused == {
        "a": "others need what is no longer there:\n"
        'b.yaml:4:20: spec.policyName: Not found: "one"\n'
        "hint: a ValidatingAdmissionPolicy of this name must be among the documents"
    }
    assert (_in_force(unread), unread.refused) == (_in_force(_BOTH), {"a": "a.yaml: cannot be read"})


def test_the_same_again() -> None:
    """What did not change stays the same object, so that nothing is compiled again."""
    found = updated(_BOTH, dict(_BOTH.contents), _TODAY)

    before, after = _BOTH.files.loaded.policies, found.files.loaded.policies
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, True]


@pytest.mark.parametrize("length", [3, 100])
def test_a_chain_of_sources_that_need_each_other(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """The last one is broken, so all are refused, in a bounded number of passes; a source beside them is in force."""
    passes = Mock(wraps=together)
    monkeypatch.setattr(policyset, "together", passes)
    bindings = {number: _BINDING.replace("NAME", f"policy-{number}") for number in range(length)}
    chain = {f"s{number}": f"{_policy(f'policy-{number}')}---\n{bindings[number - 1]}" for number in range(1, length)}

    found = _after(EMPTY, s0=_policy("policy-0"), **chain, beside=_bound("beside"))

    assert (_in_force(found), {*found.refused}) == ({"beside": "true"}, {"s0", *chain})
    assert passes.call_count <= 12


@pytest.mark.parametrize(
    "spec", ["x", "{versions: [v1]}", "{versions: 3}", "{names: {kind: [K]}, versions: [{name: v1, schema: x}]}"]
)
def test_a_definition_that_is_none(spec: str) -> None:
    """A CustomResourceDefinition that nobody could read is an error of its source, and of no other."""
    text = f"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: x}}\nspec: {spec}\n"

    found = _after(EMPTY, a=text, b=_bound("second"))

    assert (_in_force(found), list(found.refused)) == ({"second": "true"}, ["a"])
    assert found.refused["a"].startswith("a.yaml:4:7: spec: this is not a valid CustomResourceDefinition: ")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give sources that take long no more time than others, but count them as such."""
    monkeypatch.setattr(policyset, "SLOW", policyset.QUICK)


def _unit(name: str, read: Callable[[], object] = lambda: None, version: str = "1") -> Unit:
    """A unit that first does something."""

    def parts_read() -> tuple[Part, ...]:
        read()
        value = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        return parts(Document(value=value, name=name, places=lambda _: (1, 1)))

    return Unit(name, name, version, parts_read)


def _spin() -> None:
    while True:
        pass


def _crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _raise(error: Exception) -> None:
    raise error


def _begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first unit of each child that begins from now on."""
    first: list[str] = []

    class Noted(Child):
        def __init__(self, work: Callable[[], list[object]], limits: Limits) -> None:
            super().__init__(work, limits)
            assert isinstance(work, partial)
            first.append(work.args[0][0].name)

    monkeypatch.setattr(policyset, "Child", Noted)
    return first


async def _problems(readings: Readings, *units: Unit) -> dict[str, str]:
    return {name: content.problem for name, content in (await readings.all(units, NEWEST)).items()}


async def test_what_ends_a_child_is_refused_alone() -> None:
    """A source that takes too long, takes too much memory or crashes is named with the reason; all others are read."""
    works: dict[str, tuple[Callable[[], object], str]] = {
        "a": (int, ""),
        "slow": (_spin, "slow: took over 1 s to compile"),
        "b": (int, ""),
        "large": (lambda: bytearray(2 * policyset.QUICK.memory), "large: took over 128 MiB of memory to compile"),
        "crashing": (_crash, "crashing: the process that compiled it ended with -11"),
        "broken": (lambda: _raise(FileError("broken: not valid YAML")), "broken: not valid YAML"),
        "defect": (lambda: _raise(KeyError("x")), "defect: cannot be read: KeyError: 'x'"),
        "c": (int, ""),
    }
    found = await _problems(Readings(), *(_unit(name, work) for name, (work, _) in works.items()))

    assert found == {name: problem for name, (_, problem) in works.items()}


async def test_others_do_not_wait_for_what_takes_long() -> None:
    """The rest is there at once; what waits is named, and tried again with more time."""
    readings = Readings()
    units = [_unit("slow", _crash), _unit("a")]
    first, waiting = await readings.of(units, NEWEST), tuple(readings.waiting)
    await readings.changed.wait()
    second = await readings.of(units, NEWEST)

    assert ("a" in first, {*first, *waiting}) == (True, {"a", "slow"})
    assert (sorted(second), tuple(readings.waiting)) == (["a", "slow"], ())


async def test_those_that_take_long_take_turns() -> None:
    """A source that changes all the time does not come before one that waits."""
    readings, found = Readings(), dict[str, Content]()
    for version in range(5):
        found |= await readings.of([_unit("a", _crash, str(version)), _unit("b", _crash)], NEWEST)
        await readings.changed.wait()
        readings.changed.clear()

    assert "b" in found


async def test_each_version_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contents of the same version stay the same objects, refused ones too; a new version is read."""
    readings, begun = Readings(), _begun(monkeypatch)
    bad, good = _unit("bad", _crash), _unit("good")
    first = await readings.all([bad, good], NEWEST)
    children = len(begun)
    second = await readings.all([bad, good], NEWEST)
    third = await readings.all([_unit("bad", version="2"), good], NEWEST)

    assert [second[name] is first[name] for name in first] == [True, True]
    assert (len(begun), third["good"] is first["good"], third["bad"].problem) == (children + 1, True, "")


async def test_what_cannot_be_tried_now_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source is not refused because the kernel has no process for it."""

    def refuse(*_: object) -> None:
        raise ChildError("no process could be started")

    readings = Readings()
    monkeypatch.setattr(policyset, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(policyset, "Child", refuse)
    first = await readings.of([_unit("a")], NEWEST)
    monkeypatch.setattr(policyset, "Child", Child)

    assert (first, tuple(readings.waiting)) == ({}, ("a",))
    assert await _problems(readings, _unit("a")) == {"a": ""}


async def test_what_a_child_returns(tmp_path: Path) -> None:
    """The parts know their places, as if this process had read them."""
    file = tmp_path / "a.yaml"
    text = "\n\napiVersion: v1\nkind: Secret\nmetadata:\n  name: x\n"
    unit = Unit("a", "a", "1", lambda: policyfiles.parts(text, str(file)))
    (content,) = (await Readings().all([unit], NEWEST)).values()

    assert isinstance(content, Content)
    assert [part.place for part in content.parts] == [f"{file}:6"]


async def test_hostile_sources_come_after_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was in force comes first, then each source in turn, however many units of another one end children."""
    readings, first, good = Readings(), _begun(monkeypatch), _unit("good")
    await readings.all([good], NEWEST)
    hostile = [_unit(f"hostile-{number}", _crash)._replace(source="hostile") for number in range(5)]
    await readings.all([*hostile, _unit("new"), good._replace(version="2")], NEWEST)

    rest = [name for name in first if name != "hostile-0"]  # the first of all, which is tried by itself, too
    assert rest[:4] == ["good", "good", "new", "hostile-1"]


async def test_a_look_does_not_wait_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells what is known after a while, and whoever follows the contents hears of the rest."""
    monkeypatch.setattr(policyset, "_LOOK", 0.0)
    readings = Readings()
    early, waiting = await readings.of([_unit("a")], NEWEST), tuple(readings.waiting)
    await readings.changed.wait()
    late = await readings.of([_unit("a")], NEWEST)

    assert (list(early), waiting, list(late), readings.is_done) == ([], ("a",), ["a"], True)


async def test_what_is_in_force_waits_for_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A new version of it ends the child that reads what is new, which is read afterwards."""
    monkeypatch.setattr(policyset, "_LOOK", 0.0)
    readings, fifo = Readings(), tmp_path / "fifo"
    os.mkfifo(fifo)
    long, good = _unit("long", fifo.read_text), _unit("good")
    await readings.all([good], NEWEST)
    readings.changed.clear()
    await readings.of([long, good], NEWEST)
    await asyncio.sleep(0)  # the child begins
    better = good._replace(version="2")
    await readings.of([long, better], NEWEST)
    found = dict[str, Content]()
    while not found:
        await readings.changed.wait()
        readings.changed.clear()
        found |= await readings.of([long, better], NEWEST)
    waiting = tuple(readings.waiting)
    await asyncio.to_thread(fifo.write_text, "")

    assert ({name: content.version for name, content in found.items()}, waiting) == ({"good": "2"}, ("long",))
    assert await _problems(readings, long, better) == {"long": "", "good": ""}


_CONTEXT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"


def _write(file: Path, *names: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("---\n".join(_CONTEXT.replace("NAME", name) for name in names), encoding="utf-8")


async def _read(*paths: Path, readings: Readings | None = None) -> dict[str, Content]:
    units = await Directories(tuple(map(str, paths))).units(NEWEST)
    known = await (readings or Readings()).all(units, NEWEST)
    return dict(policyset.contents(units, known))


async def _names(path: Path) -> list[str]:
    return [part.report.document.value["metadata"]["name"] for part in (await _read(path))[str(path)].parts]


async def test_a_directory_is_read_by_name(tmp_path: Path) -> None:
    """All YAML and JSON files below it, those of a directory in order before those below; no suites, no hidden ones."""
    _write(tmp_path / "b.yaml", "b", "b2")
    _write(tmp_path / "a.yml", "a")
    _write(tmp_path / "inner" / "c.yaml", "c")
    (tmp_path / "d.json").write_text('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}}')
    _write(tmp_path / ".hidden.yaml", "h")
    (tmp_path / "suite.yaml").write_text("name: x")
    (tmp_path / "README.md").write_text("# Policies")

    assert await _names(tmp_path) == ["a", "b", "b2", "d", "c"]


async def test_a_mounted_config_map(tmp_path: Path) -> None:
    """The files that kubelet links are read once, and again when it switches the link to a new directory."""
    _write(tmp_path / "..2026_01" / "a.yaml", "old")
    _write(tmp_path / "..2026_02" / "a.yaml", "new")
    (tmp_path / "..data").symlink_to("..2026_01")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    before = (await _read(tmp_path))[str(tmp_path)]

    (tmp_path / "..next").symlink_to("..2026_02")
    (tmp_path / "..next").rename(tmp_path / "..data")

    assert [part.report.document.value["metadata"]["name"] for part in before.parts] == ["old"]
    assert await _names(tmp_path) == ["new"]
    assert (await _read(tmp_path))[str(tmp_path)].version != before.version


async def test_only_files_that_changed_are_read_again(tmp_path: Path) -> None:
    """What stands in an unchanged file stays the same object, whatever its dates; the version tells a change."""
    _write(tmp_path / "a.yaml", "a")
    _write(tmp_path / "b.yaml", "b")
    readings = Readings()
    first = (await _read(tmp_path, readings=readings))[str(tmp_path)]

    (tmp_path / "a.yaml").touch()
    same = (await _read(tmp_path, readings=readings))[str(tmp_path)]
    _write(tmp_path / "b.yaml", "other")
    third = (await _read(tmp_path, readings=readings))[str(tmp_path)]

    assert (same.version == first.version, third.version == first.version) == (True, False)
    assert [one is other for one, other in zip(first.parts, same.parts, strict=True)] == [True, True]
    assert [one is other for one, other in zip(first.parts, third.parts, strict=True)] == [True, False]


async def test_all_that_cannot_be_read(tmp_path: Path) -> None:
    """Every file that is no YAML or no text is named, with the place; a path that is not there is a problem too."""
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.yaml").write_bytes(b"a: \xff")
    _write(tmp_path / "c.yaml", "c")
    missing = tmp_path / "missing.yaml"

    found = await _read(tmp_path, missing)

    assert {path: content.problem for path, content in found.items()} == {
        str(tmp_path): f"{tmp_path}/a.yaml:2:1: not valid YAML: did not find expected node content\n"
        f"{tmp_path}/b.yaml: not UTF-8 text: invalid start byte at byte 3",
        str(missing): f"{missing}: cannot be read: No such file or directory",
    }


async def test_what_cannot_be_listed_is_not_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that cannot be read, as on a file system that is away, has a problem and has not lost its files."""
    _write(tmp_path / "a.yaml", "a")
    _write(tmp_path / "inner" / "b.yaml", "b")
    listed = os.scandir

    def away(path: str) -> Any:
        if str(path).endswith("inner"):
            raise OSError(errno.ESTALE, "Stale file handle", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", away)

    assert (await _read(tmp_path))[str(tmp_path)].problem == f"{tmp_path}/inner: cannot be read: Stale file handle"


async def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    """A FIFO or a link to a device in a directory is named and not opened; named itself, it is refused."""
    _write(tmp_path / "a.yaml", "a")
    os.mkfifo(tmp_path / "b.yaml")
    (tmp_path / "c.yaml").symlink_to("/dev/zero")
    fifo = tmp_path / "b.yaml"

    found = await _read(tmp_path, fifo)

    assert {path: content.problem for path, content in found.items()} == {
        str(tmp_path): "",
        str(fifo): f"{fifo}: cannot be read: it is a FIFO, not a regular file",
    }
    loaded = together(found[str(tmp_path)].parts)
    assert [document.value["metadata"]["name"] for document in loaded.context if document.value] == ["a"]
    assert [problem.message for problem in loaded.warnings] == [
        f"{fifo} is a FIFO, not a regular file: it is passed over",
        f"{tmp_path}/c.yaml is a device, not a regular file: it is passed over",
    ]
