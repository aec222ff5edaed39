"""The Pods: which changes replace them, where they run, and what they are given."""

from __future__ import annotations

from typing import Any

import pytest

from chart.matrix import FILES
from chart.rendering import Entry, Rendered, render

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


def test_without_a_placer_there_is_nothing_of_it(entry: Entry) -> None:
    """Where it is off, no account, policy or Job of it is left, and where there is one, all know of it."""
    for name in ("no-gates", "rules-off", "none-without-access"):
        assert [each for each in entry(name).names if "placer" in each or "release" in each] == []
        assert "place: {}" in entry(name).configuration
    assert "place:\n  apart: true\n  lease: cks-admission-placer\n" in entry("default").configuration


def test_on_the_network_of_nodes(entry: Entry) -> None:
    """Replicas take their Node's address and still find the API server by name; two are never on one Node."""
    rendered = entry("on-host")
    manage = rendered.one("Deployment", "cks-admission-manage")["spec"]["template"]["spec"]

    assert (rendered.pod["hostNetwork"], rendered.pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert rendered.one("Deployment")["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    assert "hostNetwork" not in manage


def test_openshift_chooses_the_user(entry: Entry) -> None:
    """Without fixed users and groups its default constraints accept the Pods; they are still not root."""
    for name in ("cks-admission", "cks-admission-manage", "cks-admission-placer"):
        pod = entry("on-host").one("Deployment", name)["spec"]["template"]["spec"]

        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_manage_has_no_key_of_others(entry: Entry) -> None:
    """Of a Secret with a certificate of somebody else's manage mounts the CA alone, and of its own it mounts none."""
    volumes = {
        name: [
            each
            for each in entry(name).one("Deployment", "cks-admission-manage")["spec"]["template"]["spec"]["volumes"]
            if "secret" in each
        ]
        for name in ("default", "secret", "cert-manager")
    }

    assert volumes["default"] == []
    for name, secret in (("secret", "given-tls"), ("cert-manager", "cks-admission-tls")):
        (volume,) = volumes[name]
        assert volume["secret"] == {
            "secretName": secret,
            "items": [{"key": "ca.crt", "path": "ca.crt"}],
            "optional": True,
        }
