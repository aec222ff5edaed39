"""The configuration in force follows its files and tells what has changed; what cannot be used changes nothing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs
from support.builders import Json
from support.patience import until

from webhook.configuration.configuration import (
    Configuration,
    LoadedConfiguration,
    changed_keys,
    changed_names,
    flattened_changes,
)
from webhook.configuration.settings import Settings, SettingsError
from webhook.configuration.settingsfile import override, read
from webhook.metrics import Metrics
from webhook.sources.policykeeper import PolicyKeeper

pytestmark = pytest.mark.usefixtures("no_packs")

_HALLS = '{"name": "halls", "levels": ["example.org/hall", "kubernetes.io/hostname"]}'


class _Files:
    """A configuration file, what follows it, and what was put in force."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.file = directory / "cks.yaml"
        self.write(**settings)
        self.metrics = Metrics()
        self.configuration = Configuration(self.read, self.file, self.metrics)
        chosen, catalog = self.configuration.current
        self.keeper = PolicyKeeper(chosen, [], self.metrics, catalog)
        self.swapped: list[LoadedConfiguration] = []

    def write(self, **settings: Any) -> None:
        self.file.write_text(yaml.safe_dump(settings), encoding="utf-8")

    def read(self) -> Settings:
        return override(read(self.file), [("health.port", 1234)])

    async def swap(self) -> None:
        self.swapped.append(self.configuration.current)

    async def look(self) -> tuple[bool, list[Json]]:
        """Whether another configuration is in force, and what was logged."""
        with capture_logs() as events:
            is_other = await self.configuration.look(self.keeper.reconfigure, self.swap)
        return is_other, [dict(event) for event in events]

    @property
    def counted(self) -> list[str]:
        """What the metrics say of reloads."""
        lines = self.metrics.expose().decode().splitlines()
        return [line for line in lines if line.startswith("cks_admission_configuration") and "_created" not in line]


def _loaded(*changed: str, **topologies: list[str]) -> Json:
    return {"event": "configuration loaded", "log_level": "info", "changed": list(changed), **topologies}


def _restart(*keys: str) -> Json:
    return {"event": "restart needed", "log_level": "warning", "keys": list(keys)}


async def test_a_change(tmp_path: Path) -> None:
    """A new content is in force with its rules, named by its keys, with what the command line says on top."""
    files = _Files(tmp_path, labels={"action": "warn"})
    before = files.configuration.current
    files.write(labels={"action": "deny"}, health={"port": 1}, sunk={"action": "off"})

    found = await files.look()

    current = files.configuration.current
    assert found == (True, [_loaded("labels.action", "sunk.action")])
    assert before.settings.labels.action == "warn"
    assert (current.settings.labels.action, current.settings.health.port) == ("deny", 1234)
    assert files.swapped == [current]
    assert "sunk" not in [rule.name for rule in files.keeper.ruleset.rules]
    assert files.configuration.notes() == []
    assert files.counted == [
        'cks_admission_configuration_reloads_total{outcome="loaded"} 1.0',
        "cks_admission_configuration_refused 0.0",
    ]


async def test_nothing_new(tmp_path: Path) -> None:
    """Files that were only touched are not read; a comment is read, and puts nothing else in force."""
    files = _Files(tmp_path, labels={"action": "warn"})
    before = files.configuration.current, files.keeper.ruleset

    files.file.touch()
    touched = await files.look()
    files.file.write_text("labels: {action: warn}  # as before\n", encoding="utf-8")
    commented = await files.look()

    assert (touched, commented) == ((False, []), (False, [_loaded()]))
    assert (files.configuration.current, files.keeper.ruleset) == before
    assert files.swapped == []


_UNKNOWN = (
    "exceptions: there is no rule 'label'; known are labels, guard, topology, topology-objects, tolerations, sunk,"
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("labels: {action: [}", "cks.yaml:1:19: not valid YAML: did not find expected node content"),
        (
            "sunk:\n  action: warn\nlabels:\n  acton: deny\n",
            "cks.yaml:4: labels.acton: unknown key; did you mean action?",
        ),
        ("exceptions: [{rules: [label], reason: x, until: 2099-01-01}]", _UNKNOWN),
        ("topology: {files: [none.yaml]}", "none.yaml: cannot be read: No such file or directory"),
        (
            "topology: {default: {topology: coreweave, preferred: rak}}",
            'topology.default.preferred: "rak" is no level of topology "coreweave"',
        ),
    ],
)
async def test_what_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """What was loaded stays in force as a whole, the reason is told once, and the next good content ends it."""
    files = _Files(tmp_path, labels={"action": "warn"})
    before = files.configuration.current, files.keeper.ruleset
    files.file.write_text(text, encoding="utf-8")

    is_other, events = await files.look()
    files.file.write_text(f"{text}\n", encoding="utf-8")
    again = await files.look()
    assert await files.look() == (False, [])

    told = str(events[0].pop("reason"))
    assert (is_other, events) == (False, [{"event": "configuration refused", "log_level": "error"}])
    assert told.removeprefix(f"{tmp_path}/").startswith(reason)
    assert again == (False, [])
    assert (files.configuration.current, files.keeper.ruleset, files.swapped) == (*before, [])
    assert files.configuration.notes() == [f"refused, what was loaded before stays in force:\n{told}"]
    assert files.counted == [
        'cks_admission_configuration_reloads_total{outcome="refused"} 2.0',
        "cks_admission_configuration_refused 1.0",
    ]

    files.write(labels={"action": "audit"})
    assert await files.look() == (True, [_loaded("labels.action")])
    assert files.configuration.notes() == []
    assert files.counted[-1] == "cks_admission_configuration_refused 0.0"


async def test_a_file_that_is_away(tmp_path: Path) -> None:
    """A file that cannot be read is refused, and what it held is in force all the time, its return included."""
    files = _Files(tmp_path, labels={"action": "warn"})
    before = files.configuration.current
    hidden = files.file.rename(tmp_path / "hidden")

    away = await files.look()
    hidden.rename(files.file)
    back = await files.look()

    reason = f"{files.file}: cannot be read: No such file or directory"
    refused = {"event": "configuration refused", "log_level": "error", "reason": reason}
    assert (away, back) == ((False, [refused]), (False, [_loaded()]))
    assert (files.configuration.current, files.swapped) == (before, [])


async def test_rules_that_cannot_be_made(tmp_path: Path) -> None:
    """Whatever goes wrong while rules are made refuses the configuration, whose rules nobody sees."""
    files = _Files(tmp_path)
    before = files.configuration.current

    async def fail(loaded: LoadedConfiguration) -> None:
        raise ValueError(f"no rules with {loaded.settings.labels.action}")

    files.write(labels={"action": "audit"})
    is_other = await files.configuration.look(fail, files.swap)

    assert (is_other, files.configuration.current, files.swapped) == (False, before, [])
    why = "it cannot be used: ValueError: no rules with audit"
    assert files.configuration.notes() == [f"refused, what was loaded before stays in force:\n{why}"]


async def test_what_needs_a_restart(tmp_path: Path) -> None:
    """Ports, watches and the like stay as they were and are told of until they are so again; the rest is in force."""
    files = _Files(tmp_path)
    other: Json = {
        "listen": {"port": 1},
        "log": {"level": "debug"},
        "registration": {"name": "other", "timeoutSeconds": 7},
        "cluster": {"namespace": "other"},
    }
    files.write(labels={"action": "warn"}, **other)

    first = await files.look()
    files.write(labels={"action": "deny"}, **other)
    second = await files.look()
    notes = files.configuration.notes()
    files.write(labels={"action": "deny"}, registration={"timeoutSeconds": 7})
    third = await files.look()

    keys = ["listen.port", "cluster.namespace", "registration.name", "log.level"]
    assert first == (True, [_loaded("registration.timeoutSeconds", "labels.action"), _restart(*keys)])
    assert (second, third) == ((True, [_loaded("labels.action")]), (False, [_loaded()]))
    assert (notes, files.configuration.notes()) == ([f"restart needed for {', '.join(keys)}"], [])
    settings = files.configuration.current.settings
    assert (settings.listen.port, settings.registration.timeout_seconds) == (9443, 7)


async def test_what_is_not_followed_of_a_cluster(tmp_path: Path) -> None:
    """A rule that was off at the start stays off where it would have to know of the cluster what nobody watches."""
    off: Json = {rule: {"action": "off"} for rule in ("topology", "sunk", "selectors")}
    on: Json = {
        "topology": {"action": "warn", "unapplied": "deny"},
        "sunk": {"action": "deny", "daemonSets": "inject"},
        "selectors": {"action": "audit"},
    }
    cluster = {"kubeconfig": "x"}
    files = _Files(tmp_path, cluster=cluster, **off)
    files.write(cluster=cluster, **on)
    within = await files.look()
    without = _Files(tmp_path, **off)
    without.write(**on)

    restart = _restart("sunk.action", "sunk.daemonSets", "topology.action", "selectors.action")
    assert within == (True, [_loaded("topology.unapplied"), restart])
    changed = ("sunk.action", "sunk.daemonSets", "topology.action", "topology.unapplied", "selectors.action")
    assert await without.look() == (True, [_loaded(*changed)])


async def test_topologies(tmp_path: Path) -> None:
    """Files with topologies are followed from when they are named, in directories too, and told by name."""
    directory = tmp_path / "topologies"
    directory.mkdir()
    (directory / "halls.json").write_text(_HALLS, encoding="utf-8")
    files = _Files(tmp_path)
    named: Json = {"files": [str(directory)], "topologies": [{"name": "own", "levels": ["kubernetes.io/hostname"]}]}
    files.write(topology=named)

    found = [await files.look()]
    (directory / "halls.json").write_text("\n" + _HALLS.replace("hall", "room", 1), encoding="utf-8")
    found.append(await files.look())
    (directory / "more.json").write_text(_HALLS.replace('"halls"', '"more"').replace(', "kube', ', "kuber'), "utf-8")
    (directory / "rooms.json").write_text('{"name": "coreweave", "levels": ["a/b"]}', encoding="utf-8")
    is_other, events = await files.look()
    (directory / "rooms.json").unlink()
    found.append(await files.look())

    assert found == [
        (True, [_loaded("topology.topologies[own]", "topology.files", topologies_added=["halls", "own"])]),
        (True, [_loaded(topologies_added=["rooms"], topologies_removed=["halls"])]),
        (True, [_loaded(topologies_added=["more"])]),
    ]
    assert (is_other, [event["event"] for event in events]) == (False, ["configuration refused"])
    assert str(events[0]["reason"]).startswith('topology "coreweave" is defined twice, with different levels:')
    assert set(files.configuration.current.catalog.by_name) >= {"rooms", "own", "more", "coreweave"}
    assert files.swapped[-1] == files.configuration.current


async def test_a_mounted_config_map(tmp_path: Path) -> None:
    """The files that kubelet links are followed by what they hold when it switches the link to a new directory."""
    for number, action in enumerate(("warn", "deny")):
        (tmp_path / f"..2026_{number}").mkdir()
        (tmp_path / f"..2026_{number}" / "cks.yaml").write_text(f"labels: {{action: {action}}}", encoding="utf-8")
    (tmp_path / "..data").symlink_to("..2026_0")
    (tmp_path / "cks.yaml").symlink_to("..data/cks.yaml")
    configuration = Configuration(lambda: read(tmp_path / "cks.yaml"), tmp_path / "cks.yaml", Metrics())
    swapped = asyncio.Event()

    async def follow(*_: LoadedConfiguration) -> None:
        if configuration.current.settings.labels.action == "deny":
            swapped.set()

    running = asyncio.create_task(configuration.run(follow, follow))
    (tmp_path / "..next").symlink_to("..2026_1")
    (tmp_path / "..next").rename(tmp_path / "..data")
    await until(swapped.is_set)
    running.cancel()
    await asyncio.wait([running])


async def test_a_start_that_is_refused(tmp_path: Path) -> None:
    """From the start nothing can be in force but what is right: the reasons are raised."""
    with pytest.raises(SettingsError, match=r"cks\.yaml:1: label: unknown key; did you mean labels\?$"):
        _Files(tmp_path, label={})
    with pytest.raises(SettingsError, match=r"none\.yaml: cannot be read: No such file or directory$"):
        _Files(tmp_path, topology={"files": ["none.yaml"]})
    files = _Files(tmp_path, exceptions=[{"rules": ["label"], "reason": "x", "until": "2099-01-01"}])
    with pytest.raises(SettingsError, match=f"^{_UNKNOWN} selectors$"):
        await files.keeper.start()


def test_names() -> None:
    """Names come, go, and stay with another value; equal values are no difference, and what is empty is left out."""
    before, after = {"b": 1, "gone": 1, "a": 1, "same": [1]}, {"a": 2, "b": 2, "same": [1], "new": 1, "n": 1}
    found = {"objects": changed_names(before, after), "others": changed_names({"a": 1}, {"a": 2})}

    assert found["objects"] == {"added": ["n", "new"], "removed": ["gone"], "changed": ["a", "b"]}
    assert flattened_changes({**found, "none": changed_names({}, {})}) == {
        "objects_added": ["n", "new"],
        "objects_removed": ["gone"],
        "objects_changed": ["a", "b"],
        "others_changed": ["a"],
    }


def _named(**values: int) -> tuple[dict[str, Any], ...]:
    """A list of entries with names."""
    return tuple({"name": name, "v": value} for name, value in values.items())


@pytest.mark.parametrize(
    ("before", "after", "keys"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 1}}, []),
        ({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 2}}, ["a.b", "a.c"]),
        ({"a": {"b": {}}}, {"a": {"b": {"x": "1"}}}, ["a.b.x"]),
        ({"a": {"x": 1}}, {"a": {}}, ["a.x"]),
        ({"a": ("x", "y")}, {"a": ("y", "x")}, ["a"]),
        ({"a": ()}, {"a": ("x",)}, ["a"]),
        ({"a": _named(x=1, y=1, z=1)}, {"a": _named(new=1, x=2, z=1)}, ["a[x].v", "a[y]", "a[new]"]),
        ({"a": ({"key": "k/x", "v": 1},)}, {"a": ({"key": "k/x", "v": 2},)}, ["a[k/x].v"]),
        ({"a": ({"r": 1}, {"r": 2})}, {"a": ({"r": 1}, {"r": 3}, {"r": 4})}, ["a[1].r", "a[2]"]),
        ({"a": (*_named(x=1), *_named(x=1))}, {"a": _named(x=1, y=1)}, ["a[1].name"]),
        ({"a": _named(x=1, y=1)}, {"a": _named(y=1, x=1)}, ["a"]),
        ({"a": ()}, {"a": _named(x=1)}, ["a[x]"]),
    ],
)
def test_keys(before: Any, after: Any, keys: list[str]) -> None:
    """Keys are dotted, entries of lists go by their names if each has one, and nothing that differs is left out."""
    assert changed_keys(before, after) == keys
