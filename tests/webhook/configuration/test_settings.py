"""The configuration: defaults, keys, mistakes, the command line, its reference, and which process takes what of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from support.builders import Json

from webhook.configuration.roles import of_manager, of_replica
from webhook.configuration.rulesettings import PackSettings, PacksSettings
from webhook.configuration.settings import Settings, SettingsError
from webhook.configuration.settingsfile import WIDTH, override, read, reference
from webhook.sources import packfiles

_DEFAULTS: Json = Settings().model_dump(by_alias=True)

_OTHER = Path(__file__).with_name("everykey.yaml").read_text(encoding="utf-8")


def _file(directory: Path, text: str) -> Path:
    file = directory / "cks.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def _read(directory: Path, text: str) -> Json:
    return read(_file(directory, text)).model_dump(by_alias=True)


def test_every_key_can_be_set(tmp_path: Path) -> None:
    """A file that sets every key is read with every value that it gives, and none of them is a default."""
    found = read(_file(tmp_path, _OTHER)).model_dump(mode="json", by_alias=True)
    given = yaml.safe_load(_OTHER)
    short = ("packs", "workloads")  # what is written in a shorter form, and numbers that become texts

    assert {key: _given(value, given[key]) for key, value in found.items() if key not in short} == {
        key: value for key, value in given.items() if key not in short
    }
    assert found["packs"]["scheduling-safety"]["parameters"] == {"allowedReservedValues": "mine 7"}
    assert [row["kind"] for row in found["workloads"]] == ["Train", "NIMService"]
    defaults = dict(_leaves(Settings().model_dump(mode="json", by_alias=True)))
    alike = [path for path, value in _leaves(found) if defaults.get(path) == value]
    assert alike == [("packs", "sunk", "parameters")]


def _given(value: Any, given: Any) -> Any:
    """A value without the keys that are not given."""
    if isinstance(given, dict):
        return {key: _given(value[key], part) for key, part in given.items()}
    if isinstance(given, list):
        return [_given(*pair) for pair in zip(value, given, strict=True)]
    return value


def _leaves(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value that is no map, by its keys."""
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _leaves(child, (*at, key))
    else:
        yield at, value


@pytest.mark.parametrize("section", list(_DEFAULTS))
def test_a_section_alone_leaves_the_others_at_their_defaults(tmp_path: Path, section: str) -> None:
    """A file with one section changes that section and no other."""
    text = yaml.safe_dump({section: yaml.safe_load(_OTHER)[section]})

    assert _read(tmp_path, text) == {**_DEFAULTS, section: _read(tmp_path, _OTHER)[section]}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("# nothing yet\n", id="a-comment"),
        pytest.param("---\n", id="an-empty-document"),
        pytest.param("{}\n", id="an-empty-map"),
        pytest.param("listen: {}\nlabels: {exempt: {}}\n", id="empty-sections"),
        pytest.param("{}\n---\n---\n# end\n", id="empty-documents-behind"),
        pytest.param("\ufefflisten: {}\n", id="a-byte-order-mark"),
        pytest.param('{"listen": {"port": 9443}, "log": {}}', id="json"),
    ],
)
def test_a_file_that_sets_nothing_is_all_defaults(tmp_path: Path, text: str) -> None:
    """An empty file, and one that only names sections, is a configuration like any other."""
    assert _read(tmp_path, text) == _DEFAULTS


def test_off_may_stand_without_quotes(tmp_path: Path) -> None:
    """Every setting that can be off takes the word as YAML reads it, as a boolean, too."""

    def taken(path: tuple[str, ...], value: object) -> Settings | None:
        section: object = value
        for key in reversed(path):
            section = {key: section}
        try:
            return read(_file(tmp_path, yaml.safe_dump(section)))
        except SettingsError:
            return None

    paths = [path for path, _ in _leaves(yaml.safe_load(reference()))]
    switches = [path for path in paths if taken(path, "off") is not None and taken(path, "nonsense") is None]
    assert ("selectors", "action") in switches
    assert [path for path in switches if taken(path, value=False) != taken(path, "off")] == []


def test_the_command_line_wins() -> None:
    """Values of the command line replace single keys and leave what the file says of others."""
    file = Settings.model_validate({"listen": {"port": 1, "host": "127.0.0.1"}, "log": {"level": "error"}})
    every = Settings.model_validate(yaml.safe_load(_OTHER))

    assert override(every, []) == every
    changed = override(file, [("listen.port", 2), ("cluster.inCluster", True), ("log.format", "json")])

    assert changed.model_dump(by_alias=True) == {
        **_DEFAULTS,
        "listen": {**_DEFAULTS["listen"], "port": 2, "host": "127.0.0.1"},
        "cluster": {**_DEFAULTS["cluster"], "inCluster": True},
        "log": {"level": "error", "format": "json"},
    }
    assert file.listen.port == 1


def test_what_is_wrong_on_the_command_line_is_said_at_once() -> None:
    """Bad values of the command line are named by their keys, all of them."""
    with pytest.raises(SettingsError) as caught:
        override(Settings(), [("listen.port", 70000), ("log.level", "loud"), ("registration.url", "http://x")])

    assert str(caught.value).splitlines() == [
        "command line: listen.port: input should be less than or equal to 65535, found 70000",
        "command line: registration.url: write https://HOST[:PORT][/PATH], found 'http://x'",
        "command line: log.level: input should be 'debug', 'info', 'warning' or 'error', found 'loud'",
    ]


def test_a_level_is_its_label(tmp_path: Path) -> None:
    """The label key alone is a whole level: it is read as the map of it is, within a list of both forms too."""
    levels = "[example.org/site, {nodeLabel: example.org/hall}]"

    found = _read(tmp_path, f"topology: {{topologies: [{{name: halls, levels: {levels}}}]}}")

    assert found["topology"]["topologies"][0]["levels"] == (
        {"nodeLabel": "example.org/site", "alias": ""},
        {"nodeLabel": "example.org/hall", "alias": ""},
    )


_MISTAKES: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "mistakes.yaml").read_text(encoding="utf-8")
)


def _errors(directory: Path, text: str) -> list[str]:
    """The lines of the error, without the name of the file."""
    file = _file(directory, text)
    with pytest.raises(SettingsError) as caught:
        read(file)
    lines = str(caught.value).splitlines()
    assert [line for line in lines if not line.startswith(f"{file}:")] == []
    return [line.removeprefix(f"{file}:") for line in lines]


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        pytest.param(row["text"], row["errors"], id=f"{group}-{number}")
        for group, rows in _MISTAKES.items()
        for number, row in enumerate(rows)
    ],
)
def test_a_mistake_is_named_with_what_was_found(tmp_path: Path, text: str, errors: list[str]) -> None:
    """Each mistake has its line, its key, what was found and what was probably meant, all of them at once."""
    assert _errors(tmp_path, text) == errors


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file and a directory in its place are errors with their cause, bytes that are no text with theirs."""
    for path, cause in ((tmp_path / "none.yaml", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(SettingsError, match=f"^{path}: cannot be read: {cause}"):
            read(path)
    file = _file(tmp_path, "")
    file.write_bytes(b"log: \xff\n")
    with pytest.raises(SettingsError, match=f"^{file}: not UTF-8 text: invalid start byte at byte 5$"):
        read(file)


def test_the_packs_are_those_that_are_shipped() -> None:
    """Each folder with policies is a pack of the settings."""
    folders = {path.parents[1].name for path in packfiles.PACKS.glob("*/*/policy.yaml")}

    assert set(PacksSettings.names()) == folders


def test_a_mode_stands_for_its_pack(tmp_path: Path) -> None:
    """A pack is its mode, off with and without quotes, or a map; numbers and lists become a ConfigMap's texts."""
    text = """packs:
      sunk: off
      scheduling-safety: "audit"
      interruptable-qos:
        policies: {interruptable-candidate: off, interruptable-drain: enforce}
        parameters: {maxTerminationGracePeriodSeconds: 60, databaseImages: [postgres, redis]}
    """

    assert read(_file(tmp_path, text)).packs == PacksSettings(
        sunk=PackSettings(mode="off"),
        **{
            "scheduling-safety": PackSettings(mode="audit"),
            "interruptable-qos": PackSettings(
                policies={"interruptable-candidate": "off", "interruptable-drain": "enforce"},
                parameters={"maxTerminationGracePeriodSeconds": "60", "databaseImages": "postgres redis"},
            ),
        },
    )


def test_packs_are_on_unless_all_are_off() -> None:
    """By default all warn. A policy that is on puts its pack on."""
    every = dict.fromkeys(PacksSettings.names(), "off")
    one = {**every, "sunk": {"mode": "off", "policies": {"lock-toleration": "warn"}}}

    packs = [Settings.model_validate({"packs": given}).packs for given in ({}, every, one)]
    assert [pack.is_on for pack in packs] == [True, False, True]
    assert [pack.mode for pack in packs[0].by_name.values()] == ["warn"] * len(every)


_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"


def test_the_reference_reads_back_to_the_defaults(tmp_path: Path) -> None:
    """What is printed as the reference is a configuration file that changes nothing."""
    file = tmp_path / "cks.yaml"
    file.write_text(reference(), encoding="utf-8")

    assert read(file) == Settings()


def test_the_page_shows_the_reference() -> None:
    """docs/reference/configuration.md holds the reference, word for word, in its one block of YAML that is so long."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", _PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)

    assert blocks.count(reference()) == 1


def _keys(model: type[BaseModel], at: str = "") -> Iterator[tuple[str, str]]:
    """Every key of a model and the models in it, with its description."""
    for field in model.model_fields.values():
        yield f"{at}{field.alias}", field.description or f"no description of {at}{field.alias}"
        for inner in _models(field.annotation):
            yield from _keys(inner, f"{at}{field.alias}.")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models(argument)


def test_every_key_is_explained() -> None:
    """Each key stands in the reference behind its own description, those of list entries too."""
    lines = [line.strip().lstrip("# ") for line in reference().splitlines()]

    for key, description in _keys(Settings):
        name = key.rpartition(".")[2]
        assert any(line == f"{name}:" or line.startswith(f"{name}: ") for line in lines), key
        assert " ".join(description.split()) in " ".join(lines), key


def test_lines_are_short() -> None:
    """The reference can be read without scrolling sideways."""
    assert [line for line in reference().splitlines() if line.lstrip()[:1] == "#" and len(line) > WIDTH] == []


APART: dict[str, Any] = {
    "cluster": {"inCluster": True},
    "manage": {"apart": True, "secret": "leaf"},
    "tls": {"secret": "ca", "certFile": "tls/tls.crt", "keyFile": "tls/tls.key", "clientCaFile": "clients.crt"},
    "registration": {"apply": True, "owner": "role"},
}


def _settings(**sections: dict[str, Any]) -> Settings:
    return Settings.model_validate({key: APART.get(key, {}) | sections.get(key, {}) for key in APART | sections})


def test_what_is_shared_is_manages_and_files_are_replicas() -> None:
    """Neither the CA nor the registration is a replica's, and none of the files of replicas is manage's."""
    settings = _settings()
    shared = {"tls": {**APART["tls"], "secret": ""}, "registration": {}}
    files = {"tls": {"secret": "ca"}}

    assert of_replica(settings) == Settings.model_validate({**APART, **shared})
    assert of_manager(settings) == Settings.model_validate({**APART, **files})


def test_without_manage_a_replica_does_everything() -> None:
    """The settings stay as they are."""
    settings = _settings(manage={"apart": False}, tls={"secret": ""})

    assert of_replica(settings) is settings


@pytest.mark.parametrize(
    ("role", "sections", "reason"),
    [
        (of_replica, {"tls": {"certFile": "", "keyFile": ""}}, "manage.apart: replicas read no Secret; mount the"),
        (of_replica, {"manage": {"apart": False}}, "tls.secret is where manage keeps the CA: set manage.apart to true"),
        (of_manager, {"manage": {"apart": False}}, "manage.apart is false, so that serve does this work itself"),
        (of_manager, {"cluster": {"inCluster": False}}, "manage needs a cluster: set cluster.kubeconfig"),
        (of_manager, {"manage": {"secret": ""}}, "tls.secret and manage.secret belong together"),
    ],
    ids=["no-files", "no-manage", "not-apart", "no-cluster", "no-leaf"],
)
def test_what_cannot_work_is_refused(role: Any, sections: dict[str, Any], reason: str) -> None:
    """The text says what is missing and what to set."""
    with pytest.raises(SettingsError, match=reason):
        role(_settings(**sections))
