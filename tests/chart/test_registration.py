"""Webhook configurations that the chart renders, against those that the service would write."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from chart.matrix import CA, MATRIX, export
from chart.rendering import Rendered, render
from policies.engine.request import JsonObject
from webhook.cli import options
from webhook.configuration.settingsfile import read
from webhook.registration.configurations import registered

Entry = Callable[[str], Rendered]
_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@pytest.mark.parametrize("name", [name for name in MATRIX if name.startswith("rendered")])
def test_they_are_those_of_the_rendered_configuration(entry: Entry, tmp_path: Path, name: str) -> None:
    """Entries, Service, CA and annotation are what the service itself would write for the configuration beside them."""
    (tmp_path / "cks.yaml").write_text(entry(name).configuration, encoding="utf-8")
    settings = read(tmp_path / "cks.yaml")
    bundle = CA.encode() if "caBundle" in MATRIX[name].get("certificates", {}) else b""
    wanted = registered(settings, bundle, options.ruleset(settings, date.min)[1])

    assert [_without_labels(entry(name).one(kind)) for kind in _KINDS] == [_without_labels(each) for each in wanted]


def _without_labels(configuration: JsonObject) -> JsonObject:
    """A configuration without labels, of which the chart has its own."""
    metadata = {key: value for key, value in configuration["metadata"].items() if key != "labels"}
    return {**configuration, "metadata": metadata}


def test_an_export_keeps_its_ca_where_the_chart_has_none() -> None:
    """What an operator's export trusts stays, and who is called is the release's Service or URL."""
    exported = export({"registration": {"url": "https://old.example.org/base", "name": "old"}})
    trusted = exported.replace(
        "clientConfig:\n", f"clientConfig:\n    caBundle: {base64.b64encode(CA.encode()).decode()}\n"
    )
    values = {
        "cluster": {"access": False},
        "certificates": {"mode": "secret", "secretName": "given-tls", "caKey": ""},
        "registration": {"mode": "rendered", "configurations": trusted},
        "config": {"registration": {"url": "https://new.example.org/"}},
    }
    (client, *_) = [each["clientConfig"] for each in render(values).one(_KINDS[0])["webhooks"]]

    assert client == {
        "url": "https://new.example.org/base/mutate/pods",
        "caBundle": base64.b64encode(CA.encode()).decode(),
    }
