"""`--watch`: run a verb again whenever a file changes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import click

from webhook.cli.output import OK, InputError, complain, say
from webhook.files import walk
from webhook.files.manifest import SUFFIXES


def run(verb: Callable[[], int], paths: Iterable[str], *, again: bool) -> NoReturn:
    """Run a verb and end with its exit code.

    again: run it again whenever a file at or below the paths has changed, until Ctrl-C. Raises InputError.
    """
    if not again:
        sys.exit(verb())
    given = tuple(paths)
    if "-" in given:
        raise InputError("--watch follows files; standard input is none")
    if missing := [path for path in given if not Path(path).exists()]:
        raise InputError(f"{', '.join(missing)}: there is no such file or folder to follow")
    walk.require()
    folders = {path if Path(path).is_dir() else str(Path(path).parent) for path in given}
    try:
        asyncio.run(_follow(verb, folders))
    except KeyboardInterrupt:
        sys.exit(OK)
    raise AssertionError("a watch ends by a signal only")


async def _follow(verb: Callable[[], int], folders: Iterable[str]) -> None:
    """Run the verb now, and whenever a file has changed. What cannot be read is said, for it may be mended soon."""
    changes = walk.changes(folders)
    before: Mapping[Path, int] | None = None
    due = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)  # from here on files are followed: what changes during the first run counts
    while True:
        if before != (before := _state(folders)):
            say(f"{datetime.now().astimezone():%H:%M:%S}")
            try:
                verb()
            except click.ClickException as error:
                complain(error)
            say("Waiting for a change; Ctrl-C ends.")
        await due
        due = asyncio.ensure_future(anext(changes))


def _state(folders: Iterable[str]) -> Mapping[Path, int]:
    """When files below the folders were written."""
    files = (file for folder in folders for file in Path(folder).rglob("*") if file.suffix in SUFFIXES)
    return {file: file.stat().st_mtime_ns for file in files if file.is_file()}
