"""A progress bar on stderr, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

SMALL = 1_000_000
"""Below so many characters a run ends before a bar could be read."""


@contextmanager
def progress(length: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Yields a function that takes the steps towards a length.

    shown: whether a bar has the terminal to itself, even if results go there, too.
    """
    if length < SMALL or not sys.stderr.isatty() or (sys.stdout.isatty() and not shown):
        yield lambda _: None
        return
    with click.progressbar(length=length, file=sys.stderr, show_pos=False, label="checking") as bar:
        yield bar.update
