"""Processes that judge parts of files side by side. Results come in the order of the parts, few at a time."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from webhook.cli.exits import ToolError
from webhook.cli.findings.finding import Result, unreadable
from webhook.cli.objects.judge import Judge
from webhook.files.yamlfile import Part

ALONE = 64
"""So many parts are judged here before other processes begin: most runs have no more, and theirs come at once."""
_CHUNK_PARTS, _CHUNK_CHARACTERS = 64, 500_000
_MOST = 8
_Item = Part | str


class Step(NamedTuple):
    """Results, and the characters that were read for them."""

    results: list[Result]
    characters: int


class _Member(NamedTuple):
    process: BaseProcess
    connection: Connection


def steps(parts: Iterable[_Item], judge: Judge, *, alone: bool) -> Iterator[Step]:
    """The results of all parts, in their order. alone: whether this process judges all of them. Raises ToolError."""
    rest = iter(parts)
    for part in islice(rest, None if alone or _size() < 2 else ALONE):
        yield Step(_results(judge, part), _length(part))
    chunks = _chunks(rest)
    first = next(chunks, None)
    if first is not None:
        with _crew(judge) as members:
            yield from _shared(_again(first, chunks), members, judge)


def _again(first: list[_Item], rest: Iterator[list[_Item]]) -> Iterator[list[_Item]]:
    yield first
    yield from rest


def _shared(chunks: Iterator[list[_Item]], members: list[_Member], judge: Judge) -> Iterator[Step]:
    """The results of chunks that go round the members: each has one to judge while another's results are used."""
    busy: deque[tuple[_Member, int]] = deque()
    for member, chunk in zip(members, chunks, strict=False):
        busy.append(_given(member, chunk))
    while busy:
        member, characters = busy.popleft()
        results = _taken(member, judge)
        if (chunk := next(chunks, [])) != []:
            busy.append(_given(member, chunk))
        yield Step(results, characters)


def _given(member: _Member, chunk: list[_Item]) -> tuple[_Member, int]:
    member.connection.send(chunk)
    return member, sum(map(_length, chunk))


def _taken(member: _Member, judge: Judge) -> list[Result]:
    """The results of a member. Raises ToolError if it has ended."""
    try:
        results, reach = member.connection.recv()
    except (EOFError, ConnectionError):
        member.process.join()
        raise ToolError(f"a process that judges objects ended with {member.process.exitcode}") from None
    if isinstance(results, BaseException):
        raise results
    if judge.coverage is not None:
        judge.coverage.merge(reach)
    taken: list[Result] = results
    return taken


@contextmanager
def _crew(judge: Judge) -> Iterator[list[_Member]]:
    """As many processes as there are cores, copies of this one."""
    context = multiprocessing.get_context("fork")
    members: list[_Member] = []
    gc.freeze()  # what is loaded by now lives as long as the process: the collector need not look at it
    try:
        for _ in range(_size()):
            here, there = context.Pipe()
            held = [here, *(member.connection for member in members)]
            process = context.Process(target=_work, args=(judge, there, held), daemon=True)
            process.start()
            there.close()
            members.append(_Member(process, here))
        yield members
    finally:
        for member in members:
            member.connection.close()
            member.process.terminate()
            member.process.join()
        gc.unfreeze()


def _work(judge: Judge, connection: Connection, held: list[Connection]) -> None:
    """Judge chunks until there are no more. held: the other ends, which only the first process may keep open."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others
    for other in held:
        other.close()
    while True:
        try:
            chunk = connection.recv()
        except EOFError:
            return
        try:
            results: object = [result for part in chunk for result in _results(judge, part)]
        except Exception as error:  # noqa: BLE001 - the first process raises it
            results = error
        try:
            connection.send((results, judge.coverage.reach if judge.coverage is not None else {}))
        except ConnectionError:
            return


def _results(judge: Judge, part: _Item) -> list[Result]:
    return [unreadable(part)] if isinstance(part, str) else list(judge.results(part))


def _chunks(parts: Iterable[_Item]) -> Iterator[list[_Item]]:
    chunk: list[_Item] = []
    characters = 0
    for part in parts:
        chunk.append(part)
        characters += _length(part)
        if len(chunk) >= _CHUNK_PARTS or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _length(part: _Item) -> int:
    return 0 if isinstance(part, str) else len(part.text)


def _size() -> int:
    """The number of processes: one for each core that this process may use; 1 where processes cannot be copied."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MOST)
