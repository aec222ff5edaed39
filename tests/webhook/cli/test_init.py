"""`cks-admission init`: nothing is overwritten, names that no policy can have, and suites that run again."""

from __future__ import annotations

import asyncio
from asyncio import subprocess
from pathlib import Path

from click.testing import CliRunner
from support.patience import PATIENCE
from support.service.commands import COMMAND

from webhook.cli.main import main


def _run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.output


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A folder that exists is left alone."""
    (tmp_path / "mine").mkdir()

    code, output = _run("init", "policy", "mine", "--directory", str(tmp_path))

    assert (code, output) == (2, f"Error: {tmp_path / 'mine'} exists: choose another name, or remove it\n")
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_name_that_no_policy_can_have(tmp_path: Path) -> None:
    """What kube-apiserver would refuse as a name is refused here, before anything is written."""
    code, output = _run("init", "policy", "My_Policy", "--directory", str(tmp_path))

    assert (code, output.startswith("Error: 'My_Policy' is no name for a policy: a lowercase")) == (2, True), output
    assert list(tmp_path.iterdir()) == []


async def test_a_suite_runs_again_when_its_policy_changes(tmp_path: Path) -> None:
    """With --watch the results follow what is saved, also after a file that cannot be read, until it is ended."""
    _run("init", "policy", "mine", "--directory", str(tmp_path))
    policy = tmp_path / "mine" / "policy.yaml"
    text = policy.read_text(encoding="utf-8")
    process = await subprocess.create_subprocess_exec(
        *(COMMAND, "test", "--watch", str(tmp_path)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert await _summary(process) == "2 of 2 cases passed in 1 suite"
        policy.write_text(text.replace("'team'", "'squad'"), encoding="utf-8")
        assert await _summary(process) == "1 of 2 cases passed in 1 suite"
        policy.write_text("{", encoding="utf-8")
        assert await _summary(process) == ""
        policy.write_text(text, encoding="utf-8")
        assert await _summary(process) == "2 of 2 cases passed in 1 suite"
    finally:
        process.terminate()
        await process.wait()


async def _summary(process: subprocess.Process) -> str:
    """The last line of the next run; empty if it could not be read."""
    assert process.stdout is not None
    line, before = "", ""
    async with asyncio.timeout(PATIENCE):
        while line != "Waiting for a change; Ctrl-C ends.\n":
            before, line = line, (await process.stdout.readline()).decode()
    return before.strip() if "suite" in before else ""
