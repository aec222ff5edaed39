"""`check --watch` on a real file, by the real command."""

import asyncio
import sys
from asyncio import subprocess
from pathlib import Path

import pytest
from support.patience import PATIENCE
from support.service.commands import COMMAND, last_line, run

_END = "Waiting for a change; Ctrl-C ends.\n"
_MAP = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {KEY: x}}}\n"


def test_it_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package that follows files nothing is run, and the error names the extra."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)

    result = run("check", "--watch", ".")

    assert (result.exit_code, result.stdout) == (2, "")
    assert last_line(result.stderr).startswith(
        "Error: the package watchfiles is missing. It comes with the extra `server`"
    )


async def test_a_file_is_checked_again_when_it_changes(tmp_path: Path) -> None:
    """Each result follows what is saved, also after a file that is none, until SIGINT ends it as a success."""
    file = tmp_path / "map.yaml"
    saved = [_MAP.replace("KEY", "foo.coreweave.cloud/bar"), "{", _MAP.replace("KEY", "example.org/bar")]
    file.write_text(saved[0], encoding="utf-8")
    process = await subprocess.create_subprocess_exec(
        *(COMMAND, "check", "--watch", "--quiet", str(file)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        said = [await _said(process)]
        for text in saved[1:]:
            beside = tmp_path / "map.yaml~"
            beside.write_text(text, encoding="utf-8")
            beside.replace(file)  # as editors save
            said.append(await _said(process))
        process.send_signal(2)
        code = await asyncio.wait_for(process.wait(), PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    refused, unreadable, admitted = said
    assert refused.startswith(f"{file}:1: ConfigMap default/a: refused\n")
    assert unreadable.startswith(f"Error: {file}:2:1: not valid YAML: ")
    assert (admitted, code) == ("", 0)


async def _said(process: subprocess.Process) -> str:
    """What the next run prints between the time and the wait."""
    assert process.stdout is not None
    lines: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while not lines or lines[-1] != _END:
            lines.append((await process.stdout.readline()).decode())
    return "".join(lines[1:-1])
