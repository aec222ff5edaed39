"""Which changes replace the Pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chart.matrix import FILES
from chart.rendering import Rendered, render

Entry = Callable[[str], Rendered]

_REPLACING: dict[str, dict[str, Any]] = {
    "listen": {"config": {"listen": {"maxInFlight": 100}}},
    "health": {"config": {"health": {"host": "::"}}},
    "tls": {"certificates": {"names": ["admission.example.org"]}},
    "log": {"config": {"log": {"level": "debug"}}},
    "registration": {"registration": {"mode": "none"}},
    "native": {"config": {"policies": {"native": False}}},
    "configMaps": {"config": {"policies": {"configMaps": False}}},
    "decisions": {"config": {"decisions": {"log": "-"}}},
    "events": {"config": {"events": {"refusals": False}}},
    "tracing": {"tracing": {"endpoint": "http://collector.monitoring:4318"}},
    "shadow": {"shadow": FILES["policies"]},
    "image": {"image": {"tag": "1.2.3"}},
}
_FOLLOWED: dict[str, dict[str, Any]] = {
    "labels": {"config": {"labels": {"action": "warn"}}},
    "exceptions": {"config": {"exceptions": [{"rules": ["sunk"], "reason": "r", "until": "2099-12-31"}]}},
    "timeout": {"config": {"registration": {"timeoutSeconds": 3}}},
    "policies": {"policies": FILES["policies"], "exceptions": FILES["exceptions"]},
    "replicas": {"replicas": 5},
    "monitoring": {"monitoring": {"dashboard": {"enabled": True}}},
}


@pytest.mark.parametrize("name", [*_REPLACING, *_FOLLOWED])
def test_pods_are_replaced_only_for_what_a_process_cannot_follow(entry: Entry, name: str) -> None:
    """A change that the service follows leaves the Pods alone, any other one replaces them."""
    changed = render((_REPLACING | _FOLLOWED)[name])
    before, after = (each.one("Deployment")["spec"]["template"] for each in (entry("default"), changed))

    assert (before != after) is (name in _REPLACING)


def test_the_placer_is_replaced_for_what_it_reads_once(entry: Entry) -> None:
    """It reads the settings of topologies and workloads at its start; what else changes leaves its Pods alone."""

    def template(rendered: Rendered) -> dict[str, Any]:
        found: dict[str, Any] = rendered.one("Deployment", "cks-admission-placer")["spec"]["template"]
        return found

    topology = {"config": {"topology": {"default": {"topology": "coreweave"}}}}
    replacing = [topology, {"topologies": FILES["topologies"]}, {"config": {"workloads": ["NIMService"]}}]

    assert [template(render(values)) == template(entry("default")) for values in replacing] == [False] * 3
    assert template(render(_FOLLOWED["labels"])) == template(entry("default"))


def test_new_text_of_mounted_files_is_followed() -> None:
    """Policies, exceptions and topologies that are mounted change without new Pods."""
    values = {**FILES, "shadow": FILES["policies"], "config": {"policies": {"configMaps": False}}}
    parts = ("policies", "exceptions", "topologies", "shadow")
    changed = {**values, **{part: {f"{part}.yaml": "a"} for part in parts}}
    before, after = (render(each).one("Deployment") for each in (values, changed))

    assert before == after
