"""Where the Pods run, and what they outlive."""

from __future__ import annotations

from collections.abc import Callable

from chart.rendering import Rendered

Entry = Callable[[str], Rendered]


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
        name: [each for each in _manage(entry(name))["volumes"] if "secret" in each]
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


def _manage(rendered: Rendered) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = rendered.one("Deployment", "cks-admission-manage")["spec"]["template"][
        "spec"
    ]
    return found
