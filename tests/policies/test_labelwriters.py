"""What policies and conversions can write into labels past the guard."""

from __future__ import annotations

from typing import Any

import pytest

from policies.labelpolicy import LabelWriter, of_definition, of_policy
from policies.labels import GRACEFUL, INTERRUPTABLE, organization

Json = dict[str, Any]


def _policy(*expressions: str, form: str = "applyConfiguration", **variables: str) -> Json:
    return {
        "metadata": {"name": "m"},
        "spec": {
            "matchConditions": [{"name": "c", "expression": "'coreweave.cloud/condition' in object.metadata.labels"}],
            "variables": [{"name": name, "expression": text} for name, text in variables.items()],
            "mutations": [{form: {"expression": text}} for text in expressions],
        },
    }


_PATCH = '[JSONPatch{path: "%s"}]'


@pytest.mark.parametrize(
    ("policy", "keys"),
    [
        (_policy('{"a.coreweave.cloud/x": "y"}'), "a.coreweave.cloud/x"),
        (_policy("variables.all", all="{'coreweave.cloud/x': 'y'}"), "coreweave.cloud/x"),
        (_policy(_PATCH % "/metadata/labels/coreweave.com~1x", form="jsonPatch"), "coreweave.com/x"),
        (_policy(_PATCH % "/spec/jobs/0/metadata/labels/coreweave.cloud~1x", form="jsonPatch"), "coreweave.cloud/x"),
        (_policy('"coreweave.cloud/" + params.name'), "coreweave.cloud/"),
        (_policy('{"ns.coreweave.cloud/org": "y"}'), "ns.coreweave.cloud/org"),
        (
            _policy(*(f'{{"coreweave.cloud/{name}": "y"}}' for name in "abacde")),
            "coreweave.cloud/a, coreweave.cloud/b, coreweave.cloud/c and 2 more",
        ),
        *((_policy(f'{{"{key}": "true"}}'), None) for key in ("example.org/x", "mycoreweave.cloud/x")),
        (_policy('{"qos.coreweave.cloud/interruptable": "true"}'), None),
        (_policy("params.labels"), None),
        ({"spec": {"mutations": "none", "variables": ["none"]}}, None),
    ],
)
def test_reserved_labels_in_a_policy(policy: Json, keys: str | None) -> None:
    """A reserved key in a mutation or a variable is named, unless people may set it; match conditions do not count."""
    text = f"its expressions name reserved labels: {keys}"
    expected = LabelWriter("MutatingAdmissionPolicy", "m", "reserved", text) if keys else None

    assert of_policy(policy, [INTERRUPTABLE, GRACEFUL, organization("o")]) == expected


def _definition(*versions: str, **conversion: Any) -> Json:
    return {
        "metadata": {"name": "widgets.example.org"},
        "spec": {"versions": [{"name": name} for name in versions], "conversion": conversion},
    }


_HOOK = {"clientConfig": {"service": {"namespace": "ops", "name": "hook"}}}


_ELSEWHERE = {"clientConfig": {"url": "https://a.example/b?c=d"}}


@pytest.mark.parametrize(
    ("definition", "who"),
    [
        (_definition("v1", "v2", strategy="Webhook", webhook=_HOOK), "ops/hook"),
        (_definition("v1", "v2", strategy="Webhook", webhook=_ELSEWHERE), "https://a.example/b"),
        (_definition("v1", "v2", strategy="None"), ""),
        (_definition("v1", strategy="Webhook", webhook=_HOOK), ""),
    ],
)
def test_a_conversion(definition: Json, who: str) -> None:
    """A webhook that converts between versions may change labels; without one, or with one version, nothing does."""
    text = f"its conversion webhook, {who}, may change the labels of its objects after admission"
    expected = LabelWriter("CustomResourceDefinition", "widgets.example.org", "possible", text) if who else None

    assert of_definition(definition) == expected
