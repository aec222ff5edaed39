"""Values of the chart in all its modes: each set renders, and a real API server accepts what it renders to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final

import yaml

from webhook.cli import options
from webhook.cli.output import to_yaml
from webhook.configuration.settings import Settings
from webhook.registration.configurations import registered

Values = dict[str, Any]


def export(config: Values) -> str:
    """What `cks-admission export webhook-configuration` prints for a configuration."""
    settings = Settings.model_validate(config)
    ruleset = options.ruleset(settings, date.min)[1]
    return "---\n".join(to_yaml(each) for each in registered(settings, b"", ruleset))


def _read(values: Values) -> Values:
    """Values with the export that they ask for, of a configuration that says nothing of the registration itself."""
    registration = values.get("registration", {})
    if registration.get("configurations") != "EXPORT":
        return values
    rules = {key: value for key, value in values["config"].items() if key != "registration"}
    return {**values, "registration": {**registration, "configurations": export(rules)}}


MATRIX: Final[Mapping[str, Values]] = {
    name: _read(values)
    for name, values in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")).items()
}
"""Sets of values by name. Their release is called `cks-admission`, in a Namespace of that name."""
FILES: Final[Values] = {key: MATRIX["policies"][key] for key in ("policies", "exceptions", "topologies")}
CA: Final[str] = MATRIX["secret-bundle"]["clientCa"]["bundle"]

NEEDS: Final[Mapping[str, str]] = {
    "cert-manager": "cert-manager.io",
    "cert-manager-issuer": "cert-manager.io",
    "rendered-cert-manager": "cert-manager.io",
    "pod-monitor": "monitoring.coreos.com",
    "service-monitor": "monitoring.coreos.com",
}
"""The API group beside Kubernetes' own that a set of values needs."""
