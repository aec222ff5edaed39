"""Sources that are read in child processes: each once, under a budget, and those that exceed it alone."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import Part, parts
from policies.kubernetes.release import NEWEST
from webhook.child import Child, ChildError
from webhook.files.yamlfile import FileError
from webhook.limits import Limits
from webhook.sources import policyfiles, policyset
from webhook.sources.policyset import Content, Readings, Unit


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
