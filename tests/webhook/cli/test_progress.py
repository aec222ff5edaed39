"""The progress bar, on a real terminal."""

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from support.service.commands import COMMAND

from webhook.cli.check import SMALL

_MAP = "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{a: {text}}}}}\n"


@pytest.mark.parametrize(
    ("arguments", "size", "piped", "is_shown"),
    [
        ((), SMALL, True, True),
        (("--quiet",), SMALL, False, True),
        ((), SMALL, False, False),
        ((), SMALL // 2, True, False),
    ],
)
def test_a_bar_where_it_disturbs_nothing(
    tmp_path: Path, arguments: tuple[str, ...], size: int, *, piped: bool, is_shown: bool
) -> None:
    """A long run draws a bar up to the end, on stderr, where that is a terminal on which no results appear."""
    file = tmp_path / "maps.yaml"
    file.write_text("---\n".join([_MAP.format(text="x" * (size // 4))] * 4), encoding="utf-8")
    ours, terminal = pty.openpty()
    out = subprocess.DEVNULL if piped else terminal
    command = (str(COMMAND), "check", str(file), *arguments)

    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=terminal) as process:
        os.close(terminal)
        drawn = _drawn(ours)

    assert process.returncode == 0
    assert bool(re.search(r"checking  \[#+\]  100%", drawn)) is is_shown
    assert ("checking" in drawn) is is_shown


def _drawn(terminal: int) -> str:
    """All that is written to a terminal until the last writer has gone, which Linux tells by an error."""
    parts = []
    with open(terminal, "rb", buffering=0) as read:
        try:
            while part := read.read(4096):
                parts.append(part)
        except OSError:
            pass
    return b"".join(parts).decode()
