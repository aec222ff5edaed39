"""The files whose objects are judged, read part by part, and the processes that judge parts side by side."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import click

from policies.engine.request import JsonObject
from webhook.cli import options
from webhook.cli.exits import ToolError
from webhook.cli.findings import Result
from webhook.cli.judging import Judge
from webhook.files import yamlfile
from webhook.files.yamlfile import FileError, Part

ALONE = 64
"""So many parts are judged here before other processes begin: most runs have no more, and theirs come at once."""
SMALL = 1_000_000
"""Below so many characters a run ends before a bar could be read."""
_CHUNK_PARTS, _CHUNK_CHARACTERS = 64, 500_000
_MOST = 8
CRD = "CustomResourceDefinition"
CONTEXT = (CRD, "LimitRange", "ResourceQuota")
"""Kinds of objects by which others are judged."""


class Source(NamedTuple):
    """Files, and what is in those that can be read only once: standard input, as `-`, and FIFOs."""

    files: tuple[str, ...]
    once: Mapping[str, bytes]

    @classmethod
    def of(cls, files: Iterable[str]) -> Source:
        """The source of files, where `-` is standard input."""
        names = tuple(files)
        once = {name: _content(name) for name in names if name != "-" and yamlfile.odd(name) == yamlfile.FIFO}
        return cls(names, {"-": options.stdin(names), **once})

    @property
    def size(self) -> int:
        """The bytes of all files that can be read."""
        sizes = (Path(file).stat().st_size for file in self.files if file != "-" and Path(file).is_file())
        return sum(map(len, self.once.values())) + sum(sizes)

    def parts(self) -> Iterator[Part | str]:
        """The parts of all files, and a line for each file that cannot be read."""
        for file in self.files:
            try:
                yield from yamlfile.parts(*self._content(file))
            except OSError as error:
                yield f"{file}: cannot be read: {error.strerror}"
            except FileError as error:
                yield str(error)

    def context(self, *kinds: str) -> Iterator[JsonObject]:
        """The objects of some kinds in the files. What cannot be read is left out: others say so."""
        for file in self.files:
            try:
                name, content = self._content(file)
                parts = yamlfile.parts(name, content) if any(kind.encode() in content for kind in kinds) else ()
                chosen = (part for part in parts if any(kind in part.text for kind in kinds))
                yield from (value for part in chosen for value in _of_kinds(part, kinds))
            except (OSError, FileError):
                continue

    def _content(self, file: str) -> tuple[str, bytes]:
        """The name of a file for people, and what is in it. Raises OSError."""
        content = self.once.get(file)
        return "stdin" if file == "-" else file, _content(file) if content is None else content


def _content(file: str) -> bytes:
    return yamlfile.content(file, most=yamlfile.OBJECTS, pipes=True)


def _of_kinds(part: Part, kinds: Collection[str]) -> Iterator[JsonObject]:
    try:
        documents = yamlfile.load_part(part)
    except FileError:
        return
    for _, value in (item for document in documents for item in document.parts()):
        if isinstance(value, dict) and str(value.get("kind")) in kinds and isinstance(value.get("spec"), dict):
            yield value


class Step(NamedTuple):
    """Results, and the characters that were read for them."""

    results: list[Result]
    characters: int


def steps(parts: Iterable[Part | str], judge: Judge, *, alone: bool) -> Iterator[Step]:
    """The results of all parts, in their order, few at a time. alone: whether this process judges all of them.

    Raises ToolError if another process ends early.
    """
    rest = iter(parts)
    processes = 1 if alone else _processes()
    for part in islice(rest, None if processes < 2 else ALONE):
        yield Step(list(judge.results(part)), _length(part))
    chunks = _chunks(rest)
    first = next(chunks, None)
    if first is None:
        return
    gc.freeze()  # what is loaded by now lives as long as the process: the collector need not look at it
    # Processes are copies of this one, so that none loads the policies again.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), _begin, (judge,))
    waiting: deque[tuple[Future[Any], int]] = deque()
    try:
        for chunk in chain([first], chunks):
            waiting.append((pool.submit(_work, chunk), sum(map(_length, chunk))))
            if len(waiting) > processes:
                yield _taken(*waiting.popleft(), judge)
        while waiting:
            yield _taken(*waiting.popleft(), judge)
    except BrokenProcessPool:
        raise ToolError("a process that judges objects ended early; it may have been out of memory") from None
    finally:
        pool.shutdown(cancel_futures=True)
        gc.unfreeze()


def _taken(future: Future[Any], characters: int, judge: Judge) -> Step:
    results, reach = future.result()
    if judge.coverage is not None:
        judge.coverage.merge(reach)
    return Step(results, characters)


_JUDGES: list[Judge] = []
"""The judge of a process that helps; empty in the first process."""


def _begin(judge: Judge) -> None:
    _JUDGES.append(judge)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others


def _work(chunk: list[Part | str]) -> tuple[list[Result], object]:
    (judge,) = _JUDGES
    results = [result for part in chunk for result in judge.results(part)]
    return results, judge.coverage.reach if judge.coverage is not None else {}


def _chunks(parts: Iterable[Part | str]) -> Iterator[list[Part | str]]:
    chunk: list[Part | str] = []
    characters = 0
    for part in parts:
        chunk.append(part)
        characters += _length(part)
        if len(chunk) >= _CHUNK_PARTS or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _length(part: Part | str) -> int:
    return 0 if isinstance(part, str) else len(part.text)


def _processes() -> int:
    """One for each core that this process may use; 1 where processes cannot be copied."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MOST)


@contextmanager
def progress(length: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, on a terminal only: yields a function that takes the steps towards a length.

    shown: whether a bar has the terminal to itself, even if results go there, too.
    """
    if length < SMALL or not sys.stderr.isatty() or (sys.stdout.isatty() and not shown):
        yield lambda _: None
        return
    with click.progressbar(length=length, file=sys.stderr, show_pos=False, label="checking") as bar:
        yield bar.update
