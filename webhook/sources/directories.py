"""Policies in files."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from policies.admissionpolicy.documents.reader import Part
from policies.kubernetes.release import Release
from webhook.files import watch, yamlfile
from webhook.sources import policyfiles
from webhook.sources.policyset import Content


class Directories:
    """Files and directories, each of which is a source. Unchanged files are not parsed again."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths
        self._known: dict[Path, tuple[str, tuple[Part, ...]]] = {}

    async def contents(self, release: Release) -> Mapping[str, Content]:
        """The contents of the files. A thread reads them, so that reviews in flight do not wait."""
        return await asyncio.to_thread(self.read, release)

    def read(self, release: Release) -> Mapping[str, Content]:
        """The current contents of the files, as an API server of a release takes them."""
        known, self._known = self._known, {}
        return {path: self._content(path, release, known) for path in self._paths}

    def _content(self, path: str, release: Release, known: Mapping[Path, tuple[str, tuple[Part, ...]]]) -> Content:
        version = hashlib.sha256()
        parts_read: list[Part] = []
        problems: list[str] = []
        try:
            for file in policyfiles.files(path):
                content = file.read_bytes()
                digest = f"{hashlib.sha256(content).hexdigest()} {release.name}"
                version.update(f"{file}\n{digest}\n".encode())
                before = known.get(file)
                try:
                    if before is None or before[0] != digest:
                        before = digest, policyfiles.parts(content, str(file), release)
                except yamlfile.FileError as error:
                    problems.append(str(error))
                    continue
                self._known[file] = before
                parts_read += before[1]
        except OSError as error:
            problems.append(f"{error.filename}: cannot be read: {error.strerror}")
            version.update(problems[-1].encode())
        return Content(version.hexdigest(), tuple(parts_read), "\n".join(problems))

    async def changes(self) -> AsyncIterator[None]:
        """Yield after a change in a file, or after a few seconds without one."""
        while True:
            existing = [path for path in self._paths if os.path.exists(path)]  # noqa: ASYNC240, PTH110 - a few, seldom
            if not existing:
                await asyncio.sleep(watch.LOOK_SECONDS)
                yield
                continue
            async for _ in watch.changes(existing):
                yield

    async def report(self, refused: Mapping[str, str]) -> None:
        """Do nothing: the log, the metrics and the readiness tell what is refused."""
