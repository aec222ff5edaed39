"""What Nodes have, what Pods ask for, and what keeps Pods from a Node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from policies.engine.facts import Node, Taint
from policies.topology.nodes.manifest import PodManifest, allocatable, lasting, obstacles, reasons, requests

Json = dict[str, Any]
_MI, _GI = 2**20, 2**30
_HUGE = "hugepages-2Mi"


def _container(sidecar: str = "", name: str = "", **asked: Any) -> Json:
    always = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": sidecar or name, "resources": {"requests": asked}, **always}


def _cpu(amount: str, sidecar: str = "") -> Json:
    return _container(sidecar, cpu=amount)


def _pod(
    containers: list[Json], init: list[Json] | None = None, status: Json | None = None, **spec: Any
) -> PodManifest:
    whole = {"spec": {"containers": containers, "initContainers": init, **spec}, "status": status or {}}
    return msgspec.convert(whole, PodManifest)


def _resized(*, has: Any = None, allocated: Any = None, reason: str = "", init: bool = False) -> Json:
    status = {"name": "c", "resources": {"requests": has or {}}, "allocatedResources": allocated}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else None
    return {"initContainerStatuses" if init else "containerStatuses": [status], "conditions": conditions}


_BOTH, _MORE = {"memory": "3Mi", "cpu": "2m"}, {"memory": "5Mi", "cpu": "4m"}
_CASES = {
    "nothing": (_pod([]), {}),
    "larger init container": (_pod([_cpu("1")], [_cpu("4")]), {"cpu": 4000}),
    "larger containers": (_pod([_cpu("2"), _cpu("3")], [_cpu("2")]), {"cpu": 5000}),
    "overhead": (
        _pod([_cpu("2"), _cpu("3")], [_cpu("2")], overhead={"cpu": "1", "memory": "1Gi"}),
        {"cpu": 6000, "memory": _GI},
    ),
    "resized, infeasible": (
        _pod([_container(name="c", cpu="4")], status=_resized(has={"cpu": "2"}, reason="Infeasible")),
        {"cpu": 2000},
    ),
    "resized, infeasible and in progress": (
        _pod(
            [_container(name="c", cpu="6")],
            status=_resized(has={"cpu": "2"}, allocated={"cpu": "4"}, reason="Infeasible"),
        ),
        {"cpu": 4000},
    ),
    "resized, no resize status": (
        _pod([_container(name="c", cpu="4")], status=_resized(has={"cpu": "2"})),
        {"cpu": 4000},
    ),
    "resized, deferred": (
        _pod([_container(name="c", cpu="4")], status=_resized(has={"cpu": "2"}, reason="Deferred")),
        {"cpu": 4000},
    ),
    "resized, largest of three by resource": (
        _pod(
            [_container(name="c", **{"cpu": "30m", "memory": "20M", "ephemeral-storage": "10G"})],
            status=_resized(
                allocated={"cpu": "20m", "memory": "10M", "ephemeral-storage": "30G"},
                has={"cpu": "10m", "memory": "30M", "ephemeral-storage": "20G"},
            ),
        ),
        {"cpu": 30, "memory": 30_000_000, "ephemeral-storage": 30_000_000_000},
    ),
    "resized, sidecar, infeasible": (
        _pod([], [_cpu("4", "c")], _resized(has={"cpu": "2"}, reason="Infeasible", init=True)),
        {"cpu": 2000},
    ),
    "resized, sidecar, no resize status": (
        _pod([], [_cpu("4", "c")], _resized(has={"cpu": "2"}, init=True)),
        {"cpu": 4000},
    ),
    "sidecar": (_pod([_cpu("1")], [_cpu("1", "s")]), {"cpu": 2000}),
    "sidecars": (_pod([_cpu("1")], [_cpu("5"), _cpu("1", "a"), _cpu("2", "b"), _cpu("3", "c")]), {"cpu": 7000}),
    "sidecars before and after an init container": (
        _pod([_cpu("1")], [_cpu("5"), _cpu("1", "a"), _cpu("2", "b"), _cpu("5"), _cpu("3", "c")]),
        {"cpu": 8000},
    ),
    "init container beside a sidecar": (_pod([_cpu("100")], [_cpu("10", "s"), _cpu("200")]), {"cpu": 210_000}),
    "whole Pod": (_pod([], resources={"requests": {"memory": "2Mi"}}), {"memory": 2 * _MI}),
    "memory of the whole Pod, cpu of containers": (
        _pod([_cpu("2m")], resources={"requests": {"memory": "2Mi"}}),
        {"memory": 2 * _MI, "cpu": 2},
    ),
    "whole Pod in the place of containers": (
        _pod([_container(**_BOTH)], resources={"requests": {"memory": "6Mi", "cpu": "8m"}}),
        {"memory": 6 * _MI, "cpu": 8},
    ),
    "whole Pod in the place of everything": (
        _pod(
            [_container(**_BOTH)],
            [_container("s", **_MORE), _container(memory="6Mi", cpu="8m")],
            resources={"requests": {"memory": "15Mi", "cpu": "18m"}},
        ),
        {"memory": 15 * _MI, "cpu": 18},
    ),
    "by resource, a sidecar and an init container": (
        _pod([_container(**_BOTH)], [_container("s", **_MORE), _container(memory="6Mi", cpu="8m")]),
        {"memory": 11 * _MI, "cpu": 12},
    ),
    "what a whole Pod cannot ask for": (
        _pod([_container(memory="3Mi")], resources={"requests": {"ephemeral-storage": "2Mi"}}),
        {"memory": 3 * _MI},
    ),
    "huge pages of the whole Pod": (
        _pod(
            [_container(**{_HUGE: "6Mi"})],
            resources={"limits": {_HUGE: "10Mi"}, "requests": {"cpu": "1", _HUGE: "10Mi"}},
        ),
        {"cpu": 1000, _HUGE: 10 * _MI},
    ),
}


def test_pods_ask_for_what_the_scheduler_counts() -> None:
    """Each case comes out as in Kubernetes' own test, with one of the Pods that a Node has room for."""
    counted = {name: requests(pod) for name, (pod, _) in _CASES.items()}

    assert counted == {name: tuple(sorted({**asked, "pods": 1}.items())) for name, (_, asked) in _CASES.items()}


def _limited(limits: Json, **asked: Any) -> Json:
    return {"resources": {"limits": limits, "requests": asked}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(_pod([_limited({"nvidia.com/gpu": 8})]), {"nvidia.com/gpu": 8}, id="limit-only"),
        pytest.param(_pod([_limited({"cpu": 4}, cpu="1")]), {"cpu": 1000}, id="request-before-limit"),
        pytest.param(
            _pod([_limited({"cpu": 4}, memory=1)]), {"cpu": 4000, "memory": 1}, id="request-of-another-resource"
        ),
        pytest.param(
            _pod([_cpu("1")], resources={"limits": {"cpu": "4", "memory": "1Gi"}}),
            {"cpu": 1000, "memory": _GI},
            id="limit-of-the-whole-pod",
        ),
        pytest.param(
            _pod([_container(**{_HUGE: "2Mi"})], resources={"limits": {_HUGE: "4Mi"}}),
            {_HUGE: 4 * _MI},
            id="limit-of-huge-pages-of-the-whole-pod",
        ),
        pytest.param(_pod([_container(memory="0.4"), _container(memory="0.4")]), {"memory": 1}, id="rounded-once"),
        pytest.param(_pod([_cpu("0.1m")]), {"cpu": 1}, id="least-cpu"),
        pytest.param(_pod([_container(storage="1Gi", **{"requests.x/y": "1", "x": "1"})]), {}, id="not-counted"),
        pytest.param(_pod([_container(**{"x/y": "0"})]), {}, id="none"),
        pytest.param(_pod([_container(memory="9E"), _container(memory="9E")]), {"memory": 2**48}, id="too-much"),
    ],
)
def test_what_a_template_leaves_to_defaults_counts(pod: PodManifest, expected: Json) -> None:
    """A template asks for what its Pods will have once the API server has filled in defaults."""
    assert requests(pod) == tuple(sorted({**expected, "pods": 1}.items()))


def test_the_whole_pod_is_resized() -> None:
    """While a whole Pod is resized, the larger of what it has and what it is to have counts; of what it asks for."""
    status = {"resources": {"requests": {"cpu": "3", "memory": "1Mi"}}, "allocatedResources": {"cpu": "4"}}

    assert requests(_pod([], status=status, resources={"requests": {"cpu": "2"}})) == (("cpu", 4000), ("pods", 1))


@pytest.mark.parametrize(
    ("name", "quantity", "message"),
    [
        pytest.param(
            "nvidia.com/gpu", "1.5", "nvidia.com/gpu is '1.5'; a whole number of devices was expected", id="part"
        ),
        pytest.param("cpu", "many", "cpu is 'many'; an amount such as 8, 500m or 1.5Gi was expected", id="word"),
        pytest.param("memory", "-1", "memory is '-1'; an amount such as 8, 500m or 1.5Gi was expected", id="negative"),
    ],
)
def test_a_malformed_amount_is_told(name: str, quantity: str, message: str) -> None:
    """Nobody counts with what is no amount."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        requests(_pod([{"resources": {"requests": {name: quantity}}}]))


def test_a_node_has_what_it_says() -> None:
    """What a Node has is counted like what Pods ask for."""
    assert allocatable({"cpu": "127500m", "memory": "2Ki", "pods": "110", "nvidia.com/gpu": "8", "x": "1"}) == (
        ("cpu", 127_500),
        ("memory", 2048),
        ("nvidia.com/gpu", 8),
        ("pods", 110),
    )


_LOCK = Taint("sunk.coreweave.com/lock", "NoExecute", "true")
_TRIAGE = {"node.coreweave.cloud/state": "triage", "node.coreweave.cloud/reserved": "triage"}
_RESERVED = Taint("node.coreweave.cloud/reserved", "NoSchedule", "hash")
_GPU = Taint("is_gpu", "PreferNoSchedule", "true")
_CPU = Taint("is_cpu_compute", "NoSchedule")


def _node(*taints: Taint, **labels: str) -> Node:
    return Node("n", labels, taints)


@pytest.mark.parametrize(
    ("node", "cordoned", "ready", "expected"),
    [
        pytest.param(_node(_GPU, _CPU), False, True, (), id="none"),
        pytest.param(_node(), True, True, ("cordoned",), id="cordoned"),
        pytest.param(
            _node(Taint("node.kubernetes.io/unschedulable", "NoSchedule")), True, True, ("cordoned",), id="cordon-taint"
        ),
        pytest.param(_node(), False, False, ("not ready",), id="not-ready"),
        pytest.param(
            _node(Taint("node.kubernetes.io/unreachable", "NoExecute")),
            False,
            False,
            ("unreachable",),
            id="unreachable",
        ),
        pytest.param(_node(_LOCK), True, True, ("cordoned", "locked by SUNK"), id="locked-and-cordoned"),
        pytest.param(_node(_RESERVED, **_TRIAGE), False, True, ("in triage",), id="triage"),
        pytest.param(
            _node(_RESERVED, **{"node.coreweave.cloud/state": "production", "node.coreweave.cloud/reserved": "org"}),
            False,
            True,
            (),
            id="production",
        ),
        pytest.param(
            _node(**{"node.coreweave.cloud/reserved": "org", "node.coreweave.cloud/reserved-desired": "control-plane"}),
            False,
            True,
            ("pending",),
            id="pending",
        ),
        pytest.param(
            _node(Taint("node.kubernetes.io/disk-pressure", "NoSchedule")), False, True, ("disk pressure",), id="disk"
        ),
    ],
)
def test_why_a_node_takes_no_pods(node: Node, cordoned: bool, ready: bool, expected: tuple[str, ...]) -> None:  # noqa: FBT001 - cases
    """A Node says once each why Pods do not land on it for now; what people set apart is no such reason."""
    assert reasons(obstacles(node, cordoned=cordoned, ready=ready)) == expected


def test_what_people_set_lasts() -> None:
    """Taints that keep Pods out last, but for those that go when the Node is well again; the state of repair lasts."""
    assert lasting(_node(_GPU, _CPU, _LOCK, _RESERVED)) == (_CPU, _RESERVED)
    assert lasting(_node(_GPU, _CPU, _LOCK, _RESERVED, **_TRIAGE)) == (
        Taint("node.coreweave.cloud/state", "NoSchedule", "triage"),
        _CPU,
    )
