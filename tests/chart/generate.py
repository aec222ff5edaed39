"""Everything of the chart that is made from other things: `make chart` writes it, and a test compares it.

`python -m chart.generate` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from chart import chartvalues, rendering
from chart.matrix import export
from chart.rendering import CHART
from policies.objects.workload import BUILT_IN, SHIPPED, Workload
from policies.topology.membership import ROOT_KINDS
from webhook.configuration.rulesettings import written
from webhook.version import VERSION

GOLDEN = Path(__file__).parent / "golden" / "default.yaml"
# No name that a Namespace can have, so that nothing else is taken for it.
_NAMESPACE = "RELEASE_NAMESPACE"
_MADE = "# Made by `make chart`.\n"


def sources() -> Mapping[Path, str]:
    """The files that templates are rendered with or that people read, each with the text that it should have."""
    values = chartvalues.values(_text("values.yaml"))
    return {
        CHART / "Chart.yaml": _versioned(_text("Chart.yaml")),
        CHART / "README.md": chartvalues.with_table(_text("README.md"), values),
        CHART / "values.schema.json": chartvalues.filled(_text("values.schema.json"), values),
        CHART / "files" / "workloads.yaml": workloads(),
        CHART / "files" / "placed.yaml": placed(),
        CHART / "files" / "shipped.yaml": shipped(),
        CHART / "files" / "webhook-configurations.yaml": webhook_configurations(),
    }


def golden() -> Mapping[Path, str]:
    """The manifests that the values' defaults come to."""
    return {GOLDEN: rendering.template()}


def workloads() -> str:
    """The resources whose metadata the rule about deleted Topology objects looks at, by group."""
    return _by_group(row for row in BUILT_IN if row.makes_pods)


def placed() -> str:
    """The resources that the placer follows, since they say how many Pods start together, by group."""
    return _by_group(row for row in BUILT_IN if row.group_kind in ROOT_KINDS)


def shipped() -> str:
    """The kinds that `config.workloads` switches on by their names, as they would be written."""
    return _MADE + yaml.safe_dump({row.kind: written(row) for row in SHIPPED}, width=1000, default_flow_style=None)


def _by_group(rows: Iterable[Workload]) -> str:
    by_group: dict[str, list[str]] = {}
    for row in rows:
        by_group.setdefault(row.group, []).append(row.resource)
    found = [{"group": group, "resources": sorted(resources)} for group, resources in sorted(by_group.items())]
    return _MADE + yaml.safe_dump(found, sort_keys=False, width=1000, default_flow_style=None)


def webhook_configurations() -> str:
    """What `export webhook-configuration` prints for the default rules; the template says who is called."""
    return _MADE + export({"cluster": {"namespace": _NAMESPACE}})


def _versioned(text: str) -> str:
    """Chart.yaml with the version of the application."""
    return "".join(
        f'appVersion: "{VERSION}"\n' if line.startswith("appVersion:") else line
        for line in text.splitlines(keepends=True)
    )


def _text(name: str) -> str:
    return (CHART / name).read_text(encoding="utf-8")


def main() -> None:
    """Write what differs, the golden last: it is rendered with the rest."""
    for made in (sources, golden):
        for path, text in made().items():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
                print(f"wrote {path.relative_to(CHART.parents[1])}")


if __name__ == "__main__":
    main()
