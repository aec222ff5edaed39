"""Reads and compiles sources of policies in child processes, so that none takes the time or the memory of the answers.

What ends such a child would end this process: it has the policies of a source only after a child has compiled them. A
child that is ended is followed by one for the sources that it did not get to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from policies.admissionpolicy.documents.reader import Part, portable
from policies.admissionpolicy.evaluation.compilation import compile_policy, part_of
from policies.admissionpolicy.model import Policy
from policies.cel.generation import fusion
from policies.kubernetes.release import Release
from webhook.child import KILLED, Child, ChildError
from webhook.files.walk import LOOK_SECONDS
from webhook.files.yamlfile import FileError
from webhook.limits import COMPILING, Limits

QUICK, SLOW = COMPILING._replace(seconds=1), COMPILING
"""What the children of most sources may use, and those of the ones that take longer, so that others need not wait."""
# A child may wait for its processor so many times as long as it may use it.
_PATIENCE = 60


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
    """The contents of units, each version of which is read once. changed: set after each that took long."""

    def __init__(self) -> None:
        self._known: dict[str, Content] = {}
        self._waiting: dict[str, Unit] = {}
        self._slow: set[str] = set()
        self.changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> Sequence[str]:
        """The names of the units that take long, and are not read yet."""
        return tuple(self._waiting)

    async def of(self, units: Sequence[Unit], release: Release) -> Mapping[str, Content]:
        """The contents of units by name, as an API server of a release takes them, without those that take long."""
        asked = {unit.name: unit for unit in units}
        new = [unit for unit in units if self._version(unit.name) != unit.version]
        self._known = {name: content for name, content in self._known.items() if name in asked}
        slow = {unit.name: unit for unit in new if unit.name in self._slow}
        self._waiting = {name: slow[name] for name in (*self._waiting, *slow) if name in slow}  # each keeps its place
        self._slow &= asked.keys()
        quick = [unit for unit in new if unit.name not in self._slow]
        while quick:
            done, reason = await self._read(quick, QUICK, release)
            self._known |= done
            quick = quick[len(done) :]
            if reason and not done:
                unit = quick.pop(0)
                self._slow.add(unit.name)
                self._waiting[unit.name] = unit
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._read_slowly(release))
        return {unit.name: self._known[unit.name] for unit in units if self._version(unit.name) == unit.version}

    async def all(self, units: Sequence[Unit], release: Release) -> Mapping[str, Content]:
        """The contents of all units, which may take long."""
        contents = await self.of(units, release)
        while self._task is not None and not self._task.done():
            await self._task
            contents = await self.of(units, release)
        return contents

    def _version(self, name: str) -> str | None:
        return self._known[name].version if name in self._known else None

    async def _read_slowly(self, release: Release) -> None:
        """Read what waits, one by one."""
        while self._waiting:
            unit = next(iter(self._waiting.values()))
            done, reason = await self._read([unit], SLOW, release)
            newest = self._waiting.pop(unit.name, unit)
            if newest.version != unit.version:
                self._waiting[unit.name] = newest
            elif reason == KILLED:
                # There was no processor, process or memory for it, for which it need not be at fault.
                self._waiting[unit.name] = unit
                await asyncio.sleep(LOOK_SECONDS)
            else:
                self._known |= done or {unit.name: _refused(unit, reason)}
                self._slow -= done.keys()
            self.changed.set()

    async def _read(self, units: Sequence[Unit], limits: Limits, release: Release) -> tuple[dict[str, Content], str]:
        """What a child has read before its end, and what ended it before it had read all."""
        try:
            child = Child(partial(_read, units, release), limits)
        except ChildError:
            return {}, KILLED
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
        return done, end.reason


def _refused(unit: Unit, reason: str) -> Content:
    what = f"{reason} to compile" if reason.startswith("took") else f"the process that compiled it {reason}"
    return Content(unit.version, problem=f"{unit.name}: {what}")


def _read(units: Iterable[Unit], release: Release) -> Iterator[Content]:
    """The contents of units, each after its policies were compiled in every form. Runs in a child."""
    for unit in units:
        content = here(unit)
        for part in content.parts:
            if isinstance(part.value, Policy):
                compiled = compile_policy(part.value, release)
                compiled.load()
                if part.kind == "ValidatingAdmissionPolicy" and compiled.reads:
                    fusion.written([part_of(compiled, is_selective=True)])
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
