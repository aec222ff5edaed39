"""What policies and conversions can write into labels past the guard."""

from __future__ import annotations

from typing import Any

import pytest

from policies.labels import GRACEFUL, INTERRUPTABLE
from policies.labelwriters.labelwriter import LabelWriter, of_definition, of_policy
from policies.objects.workload import BUILT_IN, table

Json = dict[str, Any]
_TABLE = table(BUILT_IN)
_PODS = {"apiGroups": [""], "resources": ["pods"]}
_NODES = {"apiGroups": [""], "resources": ["nodes"]}
_DEPLOYMENTS = {"apiGroups": ["apps"], "resources": ["deployments"]}
_EVERYTHING = {"apiGroups": ["*"], "resources": ["*"]}
_CUSTOM = {"apiGroups": ["example.org"], "resources": ["widgets"]}


def _policy(*mutations: Json, rule: Json = _PODS, **variables: str) -> Json:
    return {
        "metadata": {"name": "m"},
        "spec": {
            "matchConstraints": {"resourceRules": [{**rule, "apiVersions": ["*"], "operations": ["*"]}]},
            "variables": [{"name": name, "expression": text} for name, text in variables.items()],
            "mutations": list(mutations),
        },
    }


def _applied(expression: str) -> Json:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def _patched(*operations: str) -> Json:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{', '.join(operations)}]"}}


def _labels(entries: str) -> Json:
    return _applied(f"Object{{metadata: Object.metadata{{labels: {entries}}}}}")


def _add(path: str, value: str = '"x"') -> str:
    return f'JSONPatch{{op: "add", path: {path}, value: {value}}}'


def _each(items: str, variable: str, key: str) -> Json:
    """A mutation with an operation for each item, which computes the key of a label."""
    operation = _add(f"'/metadata/labels/' + {key}")
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": f"{items}.map({variable}, {operation})"}}


def _multiplied() -> dict[str, Any]:
    """Variables of which each uses the one before nine times."""
    uses = {f"v{number}": ", ".join([f"variables.v{number - 1}"] * 9) for number in range(1, 10)}
    return {"v0": "{'a': 'b'}", **{name: f"[{text}]" for name, text in uses.items()}}


def _verdict(policy: Json) -> str:
    writer = of_policy(policy, _TABLE, [INTERRUPTABLE, GRACEFUL])
    return "none" if writer is None else writer.verdict


_RESERVED = [
    pytest.param(_policy(_labels('{"a.coreweave.cloud/x": "y"}')), id="map"),
    pytest.param(_policy(_labels('{"coreweave.cloud/x": null}')), id="null"),
    pytest.param(_policy(_labels('{"coreweave.cloud/" + object.metadata.name: "y"}')), id="computed-name"),
    pytest.param(_policy(_labels('true ? {"a": "b"} : {"coreweave.cloud/x": "y"}')), id="branch"),
    pytest.param(_policy(_labels("variables.all"), all='{"coreweave.cloud/x": "y"}'), id="variable"),
    pytest.param(_policy(_patched(_add('"/metadata/labels/coreweave.cloud~1x"'))), id="pointer"),
    pytest.param(
        _policy(_patched(_add('"/metadata/labels/" + jsonpatch.escapeKey("coreweave.cloud/x")'))), id="escaped"
    ),
    pytest.param(_policy(_patched(_add('"/metadata/labels"', '{"coreweave.cloud/x": "y"}'))), id="whole-map"),
    pytest.param(_policy(_patched(_add('"/metadata"', '{"labels": {"coreweave.cloud/x": "y"}}'))), id="metadata"),
    pytest.param(_policy(_patched(_add('"x/metadata/labels/coreweave.cloud~1x"'))), id="no-leading-slash"),
    pytest.param(_policy(_patched('JSONPatch{op: "add", path: "/metadata/labels/coreweave.cloud~1x"}')), id="no-value"),
    pytest.param(
        _policy(_patched('JSONPatch{op: "copy", path: "/metadata/labels/coreweave.cloud~1x", from: "/metadata/name"}')),
        id="copy",
    ),
    pytest.param(
        _policy(_patched('JSONPatch{op: "remove", path: "/metadata/labels/coreweave.cloud~1x"}'), rule=_NODES),
        id="removal-from-nodes",
    ),
    pytest.param(
        _policy(
            _applied(
                "Object{spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{"
                'labels: {"coreweave.cloud/x": "y"}}}}}'
            ),
            rule=_DEPLOYMENTS,
        ),
        id="template",
    ),
    pytest.param(
        _policy(_patched(_add('"/spec/volumes/0/ephemeral/volumeClaimTemplate/metadata/labels/coreweave.cloud~1x"'))),
        id="claim-of-a-volume",
    ),
    pytest.param(_policy(_labels('{"qos.coreweave.cloud/interruptable": "true"}'), rule=_NODES), id="not-for-nodes"),
]


@pytest.mark.parametrize("policy", _RESERVED)
def test_a_reserved_label_is_named(policy: Json) -> None:
    """Whatever form a mutation has, a reserved key in it is seen."""
    assert _verdict(policy) == "reserved"


_POSSIBLE = [
    pytest.param(_policy(_labels("object.metadata.annotations")), id="copied-map"),
    pytest.param(_policy(_labels('{params.data.key: "y"}')), id="parameter"),
    pytest.param(_policy(_labels('{"coreweave." + params.data.key: "y"}')), id="beginning-of-a-domain"),
    pytest.param(_policy(_labels("optional.of(object.metadata.labels).orValue({})")), id="unknown-function"),
    pytest.param(_policy(_labels("variables.absent")), id="unknown-variable"),
    pytest.param(_policy(_labels("variables.a"), a="variables.b", b="variables.a"), id="circular-variables"),
    pytest.param(_policy(_applied("variables.a.b"), a="{}"), id="whole-object"),
    pytest.param(_policy(_applied("Object{")), id="unreadable"),
    pytest.param(_policy(_applied("Object{" + " " * 30_000 + "}")), id="long"),
    pytest.param(_policy(_patched(_add('"/metadata/labels/" + params.key'))), id="computed-key"),
    pytest.param(_policy(_patched(_add('"/metadata/lab" + params.key'))), id="computed-step"),
    pytest.param(_policy(_patched(_add("params.path"))), id="computed-path"),
    pytest.param(_policy(_patched(_add('"/metadata/labels"', "params.labels"))), id="computed-value"),
    pytest.param(_policy(_patched("params.operation")), id="computed-operation"),
    pytest.param(
        _policy(_each("['coreweave.cloud/x']", "k", "k")),
        id="macro",
    ),
    pytest.param(
        _policy(
            _each("[{'k': 'coreweave.cloud~1x'}]", "variables", "variables.k"), k="'example.org~1harmless'"
        ),
        id="hidden-name",
    ),
    pytest.param(_policy(_patched(_add('"/metadata/labels"', "{}")), rule=_NODES), id="labels-of-nodes-replaced"),
    pytest.param(_policy(_patched(_add('"/spec/template/" + params.x')), rule=_DEPLOYMENTS), id="in-a-template"),
    pytest.param(_policy(_patched(_add('"/spec/template"', "params.x")), rule=_EVERYTHING), id="template-of-anything"),
    pytest.param(_policy(_labels("variables.v9"), **_multiplied()), id="variables-that-multiply"),
]  # fmt: skip


@pytest.mark.parametrize("policy", _POSSIBLE)
def test_what_is_computed_may_be_a_label(policy: Json) -> None:
    """What cannot be told from the expressions counts as possible."""
    assert _verdict(policy) == "possible"


_NONE = [
    pytest.param(_policy(_labels('{"example.org/x": params.y}')), id="own-label"),
    pytest.param(_policy(_labels("Object.metadata.labels{team: object.metadata.namespace}")), id="own-field"),
    pytest.param(_policy(_labels('{"example.org/" + params.key: "y"}')), id="own-domain"),
    pytest.param(_policy(_labels('{"qos.coreweave.cloud/interruptable": params.x}')), id="exception"),
    pytest.param(
        _policy(_applied("Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{"
                         "name: c.name, env: params.env})}}")),
        id="containers",
    ),
    pytest.param(_policy(_patched(_add('"/spec/containers/" + string(0) + "/image"', "params.x"))), id="image"),
    pytest.param(_policy(_patched(_add('"/metadata/annotations/" + params.key'))), id="annotation"),
    pytest.param(_policy(_patched(_add('"/metadata/annotations/coreweave.cloud~1x"'))), id="reserved-annotation"),
    pytest.param(_policy(_patched(_add('"/metadata/labels"', "{}"))), id="no-labels-yet"),
    pytest.param(
        _policy(_patched('JSONPatch{op: "remove", path: "/metadata/labels/coreweave.cloud~1x"}')),
        id="removal-from-pods",
    ),
    pytest.param(
        _policy(_patched('JSONPatch{op: "test", path: "/metadata/labels/coreweave.cloud~1x", value: "y"}')), id="test"
    ),
    pytest.param(_policy(_patched(_add('"/spec/template/metadata/labels/coreweave.cloud~1x"')), rule=_CUSTOM),
                 id="no-template-there"),
]  # fmt: skip


@pytest.mark.parametrize("policy", _NONE)
def test_what_cannot_write_reserved_labels(policy: Json) -> None:
    """Ordinary mutations are not reported."""
    assert _verdict(policy) == "none"


def test_the_text_of_a_policy() -> None:
    """It names the first labels, or the mutations of which they cannot be told."""
    many = _policy(_labels("{" + ", ".join(f'"coreweave.cloud/{x}": "y"' for x in "abcde") + "}"))
    unknown = _policy(_labels('{"a": "b"}'), _labels("params.x"))

    assert of_policy(many, _TABLE, ()) == LabelWriter(
        "MutatingAdmissionPolicy",
        "m",
        "reserved",
        "it writes reserved labels: coreweave.cloud/a, coreweave.cloud/b, coreweave.cloud/c and 2 more",
    )
    assert of_policy(unknown, _TABLE, ()) == LabelWriter(
        "MutatingAdmissionPolicy",
        "m",
        "possible",
        "it may write any label: which ones cannot be told from spec.mutations[1]",
    )


def _definition(*versions: str, **conversion: Any) -> Json:
    return {
        "metadata": {"name": "widgets.example.org"},
        "spec": {"versions": [{"name": name} for name in versions], "conversion": conversion},
    }


_HOOK = {"clientConfig": {"service": {"namespace": "ops", "name": "hook"}}}


@pytest.mark.parametrize(
    ("definition", "who"),
    [
        pytest.param(_definition("v1", "v2", strategy="Webhook", webhook=_HOOK), "ops/hook", id="service"),
        pytest.param(
            _definition("v1", "v2", strategy="Webhook", webhook={"clientConfig": {"url": "https://a.example/b?c=d"}}),
            "https://a.example/b",
            id="url",
        ),
        pytest.param(_definition("v1", "v2", strategy="None"), "", id="no-webhook"),
        pytest.param(_definition("v1", strategy="Webhook", webhook=_HOOK), "", id="one-version"),
    ],
)
def test_a_conversion(definition: Json, who: str) -> None:
    """A webhook that converts between versions may change labels; without one, or with one version, nothing does."""
    text = f"its conversion webhook, {who}, may change the labels of its objects after admission"
    expected = LabelWriter("CustomResourceDefinition", "widgets.example.org", "possible", text) if who else None

    assert of_definition(definition) == expected
