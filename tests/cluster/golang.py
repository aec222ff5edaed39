"""Chooses the Go that builds the tools: one on PATH that is new enough, or else a temporary one for the build."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Version = tuple[int, int, int]

# These would make the build another one than the pinned one.
_FOREIGN = ("GOFLAGS", "GOOS", "GOARCH", "GOEXPERIMENT")
_INSTALL_SECONDS = 900
_PIP_OPTIONS = (
    *("--quiet", "--disable-pip-version-check", "--no-cache-dir"),
    *("--no-deps", "--only-binary=:all:", "--require-hashes"),
)


class ToolchainError(Exception):
    """The binaries of the control plane can be neither found nor built; the text says why and what to do."""


@dataclass(frozen=True)
class Go:
    """A Go command and the environment in which it builds the same thing on every machine."""

    command: Path
    environment: Mapping[str, str]
    disposable: Path | None
    """The folder of our own Go with its caches, several GB that nobody needs once the binaries are there."""


def find(required: Version, home: Path, lock: Path, environment: Mapping[str, str], say: Callable[[str], None]) -> Go:
    """Return the Go on PATH if it is at least `required`, else install the one that `lock` pins below `home`.

    Raises ToolchainError if the installation fails.
    """
    common = {key: value for key, value in environment.items() if key not in _FOREIGN}
    # The pinned Go builds, not one that it would download by itself; no workspace file above may interfere.
    common |= {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    on_path = shutil.which("go", path=common.get("PATH"))
    found = _version(Path(on_path), common) if on_path else None
    if on_path and found and found >= required:
        return Go(Path(on_path), common, disposable=None)
    wanted = ".".join(map(str, required))
    reason = f"the Go on PATH is {'.'.join(map(str, found))}" if found else "there is no Go on PATH"
    say(f"{reason}, {wanted} or later is needed: installing one for this build only (70 MB to download)")
    common.pop("GOROOT", None)  # belongs to another Go
    common |= {
        "GOPATH": str(home / "path"),
        "GOMODCACHE": str(home / "path" / "pkg" / "mod"),
        "GOCACHE": str(home / "cache"),
        "GOFLAGS": "-modcacherw",  # a module cache that can be deleted like any other folder
    }
    command = _install(home / "venv", lock, environment)
    installed = _version(command, common)
    if installed is None or installed < required:
        raise ToolchainError(f"{lock.name} pins Go {installed}, the tools need {wanted}")
    return Go(command, common, disposable=home)


def _version(command: Path, environment: Mapping[str, str]) -> Version | None:
    """Return the version of a Go command; None if it does not work or does not say (a development build)."""
    try:
        answer = subprocess.run(
            [command, "env", "GOVERSION"], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def _install(directory: Path, lock: Path, environment: Mapping[str, str]) -> Path:
    """Install the pinned Go into a virtual environment of its own, so that nothing else on the machine changes."""
    if (ready := _command_in(directory)) is not None:
        return ready
    try:
        venv.create(directory, clear=True, with_pip=True)
        subprocess.run(
            [str(directory / "bin" / "python"), "-m", "pip", "install", *_PIP_OPTIONS, "-r", str(lock)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        detail = str(getattr(error, "stderr", None) or error).strip()
        raise ToolchainError(
            f"no Go to build the control plane with, and installing one failed:\n{detail}\n"
            "Put a Go on PATH, or name a folder with ready binaries in KUBEBUILDER_ASSETS."
        ) from error
    command = _command_in(directory)
    if command is None:
        raise ToolchainError(f"{lock.name}: the package that it pins holds no Go command for this machine")
    return command


def _command_in(directory: Path) -> Path | None:
    """Return the Go command inside the package: not its script, which would start Python for each call."""
    found = sorted(directory.glob("lib*/python*/site-packages/go/bin/go"))
    return found[0] if found and os.access(found[0], os.X_OK) else None
