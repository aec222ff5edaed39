"""What policies and conversions can write into labels past the guard."""

from __future__ import annotations

from typing import Any

import pytest

from policies.labels import GRACEFUL, INTERRUPTABLE, organization
from policies.labelwriters import LabelWriter, of_definition, of_policy

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


@pytest.mark.parametrize(
    ("policy", "keys"),
    [
        pytest.param(_policy('{"a.coreweave.cloud/x": "y"}'), "a.coreweave.cloud/x", id="map"),
        pytest.param(_policy("variables.all", all="{'coreweave.cloud/x': 'y'}"), "coreweave.cloud/x", id="variable"),
        pytest.param(
            _policy('[JSONPatch{path: "/metadata/labels/coreweave.com~1x"}]', form="jsonPatch"),
            "coreweave.com/x",
            id="pointer",
        ),
        pytest.param(
            _policy('[JSONPatch{path: "/spec/jobs/0/metadata/labels/coreweave.cloud~1x"}]', form="jsonPatch"),
            "coreweave.cloud/x",
            id="pointer-into-a-list",
        ),
        pytest.param(_policy('"coreweave.cloud/" + params.name'), "coreweave.cloud/", id="computed-name"),
        pytest.param(_policy('{"ns.coreweave.cloud/org": "y"}'), "ns.coreweave.cloud/org", id="exception-by-value"),
        pytest.param(
            _policy(*(f'{{"coreweave.cloud/{name}": "y"}}' for name in "abacde")),
            "coreweave.cloud/a, coreweave.cloud/b, coreweave.cloud/c and 2 more",
            id="many",
        ),
        pytest.param(_policy('{"example.org/x": params.y}'), None, id="own-label"),
        pytest.param(_policy('{"mycoreweave.cloud/x": "y"}'), None, id="own-domain"),
        pytest.param(_policy('{"qos.coreweave.cloud/interruptable": "true"}'), None, id="exception"),
        pytest.param(_policy("params.labels"), None, id="parameter"),
        pytest.param({"spec": {"mutations": "none", "variables": ["none"]}}, None, id="no-lists"),
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
