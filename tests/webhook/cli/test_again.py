"""`--watch`: what is saved is checked and tested again, by the real command."""

from __future__ import annotations

import asyncio
import sys
from asyncio import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.patience import PATIENCE
from support.service.commands import COMMAND, last_line, run

_MAP = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {KEY: x}}}\n"


def test_it_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package that follows files nothing is run, and the error names the extra."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)

    result = run("check", "--watch", ".")

    error = "Error: the package watchfiles is missing. It comes with the extra `server`"
    assert (result.exit_code, result.stdout) == (2, "")
    assert last_line(result.stderr).startswith(error)


class _Watching:
    """A command that follows a file, as editors save it."""

    def __init__(self, process: subprocess.Process, file: Path) -> None:
        self.process = process
        self._file = file

    async def said(self, text: str = "") -> str:
        """What the next run prints between the time and the wait, after a text is saved."""
        if text:
            beside = self._file.with_suffix(".yaml~")
            beside.write_text(text, encoding="utf-8")
            beside.replace(self._file)
        assert self.process.stdout is not None
        lines: list[str] = []
        async with asyncio.timeout(PATIENCE):
            while not lines or lines[-1] != "Waiting for a change; Ctrl-C ends.\n":
                lines.append((await self.process.stdout.readline()).decode())
        return "".join(lines[1:-1])


@asynccontextmanager
async def _watching(verb: str, file: Path, *arguments: str) -> AsyncIterator[_Watching]:
    command = (str(COMMAND), verb, "--watch", *arguments)
    process = await subprocess.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield _Watching(process, file)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_file_is_checked_again_when_it_changes() -> None:
    """Each result follows what is saved, also after a file that is none, until SIGINT ends it as a success."""
    file = Path("map.yaml")
    file.write_text(_MAP.replace("KEY", "foo.coreweave.cloud/bar"), encoding="utf-8")  # noqa: ASYNC240 - a small file
    async with _watching("check", file, "--quiet", "map.yaml") as watching:
        refused, unreadable = await watching.said(), await watching.said("{")
        admitted = await watching.said(_MAP.replace("KEY", "example.org/bar"))
        watching.process.send_signal(2)
        code = await asyncio.wait_for(watching.process.wait(), PATIENCE)

    assert refused.startswith("map.yaml:1: ConfigMap default/a: refused\n")
    assert unreadable.startswith("Error: map.yaml:2:1: not valid YAML: ")
    assert (admitted, code) == ("", 0)


async def test_a_suite_runs_again_when_its_policy_changes() -> None:
    """The results follow what is saved, also after a file that cannot be read."""
    run("init", "policy", "mine")
    policy = Path("mine/policy.yaml")
    text = policy.read_text(encoding="utf-8")  # noqa: ASYNC240 - a small file
    async with _watching("test", policy, "mine") as watching:
        said = [await watching.said(saved) for saved in ("", text.replace("'team'", "'squad'"), "{", text)]

    passed = "cases passed in 1 suite"
    assert [last_line(one) if passed in one else "" for one in said] == [
        f"2 of 2 {passed}",
        f"1 of 2 {passed}",
        "",
        f"2 of 2 {passed}",
    ]
