"""A terminal in which tests type the commands of pages: pipes, files, a few words of a shell, and functions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from support.service.commands import run, start

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMMENT = re.compile(r"\s+# .*$")
_SILENCED = " 2> /dev/null"


class Output(NamedTuple):
    """What a program printed, and its exit code."""

    stdout: str
    stderr: str = ""
    code: int = 0
    screen: str | None = None
    """Both as they appear on a screen; None for first what is on stderr."""

    @property
    def shown(self) -> str:
        """What a person sees."""
        return self.stderr + self.stdout if self.screen is None else self.screen


Program = Callable[["list[str]", str], Output]
"""From arguments and standard input to what it prints."""


class Terminal:
    """Types commands in a folder, and returns what each one prints."""

    def __init__(self, folder: Path, programs: Mapping[str, Program]) -> None:
        """programs: what stands first in a command, beside the words that every shell knows."""
        self.folder = folder
        self._programs = {"cd": self._cd, "echo": self._echo, "ls": self._ls, "grep": _grep, **programs}
        self._code = 0

    def enter(self, line: str) -> str:
        """Type a line; several pipelines are separated by `;`. Raises KeyError for a program that is not there."""
        if line.endswith(_SILENCED):
            return self._run(shlex.split(line.removesuffix(_SILENCED)), "").stdout
        words = shlex.shlex(_COMMENT.sub("", line.replace("2>&1", "")), posix=True, punctuation_chars="|<>;")
        words.whitespace_split = True
        words.commenters = ""
        return "".join(self._pipeline(part, merged="2>&1" in line) for part in _split(list(words), ";"))

    def _pipeline(self, words: list[str], *, merged: bool) -> str:
        screen, stdin = "", ""
        *first, last = _split(words, "|")
        for command in first:
            output = self._run(command, stdin)
            stdin = output.shown if merged else output.stdout
            screen += "" if merged else output.stderr
        output = self._run(last[: last.index(">")] if ">" in last else last, stdin)
        if ">" in last:
            (self.folder / last[-1]).write_text(output.stdout, encoding="utf-8")
            return screen + output.stderr
        return screen + output.shown

    def _run(self, words: list[str], stdin: str) -> Output:
        if "<" in words:
            place = words.index("<")
            words, stdin = words[:place], (self.folder / words[place + 1]).read_text(encoding="utf-8")
        output = self._programs[Path(words[0]).name](words[1:], stdin)
        self._code = output.code
        return output

    def _cd(self, arguments: list[str], _stdin: str) -> Output:
        self.folder = self.folder / arguments[0]
        return Output("")

    def _echo(self, arguments: list[str], _stdin: str) -> Output:
        return Output(" ".join(arguments).replace("$?", str(self._code)) + "\n")

    def _ls(self, arguments: list[str], _stdin: str) -> Output:
        return Output("".join(f"{path.name}\n" for path in sorted((self.folder / arguments[0]).glob("[!.]*"))))


def cks_admission(arguments: list[str], stdin: str) -> Output:
    """Run the command in this process; what serves needs one of its own."""
    if arguments[0] == "serve":
        done = start(*arguments)
        return Output(done.stdout.decode(), done.stderr.decode(), done.returncode)
    result = run(*arguments, stdin=stdin)
    return Output(result.stdout, result.stderr, result.exit_code, result.output)


def _grep(arguments: list[str], stdin: str) -> Output:
    lines = [line for line in stdin.splitlines(keepends=True) if arguments[0] in line]
    return Output("".join(lines), code=int(not lines))


def _split(words: list[str], separator: str) -> list[list[str]]:
    return [list(group) for is_separator, group in groupby(words, separator.__eq__) if not is_separator]
