"""Reads and compiles sources of policies in child processes, so that none takes the time or the memory of the answers.

What ends such a child would end this process: it has the policies of a source only after a child has compiled them. A
child that is ended is followed by one for the sources that it did not get to.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import NamedTuple

from policies.admissionpolicy.documents.reader import Part, portable
from policies.admissionpolicy.evaluation.compilation import LARGE, compile_policy
from policies.admissionpolicy.model import Policy
from policies.kubernetes.release import NEWEST, Release
from webhook.child import KILLED, Child, ChildError
from webhook.files.walk import LOOK_SECONDS
from webhook.files.yamlfile import FileError
from webhook.limits import COMPILING

QUICK, SLOW = COMPILING._replace(seconds=1), COMPILING
"""What the children of most sources may use, and those of the ones that take longer, so that others need not wait."""
# A child may wait for its processor so many times as long as it may use it.
_PATIENCE = 60
# The seconds that a look waits for what is new, and a start for what takes long.
_LOOK, _START = 3.0, 60.0


class Unit(NamedTuple):
    """What is read as a whole: a file, a ConfigMap or an object.

    source: the place that it belongs to. name: as people know it, no other unit has it. version: units with equal names
    and versions have equal contents. read: returns its parts, or raises FileError.
    """

    source: str
    name: str
    version: str
    read: Callable[[], tuple[Part, ...]]


class Content(NamedTuple):
    """The contents of a unit or a source, or why it cannot be read. Contents with equal versions are equal."""

    version: str
    parts: tuple[Part, ...] = ()
    problem: str = ""


class Readings:
    """The contents of units, each version of which is read once. changed: set after each that took long.

    There are two children at most: one for units that have not ended any, one for those that have.
    """

    def __init__(self) -> None:
        self._known: dict[str, Content] = {}
        self._waiting: dict[str, Unit] = {}
        self._slow: set[str] = set()
        self._ended = Counter[str]()  # children, by source
        self._tasks: dict[bool, asyncio.Task[None]] = {}
        self._release = NEWEST
        self._is_late = False
        self._running: tuple[Child, Sequence[Unit]] | None = None  # of the units that have not ended any
        self._end = monotonic() + _START
        self.changed = asyncio.Event()

    @property
    def waiting(self) -> Sequence[str]:
        """The names of the units that take long, or wait for such, and are not read yet."""
        return tuple(self._waiting)

    @property
    def is_done(self) -> bool:
        """Whether all is read, or has had its time."""
        return not self._waiting or monotonic() > self._end

    async def of(self, units: Sequence[Unit], release: Release) -> Mapping[str, Content]:
        """The contents of units by name, as an API server of a release takes them, without those that take long."""
        asked = {unit.name: unit for unit in units}
        self._release = release
        self._known = {name: content for name, content in self._known.items() if name in asked}
        new = {name: unit for name, unit in asked.items() if self._version(name) != unit.version}
        self._waiting = {name: new[name] for name in (*self._waiting, *new) if name in new}
        self._slow &= asked.keys()
        self._ended = Counter({unit.source: self._ended[unit.source] for unit in units})
        first = self._next(slow=False)[:1]
        if self._running is not None and first and self._in_force(first[0]) and first[0] not in self._running[1]:
            child, self._running = self._running[0], None
            child.kill()
        self._start(slow=True)
        self._start(slow=False)
        if first:
            ended, pending = await asyncio.wait([self._tasks[False]], timeout=_LOOK)
            self._is_late = bool(pending)
            for task in ended:
                task.result()
        return {name: self._known[name] for name, unit in asked.items() if self._version(name) == unit.version}

    async def all(self, units: Sequence[Unit], release: Release) -> Mapping[str, Content]:
        """The contents of all units, which may take long."""
        contents = await self.of(units, release)
        while self._waiting:
            await asyncio.wait([task for task in self._tasks.values() if not task.done()])
            contents = await self.of(units, release)
        return contents

    def _version(self, name: str) -> str | None:
        return self._known[name].version if name in self._known else None

    def _next(self, *, slow: bool) -> list[Unit]:
        """What is read next: new versions of what is in force, else the rest, first of who has ended few children."""
        units = [unit for unit in self._waiting.values() if (unit.name in self._slow) == slow]
        return sorted(
            [unit for unit in units if self._in_force(unit)] or units, key=lambda unit: self._ended[unit.source]
        )

    def _in_force(self, unit: Unit) -> bool:
        """Whether an earlier version was read without a problem."""
        return unit.name in self._known and not self._known[unit.name].problem

    def _start(self, *, slow: bool) -> None:
        """Read the units of one sort, if there are any and nothing does."""
        if self._next(slow=slow) and (slow not in self._tasks or self._tasks[slow].done()):
            self._tasks[slow] = asyncio.create_task(self._run(slow=slow))

    async def _run(self, *, slow: bool) -> None:
        while units := self._next(slow=slow)[: 1 if slow else None]:
            done, reason = await self._read(units, slow=slow)
            if reason and len(done) < len(units):
                unit = units[len(done)]
                self._ended[unit.source] += 1
                if not slow and not done:
                    self._slow.add(unit.name)
                    self._start(slow=True)
                elif slow and reason == KILLED:
                    # There was no processor, process or memory for it, for which it need not be at fault.
                    await asyncio.sleep(LOOK_SECONDS)
                elif slow:
                    done = {unit.name: _refused(unit, reason)}
            for name, content in done.items():
                if name in self._waiting and self._waiting[name].version == content.version:
                    self._known[name] = content
                    del self._waiting[name]
                if not content.problem:
                    self._slow.discard(name)
            if slow or self._is_late:
                self.changed.set()

    async def _read(self, units: Sequence[Unit], *, slow: bool) -> tuple[dict[str, Content], str]:
        """What a child has read before its end, and what ended it before it had read all."""
        limits = SLOW if slow else QUICK
        try:
            child = Child(partial(_read, units, self._release), limits)
        except ChildError:
            return {}, KILLED
        if not slow:
            self._running = child, units
        timer = asyncio.get_running_loop().call_later(limits.seconds * _PATIENCE, child.kill)
        try:
            end = await asyncio.shield(child.ended)
        finally:
            timer.cancel()
            child.kill()
        done: dict[str, Content] = {}
        for unit, content in zip(units, end.results(), strict=False):
            done[unit.name] = content
            await asyncio.sleep(0)  # a large one takes some ms
        if slow or self._running is not None:  # else it is nobody's fault: something urgent came
            return done, end.reason
        return done, ""


def _refused(unit: Unit, reason: str) -> Content:
    what = f"{reason} to compile" if reason.startswith("took") else f"the process that compiled it {reason}"
    return Content(unit.version, problem=f"{unit.name}: {what}")


def _read(units: Iterable[Unit], release: Release) -> Iterator[Content]:
    """The contents of units, each after its policies were compiled. Runs in a child."""
    for unit in units:
        content = here(unit)
        for part in content.parts:
            if isinstance(part.value, Policy):
                compile_policy(part.value, release).load(LARGE)
        yield content._replace(parts=tuple(map(portable, content.parts)))


def here(unit: Unit) -> Content:
    """The content of a unit, read in this process."""
    try:
        return Content(unit.version, unit.read())
    except FileError as error:
        return Content(unit.version, problem=str(error))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a defect met by what somebody wrote must not end what is in force
        return Content(unit.version, problem=f"{unit.name}: cannot be read: {type(error).__name__}: {error}")
