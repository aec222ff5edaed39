"""The corpus of broken manifests, and what a real API server says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from policies.kubernetes.release import Release
from policies.objects.fieldpath import render
from policies.schema.schemas import Schemas
from webhook.files import yamlfile
from webhook.files.yamlfile import FileError

_FOLDER = Path(__file__).parents[1] / "policies/schema"
_DUPLICATE = re.compile(r'x.yaml:(?P<line>\d+):(?P<column>\d+): duplicate field "(?P<path>[^"]+)"')
ANSWERS = _FOLDER / "answers.yaml"


class Case(NamedTuple):
    """A manifest as text. place: line and column of its first flaw, if that is told.

    echoes: fields that the API server complains of only because another one is wrong.
    """

    name: str
    text: str
    place: tuple[int, int] | None
    echoes: tuple[str, ...]


def _corpus() -> Any:
    return yaml.load((_FOLDER / "corpus.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)


def definitions() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions that the manifests need."""
    own: list[dict[str, Any]] = _corpus()["definitions"]
    return own


def cases() -> list[Case]:
    """Return all manifests. Raises AssertionError if a text that is to be replaced is not there."""
    corpus = _corpus()
    made = []
    for name, case in corpus["cases"].items():
        text = corpus["bases"][case["base"]]
        for old, new in case.get("change", {}).items():
            assert old in text, (name, old)
            text = text.replace(old, new, 1)
        made.append(Case(name, text, tuple(case["place"]) if "place" in case else None, tuple(case.get("echoes", ()))))
    return made


class Said(NamedTuple):
    """A flaw, or the error of a file. place: line and column."""

    path: str
    text: str
    place: tuple[int, int]


def judged(case: Case, schemas: Schemas) -> list[Said]:
    """Return what we say of a manifest."""
    try:
        documents = yamlfile.load("x.yaml", case.text)
    except FileError as error:
        told = str(error)  # of a file with a duplicate key
        (place,) = _DUPLICATE.finditer(told)
        return [Said(place["path"], told, (int(place["line"]), int(place["column"])))]
    (document,) = documents
    flaws = schemas.flaws(document.value)
    return [Said(render(flaw.path), flaw.text, document.place(flaw.path)) for flaw in flaws]


def differences(release: Release, answers: Mapping[str, Any]) -> Iterator[str]:
    """Return in what we differ from the recorded or real answers of an API server, a line a case."""
    schemas = Schemas(release, definitions())
    for case in cases():
        answer, ours = answers[case.name], judged(case, schemas)
        theirs = {_plain(field) for field in answer.get("fields", ())} - set(case.echoes)
        paths = {_plain(said.path) for said in ours}
        if (answer["verdict"] == "refused") != bool(ours):
            yield f"{case.name}: {answer} but {ours}"
        elif theirs and not (_covered(theirs, paths) and _covered(paths, theirs)):
            yield f"{case.name}: they name {sorted(theirs)}, we {sorted(paths)}"


def _plain(path: str) -> str:
    """A path without indexes and keys: where a type is wrong, the API server names neither."""
    return re.sub(r"\[[^\]]*\]", "", path).replace("template.labels", "template.metadata.labels")


def _covered(paths: set[str], others: set[str]) -> bool:
    """Whether each path is one of the others, or one is in the other. Of a duplicate key they name the key only."""
    return all(any(_alike(path, other) for other in others) for path in paths)


def _alike(path: str, other: str) -> bool:
    longer, shorter = sorted((path, other), key=len, reverse=True)
    return (
        longer == shorter or longer.startswith(f"{shorter}.") or ("." not in shorter and longer.endswith(f".{shorter}"))
    )
