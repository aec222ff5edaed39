"""The configuration in force, which follows its file and the topology files that it names."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import structlog

from policies.topology.topology import Catalog
from webhook.configuration import rules
from webhook.configuration.settings import Settings, SettingsError
from webhook.files import manifest
from webhook.files.walk import LOOK_SECONDS, changes
from webhook.files.yamlfile import content
from webhook.metrics import Metrics
from webhook.sources import topologyfiles

# Settings that are read only at start, because ports, watches and clients are made from them.
_TIMEOUTS = ("timeout_seconds", "open_timeout_seconds", "essential_timeout_seconds")
_PLACER = ("settle_seconds", "patience_seconds")  # it may be another process
_AT_START = ("listen", "health", "tls", "cluster", "manage", "policies", "decisions", "tracing", "events", "log")
# The keys that identify the entries of a list.
_NAMES = ("name", "key")


class LoadedConfiguration(NamedTuple):
    """Consistent settings and topologies from files."""

    settings: Settings
    catalog: Catalog


class Configuration:
    """Reads everything again when one of the files may have changed, and accepts or refuses it as a whole.

    read: returns the current settings from file and command line; may raise SettingsError. path: the file; None if
    there is none. current: what is in force. Raises SettingsError.
    """

    def __init__(self, read: Callable[[], Settings], path: Path | None, metrics: Metrics) -> None:
        self._read = read
        self._path = path
        self._metrics = metrics
        self._log = structlog.get_logger()
        written = self._written()
        self._start = read()
        self._files = self._start.topology.files
        self._seen = written, topologyfiles.version(self._files)
        self._refused = ""
        self._waiting: list[str] = []
        self.current = LoadedConfiguration(self._start, rules.topologies(self._start))

    def notes(self) -> list[str]:
        """The contents of the files that are not in force, with reasons."""
        refused = f"refused, what was loaded before stays in force:\n{self._refused}" if self._refused else ""
        waiting = f"restart needed for {', '.join(self._waiting)}" if self._waiting else ""
        return [note for note in (refused, waiting) if note]

    async def run(
        self, prepare: Callable[[LoadedConfiguration], Awaitable[None]], changed: Callable[[], Awaitable[None]]
    ) -> NoReturn:
        """Follow the files; for the functions see `look`."""
        while True:
            try:
                async for _ in self._changes():
                    await self.look(prepare, changed)
            except Exception:  # noqa: BLE001 - whatever it is, the next change must be looked at again
                self._log.exception("could not follow the configuration")
            await asyncio.sleep(LOOK_SECONDS)

    async def look(
        self, prepare: Callable[[LoadedConfiguration], Awaitable[None]], changed: Callable[[], Awaitable[None]]
    ) -> bool:
        """Read the files if they have changed. Return whether a new configuration is in force.

        prepare: makes the rules of a configuration; if it raises, the configuration is refused. changed: puts the rules
        into force; called after `current` is set.
        """
        try:
            newest = await asyncio.to_thread(self._newest)
            if newest is None:
                return False
            newest_settings, catalog = newest
            loaded = LoadedConfiguration(_in_force(self._start, newest_settings), catalog)
            is_other = (
                loaded.settings != self.current.settings or loaded.catalog.by_name != self.current.catalog.by_name
            )
            if is_other:
                await prepare(loaded)
        except SettingsError as error:
            self._refuse(str(error))
            return False
        except Exception as error:  # noqa: BLE001 - a defect met by what somebody wrote must not end what is in force
            self._log.exception("could not apply the configuration")
            self._refuse(f"it cannot be used: {type(error).__name__}: {error}")
            return False
        before = self.current
        if is_other:
            self.current = loaded
        self._tell(before, newest_settings)
        if is_other:
            await changed()
        return is_other

    def _newest(self) -> tuple[Settings, Catalog] | None:
        """The contents of the files; None if they have not changed. Raises SettingsError. Runs in a thread."""
        written = self._written()
        versions = written, topologyfiles.version(self._files)
        if versions == self._seen:
            return None
        self._seen = versions  # also if it cannot be read, so that it is refused once
        settings = self._read()
        self._files = settings.topology.files
        self._seen = written, topologyfiles.version(self._files)
        return settings, rules.topologies(settings)

    def _written(self) -> str:
        """A string that changes only if the file's contents change."""
        if self._path is None:
            return ""
        try:
            return hashlib.sha256(content(self._path)).hexdigest()
        except OSError as error:
            return str(error)

    async def _changes(self) -> AsyncIterator[None]:
        """Yield after a change in a file, or after a few seconds without one."""
        while True:
            places = await asyncio.to_thread(self._places)
            if not places:
                yield
                await asyncio.sleep(LOOK_SECONDS)
                continue
            watch = changes(places, recursive=False)
            change = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(0)  # the watch begins with its first step, so later changes are noticed
            try:
                yield
                while await asyncio.to_thread(self._places) == places:
                    await change
                    change = asyncio.ensure_future(anext(watch))
                    yield
            finally:
                change.cancel()

    def _places(self) -> set[Path]:
        """The directories of the files, because in a mounted ConfigMap a link beside the files changes."""
        places = set() if self._path is None else {self._path.parent}
        for path in self._files:
            with suppress(OSError):
                places |= {Path(path), *(file.parent for file in manifest.followed(path))}
        return {place for place in places if place.is_dir()}

    def _refuse(self, reason: str) -> None:
        if reason != self._refused:
            self._log.error("configuration refused", reason=reason)
        self._refused = reason
        self._metrics.configuration_reloads.labels("refused").inc()
        self._metrics.configuration_refused.set(1)

    def _tell(self, before: LoadedConfiguration, newest: Settings) -> None:
        self._refused = ""
        self._metrics.configuration_reloads.labels("loaded").inc()
        self._metrics.configuration_refused.set(0)
        topologies = changed_names(_by_name(before.catalog), _by_name(self.current.catalog))
        self._log.info(
            "configuration loaded",
            changed=_changed(before.settings, self.current.settings),
            **flattened_changes({"topologies": topologies}),
        )
        waiting, self._waiting = self._waiting, _changed(self.current.settings, newest)
        if self._waiting and self._waiting != waiting:
            self._log.warning("restart needed", keys=self._waiting)


def _in_force(start: Settings, newest: Settings) -> Settings:
    """The settings that can be in force without a restart: those that are read only at start stay unchanged."""
    kept: dict[str, Any] = {name: getattr(start, name) for name in _AT_START}
    timeouts = {name: getattr(newest.registration, name) for name in _TIMEOUTS}
    kept["registration"] = start.registration.model_copy(update=timeouts)
    fixed = {name: getattr(start.topology, name) for name in _PLACER}
    kept["topology"] = newest.topology.model_copy(update=fixed)
    if start.cluster.kubeconfig or start.cluster.in_cluster:
        # If a rule was off at the start, the objects that it needs from the cluster are not followed.
        if not rules.follows_topologies(start):
            kept["topology"] = newest.topology.model_copy(update={**fixed, "action": "off"})
        if not rules.follows_nodes(start):
            kept["sunk"] = newest.sunk.model_copy(
                update={"action": start.sunk.action, "daemon_sets": start.sunk.daemon_sets}
            )
            kept["selectors"] = newest.selectors.model_copy(update={"action": start.selectors.action})
    return newest.model_copy(update=kept)


def _by_name(catalog: Catalog) -> dict[str, object]:
    """Topologies by name, without their lines in files."""
    return {name: replace(topology, source="") for name, topology in catalog.by_name.items()}


def _changed(before: Settings, after: Settings) -> list[str]:
    return changed_keys(before.model_dump(by_alias=True), after.model_dump(by_alias=True))


def changed_names(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, list[str]]:
    """The names that were added, removed and changed, each sorted."""
    return {
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
        "changed": sorted(name for name in after.keys() & before.keys() if after[name] != before[name]),
    }


def flattened_changes(changes: Mapping[str, Mapping[str, list[str]]]) -> dict[str, list[str]]:
    """The differences of several sorts, with keys such as `exceptions_added`, without empty ones."""
    return {f"{sort}_{how}": names for sort, by_change in changes.items() for how, names in by_change.items() if names}


def changed_keys(before: Any, after: Any, at: str = "") -> list[str]:
    """The keys whose values differ in two trees of maps, such as `labels.action` and `topology.topologies[mine]`.

    Entries of a list of maps are identified by names or, without names, by numbers. Any other list is one value.
    """
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = {f"{at}.{key}" if at else key: (before.get(key), after.get(key)) for key in {**before, **after}}
    elif all(isinstance(value, list | tuple) and all(isinstance(v, dict) for v in value) for value in (before, after)):
        ours, theirs = (
            {str(entry[key]): entry for entry in entries for key in _NAMES if key in entry}
            for entries in (before, after)
        )
        if len(ours) < len(before) or len(theirs) < len(after):  # not all of them have a name of their own
            ours, theirs = ({str(n): entry for n, entry in enumerate(entries)} for entries in (before, after))
        pairs = {f"{at}[{name}]": (ours.get(name), theirs.get(name)) for name in {**ours, **theirs}}
    else:
        return [at]
    # Where no part differs, their order does.
    return [key for where, (old, new) in pairs.items() for key in changed_keys(old, new, where)] or [at]
