"""Where the Pods run, and what they outlive."""

from __future__ import annotations

from collections.abc import Callable

from chart.rendering import Rendered

Entry = Callable[[str], Rendered]


def test_replicas_are_on_different_nodes(entry: Entry) -> None:
    """Three replicas, no two of them on a Node while there is another one, and none counted that cannot be used."""
    deployment = entry("default").one("Deployment")["spec"]
    spread = {each["topologyKey"]: each for each in entry("default").pod["topologySpreadConstraints"]}

    assert deployment["replicas"] == 3
    assert {key: each["whenUnsatisfiable"] for key, each in spread.items()} == {
        "kubernetes.io/hostname": "DoNotSchedule",
        "topology.kubernetes.io/zone": "ScheduleAnyway",
    }
    assert {each["nodeTaintsPolicy"] for each in spread.values()} == {"Honor"}
    assert {tuple(each["matchLabelKeys"]) for each in spread.values()} == {("pod-template-hash",)}


def test_two_placers_of_which_one_works(entry: Entry) -> None:
    """Two Pods, on two Nodes where there are two, with the limits that are documented, and a drain takes one."""
    rendered = entry("default")
    deployment = rendered.one("Deployment", "cks-admission-placer")["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    (spread,) = deployment["template"]["spec"]["topologySpreadConstraints"]

    assert (deployment["replicas"], container["args"][0]) == (2, "place")
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert rendered.one("PodDisruptionBudget", "cks-admission-placer")["spec"]["maxUnavailable"] == 1


def test_without_a_placer_there_is_nothing_of_it(entry: Entry) -> None:
    """Where it is off, no account, policy or Job of it is left, and where there is one, all know of it."""
    for name in ("no-gates", "rules-off", "none-without-access"):
        assert [each for each in entry(name).names if "placer" in each or "release" in each] == []
        assert "place: {}" in entry(name).configuration
    assert "place:\n  apart: true\n  lease: cks-admission-placer\n" in entry("default").configuration


def test_pods_leave_a_lost_node_soon(entry: Entry) -> None:
    """Pods of the service are replaced 30 s after their Node was lost, not five minutes."""
    rendered = entry("default")
    for name in ("cks-admission", "cks-admission-manage", "cks-admission-placer"):
        pod = rendered.one("Deployment", name)["spec"]["template"]["spec"]
        seconds = {each["key"]: each.get("tolerationSeconds") for each in pod["tolerations"]}

        assert seconds == {
            "is_cpu_compute": None,
            "node.kubernetes.io/not-ready": 30,
            "node.kubernetes.io/unreachable": 30,
        }
        assert pod["priorityClassName"] == "system-cluster-critical"


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


def test_the_api_server_serves_our_accounts_first(entry: Entry) -> None:
    """A FlowSchema names the accounts of replicas, manage and the placer, before the one for all service accounts."""
    spec = entry("default").one("FlowSchema")["spec"]
    (rule,) = spec["rules"]

    assert (spec["matchingPrecedence"], spec["priorityLevelConfiguration"]) == (1000, {"name": "workload-high"})
    assert [subject["serviceAccount"]["name"] for subject in rule["subjects"]] == [
        "cks-admission",
        "cks-admission-manage",
        "cks-admission-placer",
    ]


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
