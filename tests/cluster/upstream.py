"""`python -m cluster.upstream 1.36.3 1.37.2` lists what changed in the API server between two versions of Kubernetes.

Files, functions and feature gates of the modules that say how policies are read and judged, from Go's module cache.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")

FOLDERS: Mapping[str, Sequence[str]] = {
    "k8s.io/apiserver": ("pkg/admission", "pkg/cel", "pkg/apis/cel", "pkg/authorization/cel"),
    "k8s.io/kubernetes": (
        "pkg/apis/admissionregistration",
        "pkg/registry/admissionregistration",
        "pkg/kubeapiserver/admission",
        "pkg/apis/core/v1",
        "pkg/apis/apps/v1",
        "pkg/apis/batch/v1",
    ),
    "k8s.io/apimachinery": ("pkg/api/validate", "pkg/api/validation", "pkg/util/managedfields", "pkg/util/validation"),
    "github.com/google/cel-go": ("cel", "checker", "common", "ext", "interpreter", "parser"),
    "sigs.k8s.io/structured-merge-diff/v6": ("fieldpath", "merge", "schema", "typed", "value"),
}
"""What decides how policies are read and judged, by module."""
GATES = "pkg/features/kube_features.go"
"""Where the feature gates of both are: of the API server's library, and of Kubernetes."""

_GENERATED = re.compile(r"(_test|\.pb|zz_generated\.(?:conversion|deepcopy|model_name))\.go$|^(?:test|testing|fuzz)/")
_FUNCTION = re.compile(
    r"^func (?:\((?:\w+ )?\*?(?P<of>\w+)[^)]*\) )?(?P<name>\w+)(?:[^\n]*\}$|.*?^\})", re.MULTILINE | re.DOTALL
)
_COMMENT = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)
_GATE = re.compile(r"^\t(?:\w+\.)?(?P<name>\w+): \{\n(?P<stages>(?:\t\t\{Version.*\n)+)", re.MULTILINE)
_STAGE = re.compile(r'MustParse\("1\.(\d+)"\), Default: (\w+),.*PreRelease: featuregate\.(\w+)')


class MissingModuleError(Exception):
    """A module is not in Go's cache; the text says how it gets there."""


class Gate(NamedTuple):
    """A feature gate in a version: whether it is on by default, and its stage."""

    default: bool
    stage: str

    def __str__(self) -> str:
        """Such as `on, Beta`."""
        return f"{'on' if self.default else 'off'}, {self.stage}"


@dataclass(frozen=True)
class Difference:
    """What there is only in the older one, only in the newer one, and in both with other contents. All sorted."""

    gone: tuple[str, ...]
    new: tuple[str, ...]
    changed: tuple[str, ...]

    def __str__(self) -> str:
        """A line for each."""
        marks = (("-", self.gone), ("+", self.new), ("~", self.changed))
        return "\n".join(f"  {mark} {name}" for mark, names in marks for name in names)


def difference(old: Mapping[str, T], new: Mapping[str, T]) -> Difference:
    """What differs between two sets of named contents."""
    changed = (name for name in old.keys() & new.keys() if old[name] != new[name])
    return Difference(
        tuple(sorted(old.keys() - new.keys())), tuple(sorted(new.keys() - old.keys())), tuple(sorted(changed))
    )


def functions(text: str) -> dict[str, str]:
    """The functions and methods of a Go file by name, without comments and white space."""
    return {
        f"{match['of']}.{match['name']}" if match["of"] else match["name"]: "".join(_COMMENT.sub("", match[0]).split())
        for match in _FUNCTION.finditer(text)
    }


def gates(text: str, minor: int) -> dict[str, Gate]:
    """The feature gates of a Go file as they are in a minor version."""
    found = {}
    for match in _GATE.finditer(text):
        stages = [(int(at), default == "true", stage) for at, default, stage in _STAGE.findall(match["stages"])]
        last = max((stage for stage in stages if stage[0] <= minor), default=None)
        if last is not None:
            found[match["name"]] = Gate(*last[1:])
    return found


def source(module: str, version: str) -> Path:
    """The folder of a module in Go's cache. Raises MissingModuleError."""
    named = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    folder = Path(named) / f"{module}@v{version}"
    if not folder.is_dir():
        raise MissingModuleError(f"{folder} is missing: run `go mod download {module}` beside a go.mod that names it")
    return folder


def versions(kubernetes: str) -> dict[str, str]:
    """The versions of the modules in a version of Kubernetes. Raises MissingModuleError."""
    staging = f"0.{kubernetes.partition('.')[2]}"
    pinned = (source("k8s.io/kubernetes", kubernetes) / "go.mod").read_text(encoding="utf-8")
    found = {"k8s.io/kubernetes": kubernetes}
    for module in FOLDERS:
        match = re.search(rf"^\t{re.escape(module)} v(\S+)", pinned, re.MULTILINE)
        found.setdefault(module, match[1] if match and match[1] != "0.0.0" else staging)
    return found


def report(old: str, new: str) -> Iterator[str]:
    """The lines that tell what changed from one version of Kubernetes to another. Raises MissingModuleError."""
    before, after = versions(old), versions(new)
    for module, folders in FOLDERS.items():
        roots = source(module, before[module]), source(module, after[module])
        texts = [dict(_files(root, folders)) for root in roots]
        files = difference(*texts)
        yield f"\n{module} {before[module]} -> {after[module]}"
        yield str(files) or "  nothing"
        for name in files.changed:
            told = str(difference(functions(texts[0][name]), functions(texts[1][name])))
            if told:
                yield f"\n{module}/{name}\n{told}"
    yield "\nfeature gates"
    yield from _gates(old, new, before, after)


def _files(root: Path, folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The Go files below folders but for tests and what is generated without a decision, with their texts."""
    for folder in folders:
        for file in (root / folder).rglob("*.go"):
            name = str(file.relative_to(root))
            if not _GENERATED.search(name) and "testing" not in file.parts:
                yield name, file.read_text(encoding="utf-8")


def _gates(old: str, new: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    known: list[dict[str, Gate]] = []
    for kubernetes, of in ((old, before), (new, after)):
        minor = int(kubernetes.split(".")[1])
        found: dict[str, Gate] = {}
        for module in ("k8s.io/apiserver", "k8s.io/kubernetes"):
            found |= gates((source(module, of[module]) / GATES).read_text(encoding="utf-8"), minor)
        known.append(found)
    changes = difference(*known)
    yield from (f"  - {name} ({known[0][name]})" for name in changes.gone)
    yield from (f"  + {name} ({known[1][name]})" for name in changes.new)
    yield from (f"  ~ {name} ({known[0][name]} -> {known[1][name]})" for name in changes.changed)


def main(arguments: Sequence[str]) -> int:
    """Print the report for two versions."""
    if len(arguments) != 2:
        print("python -m cluster.upstream OLD NEW, such as 1.36.3 1.37.2", file=sys.stderr)
        return os.EX_USAGE
    try:
        for line in report(*arguments):
            print(line)
    except MissingModuleError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
