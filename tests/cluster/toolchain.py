"""The binaries of the control plane: taken from KUBEBUILDER_ASSETS, from the user's cache, or built into that cache.

`python -m cluster.toolchain [PROGRAM ...]` provides them and prints their folder. The variable KUBERNETES names the
release, 1.36 or 1.37; each has a folder of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cluster import golang
from cluster.golang import Go, ToolchainError
from cluster.programs import SOURCES, Program, programs, release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Say = Callable[[str], None]

_BUILD_SECONDS = 3600
_STILL_BUILDING_SECONDS = 30
_UNUSED_DAYS = 30
_COLD_BUILD_BYTES = 8 * 1024**3  # modules 1.8 GB, the cache of a cold build 5.3 GB, binaries 0.5 GB


def _to_stderr(line: str) -> None:
    print(f"cluster: {line}", file=sys.stderr, flush=True)


def ensure(names: Sequence[str] = (), *, environment: Mapping[str, str] = os.environ, say: Say = _to_stderr) -> Path:
    """Return the folder that holds the programs `names`, by default all, after building those that are missing.

    Raises ToolchainError if KUBEBUILDER_ASSETS is set and lacks one of them, or if a build fails.
    """
    try:
        known = programs(release(environment))
    except ValueError as error:
        raise ToolchainError(str(error)) from error
    names = names or tuple(known)
    if unknown := [name for name in names if name not in known]:
        raise ToolchainError(f"no such program: {', '.join(unknown)}; there are {', '.join(known)}")
    if assets := environment.get("KUBEBUILDER_ASSETS"):
        if missing := _missing(Path(assets), names):
            raise ToolchainError(
                f"KUBEBUILDER_ASSETS is {assets}, and these programs are missing there: {', '.join(missing)}. "
                "Add them, or unset the variable and they are built."
            )
        return Path(assets).absolute()  # components run in another folder
    cache = cache_directory(environment)
    directory = cache / fingerprint(known)
    if _missing(directory, names):
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(cache / ".lock", say):
            _build_missing(directory, names, known, environment, say)
            _remove_unused(cache, keep=directory)
    os.utime(directory)  # tells _remove_unused that it is in use
    return directory


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder below the user's cache that holds one folder of binaries per state of the pinned modules."""
    base = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or Path.home()) / ".cache"
    return Path(base) / "cks-admission" / "tools"


def fingerprint(known: Mapping[str, Program]) -> str:
    """Return the name of the folder for these programs, as the committed modules describe them, on this machine."""
    digest = hashlib.sha256(f"{platform.system()}/{platform.machine()}".encode())
    for name, program in known.items():
        digest.update(f"\n{name} {program.package} {_ldflags(program)}".encode())
    for module in sorted({program.module for program in known.values()}):
        sources = [file for file in (SOURCES / module).iterdir() if file.suffix in (".go", ".mod", ".sum")]
        for file in sorted(sources):
            digest.update(f"\n{module}/{file.name}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _missing(directory: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if not os.access(directory / name, os.X_OK)]


def _ldflags(program: Program) -> str:
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in program.stamps)])


@contextmanager
def _alone(lock: Path, say: Say) -> Iterator[None]:
    """Hold the lock of the cache: whoever comes second waits, and then finds everything built."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another run is building the control plane: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build_missing(
    directory: Path, names: Sequence[str], known: Mapping[str, Program], environment: Mapping[str, str], say: Say
) -> None:
    if not _missing(directory, names):
        return
    free = shutil.disk_usage(directory.parent).free
    if free < _COLD_BUILD_BYTES:
        say(f"only {free / 1024**3:.1f} GB are free; a first build needs up to {_COLD_BUILD_BYTES / 1024**3:.0f} GB")
    texts = [(SOURCES / program.module / "go.mod").read_text(encoding="utf-8") for program in known.values()]
    go = go_for(texts, directory.parent, environment, say)
    # Our own Go goes away afterwards, so it builds everything now.
    missing = _missing(directory, tuple(known) if go.disposable else names)
    directory.mkdir(exist_ok=True)
    for number, name in enumerate(missing, start=1):
        minutes = known[name].minutes
        say(
            f"building {name} ({number} of {len(missing)}), once: up to {minutes:g} min on two cores, seconds if cached"
        )
        _build(go, name, known[name], directory, say)
    say(f"the control plane's programs are in {directory}")
    if go.disposable:
        shutil.rmtree(go.disposable, ignore_errors=True)


def go_for(
    modules: Iterable[str], cache: Path, environment: Mapping[str, str] = os.environ, say: Say = _to_stderr
) -> Go:
    """Return a Go that is new enough for these go.mod files: that of the machine, or one that is installed in `cache`.

    Raises ToolchainError if that fails.
    """
    found = [match for text in modules for match in re.findall(r"^go (\d+)\.(\d+)\.(\d+)$", text, re.MULTILINE)]
    required = max((int(major), int(minor), int(patch)) for major, minor, patch in found)
    # Where Go is missing, it is the oldest line that these modules are for.
    name = "go" if required < (1, 27, 0) else "go-1.27"
    return golang.find(required, cache / name, SOURCES / f"{name}.lock", environment, say)


def _build(go: Go, name: str, program: Program, directory: Path, say: Say) -> None:
    """Build one program next to its place and rename it, so that a half-written one is never found."""
    command = [str(go.command), "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", _ldflags(program)]
    with tempfile.TemporaryDirectory(prefix=".building-", dir=directory) as scratch, tempfile.TemporaryFile() as output:
        # A session of its own: compilers started by go end with it, whatever ends this process.
        process = subprocess.Popen(
            [*command, "-o", f"{scratch}/{name}", program.package],
            cwd=SOURCES / program.module,
            env=go.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait(process, name, say)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode != 0:
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()
            raise ToolchainError(
                "\n".join([f"building {name} failed (go build ended with {process.returncode}):", *lines[-25:]])
            )
        Path(scratch, name).replace(directory / name)


def _wait(process: subprocess.Popen[bytes], name: str, say: Say) -> None:
    started = time.monotonic()
    while (elapsed := time.monotonic() - started) < _BUILD_SECONDS:
        try:
            process.wait(_STILL_BUILDING_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"still building {name}, {elapsed + _STILL_BUILDING_SECONDS:.0f} s so far")
        else:
            return
    raise ToolchainError(f"building {name} took more than {_BUILD_SECONDS // 60} minutes")


def _remove_unused(cache: Path, keep: Path) -> None:
    """Half a gigabyte per state of the pinned modules: one that nobody has used for a month is removed."""
    oldest = time.time() - _UNUSED_DAYS * 24 * 3600
    for other in cache.iterdir():
        if other != keep and re.fullmatch(r"[0-9a-f]{16}", other.name) and other.stat().st_mtime < oldest:
            shutil.rmtree(other, ignore_errors=True)


def main(arguments: Sequence[str]) -> int:
    """Make the named programs ready, or all of them."""
    try:
        print(ensure(arguments))
    except ToolchainError as error:
        _to_stderr(str(error))
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
