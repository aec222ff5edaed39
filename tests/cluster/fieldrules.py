"""`python -m cluster.fieldrules` writes policies/schema/fieldrules-*.json: what an API server demands of single fields.

It asks a real one. Objects that it accepts are spoiled, one field at a time, and what it says of that field is kept if
it says so wherever the field stands: that it is required, which values it has, which numbers, and which form of name.
"""

from __future__ import annotations

import copy
import http.client
import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from cluster import toolchain
from cluster.apicalls import Caller
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE, release
from cluster.test_defaults import KINDS, path
from cluster.test_pod_defaults import SPECS
from policies import schema
from policies.admissionpolicy.builtin.table import OBJECT_META, QUANTITY, OpenApi, TypeTable, types_of
from policies.kubernetes.release import named
from policies.objects.fieldpath import render
from policies.schema.flaw import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from cluster.manifests import Manifest

ABSENT = object()
OFTEN = 6
"""So many places of a field in objects of a kind show all that there is to it."""
FOLDER = Path(schema.__file__).parent
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_APART = frozenset({OBJECT_META, ""})  # metadata differs by kind, and has rules of its own
_FORMATS = {
    "a lowercase RFC 1123 subdomain must": "dns-subdomain",
    "a lowercase RFC 1123 label must": "dns-label",
    "a DNS-1035 label must": "dns-1035-label",
    "name part must": "label-key",
    "a valid label must": "label-value",
    "a valid config key must": "config-key",
    "must contain only alpha-numeric": "port-name",
    "must be an absolute path": "absolute-path",
}
_INVALID = re.compile(r'Invalid value: (?:"[^"]*"|\[[^\]]*\]|\{[^}]*\}): ')
_NAMED_OTHERWISE = frozenset(
    {("ParamKind", "apiVersion"), ("PodDNSConfig", "searches"), ("AzureDiskVolumeSource", "diskURI")}
)
"""Fields whose texts have a form of their own, which a single answer does not tell."""
_LEAST = re.compile(r": must be greater than (or equal to )?(-?\d+)\Z")
_RANGE = re.compile(r": must be between (-?\d+) and (\d+), inclusive\Z")
_SUPPORTED = re.compile(r"Unsupported value: .*?: supported values: (.*)")
Steps = tuple[str | int, ...]
Rules = dict[str, dict[str, dict[str, Any]]]


class Field(NamedTuple):
    """A field of an accepted object: the name of the type that has it, its own name, its place, and its definition."""

    owner: str
    name: str
    place: Steps
    definition: OpenApi


def accepted() -> Iterator[Manifest]:
    """Return objects of many kinds and shapes that an API server accepts."""
    for case in KINDS:
        yield from (case[size] for size in ("minimal", "rich") if "REQUEST" not in str(case[size]))
    yield from yaml.safe_load(Path(__file__).with_name("fieldrules.yaml").read_text(encoding="utf-8"))
    for spec in SPECS.values():
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


def fields(value: Any, definition: OpenApi, table: TypeTable, owner: str = "", at: Steps = ()) -> Iterator[Field]:
    """Return all fields that the types of an object have, also those that the object lacks."""
    if "$ref" in definition:
        owner = definition["$ref"]
        yield from () if owner == OBJECT_META else fields(value, table.types[owner], table, owner, at)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from fields(item, definition.get("items", {}), table, "", (*at, index))
    elif isinstance(value, dict):
        for name, below in definition.get("properties", {}).items():
            if at or name not in {"apiVersion", "kind", "metadata", "status"}:
                yield Field(owner, name, (*at, name), below)
                yield from fields(value.get(name), below, table, "", (*at, name))
        if isinstance(definition.get("additionalProperties"), dict):
            for key, item in value.items():
                yield from fields(item, definition["additionalProperties"], table, "", (*at, key))


def trials(definition: OpenApi) -> Mapping[str, Any]:
    """Return values that a field may not take, by what they try."""
    return {"missing": ABSENT, **_wrong(definition)}


def _wrong(definition: OpenApi) -> Mapping[str, Any]:
    kind, reference = definition.get("type"), definition.get("$ref", "")
    numbers = {"negative": -1, "large": 10_000_000, "zero": 0}
    below = definition.get("additionalProperties")
    if kind == "string" and not definition.get("format"):
        return {"text": "Nope!"}
    if kind == "integer" or reference == _INT_OR_STRING:
        return {**numbers, **({"text": "Nope!"} if reference else {})}
    if isinstance(below, dict):
        of_text = {"key": {"No pe!": "x"}, "value": {"x": "No pe!"}} if below.get("type") == "string" else {}
        return {"negative": {"cpu": "-1"}} if below.get("$ref") == QUANTITY else of_text
    return {"item": ["Nope!"]} if kind == "array" and definition["items"].get("type") == "string" else {}


class Evidence:
    """What was said of fields, by type, field and trial: the messages that came each time."""

    def __init__(self, often: int) -> None:
        self._often = often
        self._said: dict[tuple[str, str, str], set[str]] = {}
        self._absent: set[tuple[str, str]] = set()
        self._asked: Counter[tuple[str, ...]] = Counter()
        self._right: dict[tuple[str, str], set[str]] = defaultdict(set)

    def lacks(self, kind: str, field: Field, trial: str) -> bool:
        """Whether it was not asked often enough yet what becomes of a field in objects of a kind."""
        asked = kind, field.owner, field.name, trial
        self._asked[asked] += 1
        return self._asked[asked] <= self._often

    def right(self, field: Field, value: Any) -> None:
        """An object was accepted with this value of the field; None if it lacks it."""
        if not value:
            self._absent.add((field.owner, field.name))
        for text in value if isinstance(value, list) else (value,):
            if isinstance(text, str) and text:
                self._right[field.owner, field.name].add(text)

    def add(self, field: Field, trial: str, messages: Iterable[str]) -> None:
        """What was said of the field this time; nothing if it was accepted or another field was complained of."""
        key, said = (field.owner, field.name, trial), set(messages)
        self._said[key] = self._said.get(key, said) & said

    def rules(self) -> Rules:
        """The rules that follow, by type and field."""
        rules: Rules = defaultdict(dict)
        for owner, name in sorted({key[:2] for key in self._said}):
            said = {key[2]: sorted(texts) for key, texts in self._said.items() if key[:2] == (owner, name)}
            if (owner, name) in self._absent:
                said.pop("missing", None)
            if (owner.rpartition(".")[2], name) in _NAMED_OTHERWISE:
                said = {trial: texts for trial, texts in said.items() if trial not in {"text", "item"}}
            if rule := _without_contradictions(_rule(said), self._right[owner, name]):
                rules[owner][name] = rule
        return dict(rules)


def _rule(said: Mapping[str, list[str]]) -> dict[str, Any]:
    """What follows from what was said of one field by trial."""
    rule: dict[str, Any] = {}
    for text in said.get("missing", ()):
        if text.startswith("Required value") and " when " not in text:
            rule["required"] = text.removeprefix("Required value").removeprefix(": ")
        elif text.startswith(("Invalid value: 0: ", 'Invalid value: "": ')):
            rule["absent"] = True
    for trial in ("text", "item"):
        for text in said.get(trial, ()):
            if match := _SUPPORTED.match(text):
                rule["enum"] = [value.strip('"') for value in match[1].split(", ")]
    for trial in ("text", "item", "key", "value"):
        names = {
            form
            for text in said.get(trial, ())
            for start, form in _FORMATS.items()
            if _INVALID.sub("", text).startswith(start)
        }
        if len(names) == 1:
            (rule[{"key": "keys", "value": "values"}.get(trial, "format")],) = names
    return rule | _numbers(said)


def _without_contradictions(rule: dict[str, Any], right: set[str]) -> dict[str, Any]:
    """The rule without what would refuse a text that was accepted."""
    if "enum" in rule and right - set(rule["enum"]):
        del rule["enum"]
    if "format" in rule and any(FORMATS[rule["format"]](text) for text in right):
        del rule["format"]
    return rule


def _numbers(said: Mapping[str, list[str]]) -> dict[str, Any]:
    rule: dict[str, Any] = {}
    for text in (*said.get("negative", ()), *said.get("large", ())):
        if match := _LEAST.search(text):
            rule["minimum" if match[1] else "above"] = int(match[2])
        if match := _RANGE.search(text):
            rule["minimum"], rule["maximum"] = int(match[1]), int(match[2])
    if (rule.get("minimum", 0) > 0 or "above" in rule) and not said.get("zero"):
        rule["zero"] = True
    return rule


def spoiled(manifest: Manifest, place: Steps, value: Any) -> Manifest:
    """Return the object with another value in a place."""
    whole = copy.deepcopy(manifest)
    holder: Any = whole
    for step in place[:-1]:
        holder = holder[step]
    if value is ABSENT:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return whole


def learn(
    post: Callable[[str, Manifest], tuple[int, Manifest]],
    table: TypeTable,
    often: int = OFTEN,
    known: Rules | None = None,
) -> Rules:
    """Return the rules of an API server.

    post: a create, with the code and the answer. often: at so many places of a field. known: of these fields only.
    """
    evidence = Evidence(often)
    for manifest in accepted():
        api_version = manifest["apiVersion"]
        name = table.kinds[f"{api_version if '/' in api_version else f'/{api_version}'}/{manifest['kind']}"]
        code, answer = post(path(manifest), manifest)
        assert code == http.client.CREATED, (manifest, answer)
        for field in fields(manifest, {"$ref": name}, table):
            holder: Any = manifest
            for step in field.place[:-1]:
                holder = holder.get(step) if isinstance(holder, dict) else holder[step]
            if known is not None and field.name not in known.get(field.owner, {}):
                continue
            if isinstance(holder, dict) and field.owner not in _APART:
                evidence.right(field, holder.get(field.name))
                _try(field, manifest, holder, evidence, post)
    return evidence.rules()


def _try(
    field: Field,
    manifest: Manifest,
    holder: Manifest,
    evidence: Evidence,
    post: Callable[[str, Manifest], tuple[int, Manifest]],
) -> None:
    for trial, value in trials(field.definition).items():
        if (value is ABSENT and field.name not in holder) or not evidence.lacks(manifest["kind"], field, trial):
            continue
        _, answer = post(path(manifest), spoiled(manifest, field.place, value))
        where = render(field.place)
        causes = (answer.get("details") or {}).get("causes", ()) if answer.get("kind") == "Status" else ()
        inside = {where, f"{where}[0]", f"{where}[No pe!]", f"{where}[cpu]", f"{where}.cpu"}
        evidence.add(field, trial, (str(cause["message"]) for cause in causes if cause.get("field") in inside))


def poster(caller: Caller) -> Callable[[str, Manifest], tuple[int, Manifest]]:
    """Return a function that creates objects. Some spoiled ones make the API server end the connection."""

    def post(where: str, manifest: Manifest) -> tuple[int, Manifest]:
        try:
            answer = caller.send("POST", where, manifest)
        except http.client.RemoteDisconnected:
            caller.close()
            return 0, {}
        return answer.code, answer.body

    return post


def text(rules: Rules) -> str:
    """Return the table as its file has it: a type a line."""
    rows = (f"{json.dumps(name)}: {json.dumps(own, separators=(',', ':'))}" for name, own in sorted(rules.items()))
    return "{\n" + ",\n".join(rows) + "\n}\n"


def main() -> int:
    """Write the file of the release that runs; say how large it is."""
    with ControlPlane(toolchain.ensure(CONTROL_PLANE)) as control_plane, Caller(control_plane) as caller:
        content = text(learn(poster(caller), types_of(named(release()))))
    file = FOLDER / f"fieldrules-{release()}.json"
    file.write_text(content, encoding="utf-8")
    print(f"{file.name}: {len(content)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
