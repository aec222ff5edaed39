"""The parts of the files that are to be judged, read one file after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from policies.engine.request import JsonObject
from webhook.cli import options
from webhook.files import yamlfile
from webhook.files.yamlfile import FileError, Part

_CRD = "CustomResourceDefinition"


class Source(NamedTuple):
    """Files, and the text of standard input, which is read once."""

    files: tuple[str, ...]
    stdin: bytes

    @classmethod
    def of(cls, files: Iterable[str]) -> Source:
        """The source of files, where `-` is standard input."""
        names = tuple(files)
        return cls(names, options.stdin(names))

    @property
    def size(self) -> int:
        """The bytes of all files that can be read."""
        sizes = (Path(file).stat().st_size for file in self.files if file != "-" and Path(file).is_file())
        return len(self.stdin) + sum(sizes)

    def parts(self) -> Iterator[Part | str]:
        """The parts of all files, and a line for each file that cannot be read."""
        for file in self.files:
            try:
                yield from yamlfile.parts(_name(file), self._content(file))
            except OSError as error:
                yield f"{file}: cannot be read: {error.strerror}"
            except FileError as error:
                yield str(error)

    def definitions(self) -> Iterator[JsonObject]:
        """The CustomResourceDefinitions in the files. What cannot be read is left out: others say so."""
        for file in self.files:
            try:
                content = self._content(file)
                known = yamlfile.parts(_name(file), content) if _CRD.encode() in content else ()
                yield from (value for part in known if _CRD in part.text for value in _values(part))
            except (OSError, FileError):
                continue

    def _content(self, file: str) -> bytes:
        return self.stdin if file == "-" else Path(file).read_bytes()


def _name(file: str) -> str:
    return "stdin" if file == "-" else file


def _values(part: Part) -> Iterator[JsonObject]:
    """The definitions in a part of a file; none where it is not YAML."""
    try:
        documents = yamlfile.load_part(part)
    except FileError:
        return
    for _, value in (item for document in documents for item in document.parts()):
        if isinstance(value, dict) and value.get("kind") == _CRD and isinstance(value.get("spec"), dict):
            yield value
