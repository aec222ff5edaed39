"""The schemas for editors: what is right passes by them, what is wrong does not, and they name every field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.service.commands import run

from policies import suite
from webhook import schemas
from webhook.configuration.settings import Settings
from webhook.files import yamlfile

_ROOT = Path(__file__).parents[2]
_SUITES = sorted((_ROOT / "policies").rglob("suite.yaml"))
_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}
_EXCEPTION = """\
apiVersion: cks-admission.dev/v1
kind: PolicyException
metadata: {name: legacy}
spec: {policies: [labels], reason: OPS-1, until: "2027-06-30", match: {namespaces: [team-a]}}
"""


def _faults(value: Any, schema: Mapping[str, Any], top: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """The places at which a value is not as the schema says, by the keywords that the schemas use."""
    if "$ref" in schema:
        yield from _faults(value, top["$defs"][schema["$ref"].rpartition("/")[2]], top, at)
    if "anyOf" in schema and all(list(_faults(value, one, top, at)) for one in schema["anyOf"]):
        yield at
    if not _is_allowed(value, schema):
        yield at
    elif isinstance(value, list):
        yield from [at] if len(value) < schema.get("minItems", 0) else []
        for index, item in enumerate(value):
            yield from _faults(item, schema.get("items", {}), top, f"{at}[{index}]")
    elif isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        yield from (f"{at}.{name}" for name in schema.get("required", ()) if name not in value)
        for name, item in value.items():
            inner = properties.get(name, more)
            yield from [f"{at}.{name}"] if inner is False else []
            yield from _faults(item, inner, top, f"{at}.{name}") if isinstance(inner, dict) else []


def _is_allowed(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a value has the type, is one of those that are listed, and has the form of a text."""
    types = schema.get("type", [])
    kinds = tuple(_TYPES[name] for name in ([types] if isinstance(types, str) else types))
    if kinds and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
        return False
    listed = value in schema.get("enum", [value]) and schema.get("const", value) == value
    return listed and not (isinstance(value, str) and not re.search(schema.get("pattern", ""), value))


def _wrong(name: str, text: str) -> list[str]:
    schema = schemas.schema(name)
    (document,) = yamlfile.load(name, text)
    return sorted(set(_faults(document.value, schema, schema)))


_SHORT = "packs: {sunk: enforce}\nworkloads: [NIMService]\ntopology: {autoscaling: on}\nlabels: {action: off}\n"
_MISTAKES = "labls: {}\nlisten: {port: many}\nlabels: {action: refuse}\npacks: {sunk: {mode: loud}}\n"


@pytest.mark.parametrize(
    ("name", "text", "faults"),
    [
        ("configuration", _SHORT, []),
        ("configuration", _MISTAKES, [".labels.action", ".labls", ".listen.port", ".packs.sunk"]),
        ("exception", _EXCEPTION, []),
        ("exception", _EXCEPTION.replace(', until: "2027-06-30"', ""), [".spec.until"]),
        ("exception", _EXCEPTION.replace("2027-06-30", "June"), [".spec.until"]),
        ("exception", _EXCEPTION.replace("namespaces", "namespace"), [".spec.match.namespace"]),
        *(pytest.param("suite", file.read_text(encoding="utf-8"), [], id=file.parent.name) for file in _SUITES),
    ],
)
def test_mistakes_are_marked(name: str, text: str, faults: list[str]) -> None:
    """An unknown key, one that lacks, a value of another type and one that is not allowed are at their places."""
    assert _wrong(name, text) == faults


def test_what_the_commands_print_passes() -> None:
    """The reference of the configuration is right by its schema."""
    assert _wrong("configuration", run("export", "configuration").stdout) == []
    assert len(_SUITES) > 10


def test_the_configuration_has_every_key() -> None:
    """Each section of the settings is in the schema, with its description."""
    schema = schemas.schema("configuration")
    described = {
        name: {**schema["$defs"].get(one.get("$ref", "").rpartition("/")[2], {}), **one}.get("description")
        for name, one in schema["properties"].items()
    }

    assert set(described) == {str(field.alias) for field in Settings.model_fields.values()}
    assert [name for name, description in described.items() if not description] == []


def test_a_suite_has_the_fields_that_its_reader_knows() -> None:
    """The schema names the fields of suites and cases, no more and no fewer."""
    properties = schemas.schema("suite")["properties"]

    assert set(properties) == set(suite._SUITE)
    assert set(properties["cases"]["items"]["properties"]) == set(suite._CASE)


@pytest.mark.parametrize("name", list(schemas.NAMES))
def test_a_schema_is_printed_by_its_name(name: str) -> None:
    """Export schema NAME prints it as JSON."""
    assert json.loads(run("export", "schema", name).stdout) == json.loads(json.dumps(schemas.schema(name)))


def test_the_line_for_editors_stands_first(tmp_path: Path) -> None:
    """Init policy --schema begins the suite with the line that editors read; the suite stays right."""
    address = "../suite.schema.json"
    run("init", "policy", "mine", "--directory", str(tmp_path), "--schema", address)

    text = (tmp_path / "mine" / "suite.yaml").read_text(encoding="utf-8")
    assert text.splitlines()[0] == f"# yaml-language-server: $schema={address}"
    assert yaml.safe_load(text)["name"] == "mine"
    assert run("test", str(tmp_path / "mine")).exit_code == 0
