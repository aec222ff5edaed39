"""Whether a Pod asks for an accelerator: each way of asking, each way of asking for none."""

import re
from typing import Any

import pytest
from support.builders import TODAY, node_affinity, pod, pod_spec
from support.tables import rows

from policies.engine.facts import Node, StaticFacts
from policies.podspec import Accelerators, node_demand, thousandths

_CLAIMS = StaticFacts(
    TODAY,
    claims={
        ("default", "one-gpu"): frozenset({"gpu.nvidia.com"}),
        ("default", "gpu-and-nic"): frozenset({"nic.example.org", "mig.nvidia.com"}),
        ("default", "nic"): frozenset({"nic.example.org"}),
        ("elsewhere", "theirs"): frozenset({"gpu.nvidia.com"}),
    },
    claim_templates={
        ("default", "gpus"): frozenset({"gpu.nvidia.com"}),
        ("default", "nics"): frozenset({"nic.example.org"}),
    },
    extended={"gpu.nvidia.com": "example.org/accelerated", "nic.example.org": "example.org/nic"},
)


def _asks(asking: Any, namespace: str = "default", accelerators: Accelerators = Accelerators()) -> bool:  # noqa: B008
    return accelerators.requested(asking, namespace, _CLAIMS)


def test_resources() -> None:
    """Every default form of accelerator counts, and no other resource does; what is configured takes their place."""
    prefix = "deviceclass.resource.kubernetes.io"
    shipped = [
        *("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "amd.com/gpu"),
        *("sunk.coreweave.com/accelerator", f"{prefix}/gpu.nvidia.com", f"{prefix}/mig.nvidia.com"),
        "example.org/accelerated",
    ]
    others = ["cpu", "memory", "rdma/ib", "nvidia.com/gpu-memory", "nvidia.com/mig", "requests.nvidia.com/gpu"]
    own = ["example.org/tpu-v5", f"{prefix}/nic.example.org", "example.org/nic"]
    configured = Accelerators(resources=("example.org/tpu-*",), device_classes=("nic.example.org",))
    names = [*shipped, *others, *own]

    assert [name for name in names if _asks(pod({name: "1"}))] == shipped
    assert [name for name in names if _asks(pod({name: "1"}), accelerators=configured)] == own


def test_quantities() -> None:
    """Only a quantity above zero asks for anything, in whatever way zero is written."""
    nothing = ["0", 0, 0.0, "0m", "0e3", "0E3", "0.00", "+0", "0Ki", "-1", -1, "", None, ["1"], "many"]
    something = ["1", 1, "8", "10", "+2", "1e3", "1000m", "0.5", ".5", "00.01k"]

    assert [each for each in (*nothing, *something) if _asks(pod({"nvidia.com/gpu": each}))] == something


@pytest.mark.parametrize("side", ["limits", "requests"])
@pytest.mark.parametrize("containers", ["containers", "initContainers"])
def test_containers(containers: str, side: str) -> None:
    """A request or a limit of any container or init container counts."""
    others = [{"name": "a"}, {"name": "b", "resources": {side: {"cpu": "1"}}}]
    asking = {"name": "c", "resources": {side: {"cpu": "1", "nvidia.com/gpu": "1"}}}

    for last in (asking, {"name": "c"}):
        assert _asks({"spec": {**pod_spec(), containers: [*others, last]}}) is (last is asking)


def test_claims() -> None:
    """A claim, or a template of claims, counts when it is known and one of its classes is an accelerator."""
    of_gpus = [
        {"resourceClaimName": "one-gpu"},
        {"resourceClaimName": "gpu-and-nic"},
        {"resourceClaimTemplateName": "gpus"},
        {"resourceClaimName": None, "resourceClaimTemplateName": "gpus"},
    ]
    others = [
        *({"resourceClaimName": name} for name in ("nic", "not-there-yet", "theirs", "gpus", 1)),
        *({"resourceClaimTemplateName": name} for name in ("nics", "one-gpu")),
        *({"name": "gpu"}, "one-gpu", None),
    ]

    def asking(claim: Any) -> Any:
        return pod(resourceClaims=[{"name": "x", "resourceClaimName": "nic"}, claim], metadata={"namespace": "default"})

    assert [claim for claim in (*of_gpus, *others) if _asks(asking(claim))] == of_gpus
    assert _asks(asking({"resourceClaimName": "theirs"}), "elsewhere")  # a Pod's own namespace may be empty


def test_odd_pods_ask_for_nothing() -> None:
    """Whatever is missing, null or of another type asks for no accelerator."""
    specs: list[Any] = [
        *(None, "x", {}),
        {"containers": None, "initContainers": None, "resourceClaims": None},
        {"containers": {"nvidia.com/gpu": 1}, "resourceClaims": {"a": 1}},
        {"containers": [None, "x", 1, {"resources": None}, {"resources": ["nvidia.com/gpu"]}]},
        {"containers": [{"resources": {"limits": ["nvidia.com/gpu"]}}]},
        {"resources": {"limits": {"nvidia.com/gpu": 1}}},
    ]

    assert [odd for odd in ({}, *({"spec": spec} for spec in specs)) if _asks(odd)] == []


_NODE = Node("n1", {"zone": "a", "rack": "12", "gpu": "", "word": "x"})
_UNNAMED = Node("", _NODE.labels)


def _allows(*terms: Any, **spec: Any) -> bool:
    return node_demand({"affinity": node_affinity(*terms), **spec}).allows(_NODE)


def _zone(value: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": [value]}]}


@rows(__file__, "terms")
def test_a_term(term: Any, by_the_node: bool, by_some_labels: bool) -> None:  # noqa: FBT001
    """Each operator decides as Kubernetes does; where only some labels are known, requirements on others hold."""
    assert _allows(term) is by_the_node
    assert node_demand({"affinity": node_affinity(term)}).allows(_UNNAMED, labels_complete=False) is by_some_labels


@rows(__file__, "selectors")
def test_node_selectors(selector: Any, by_the_node: bool, by_some_labels: bool) -> None:  # noqa: FBT001
    """Every label of the selector must be the Node's, as far as the Node's labels are known."""
    assert node_demand({"nodeSelector": selector}).allows(_NODE) is by_the_node
    assert node_demand({"nodeSelector": selector}).allows(_UNNAMED, labels_complete=False) is by_some_labels


def test_terms() -> None:
    """Terms are alternatives, and no terms at all match nothing; a node selector makes up for none of them."""
    yes: list[Any] = [[_zone("b"), _zone("a")], [{}, _zone("a")]]
    no: list[Any] = [[_zone("b"), _zone("c")], []]

    assert [terms for terms in (*yes, *no) if _allows(*terms)] == yes
    both = (("12", "a"), ("13", "a"), ("12", "b"))
    assert [_allows(_zone(zone), nodeSelector={"rack": rack}) for rack, zone in both] == [True, False, False]


def test_nothing_required_allows_every_node() -> None:
    """What is absent, null or only preferred rules no Node out."""
    affinities: list[Any] = [
        *(None, ["x"], {"nodeAffinity": None}, {"podAffinity": {}}),
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}},
        {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}},
    ]

    specs = ({}, *({"affinity": each} for each in affinities))
    assert [spec for spec in specs if not node_demand(spec).allows(_NODE)] == []


def test_malformed_requirements_match_nothing() -> None:
    """A requirement that the API server would refuse is met by no Node, and never an exception."""
    for terms in (None, "zone"):
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        assert not node_demand({"affinity": {"nodeAffinity": required}}).allows(_NODE)
    requirements: list[Any] = [
        *("zone", None, {}, {"key": ["zone"], "operator": "In", "values": ["a"]}),
        *({"key": "zone", "operator": "In", "values": values} for values in (1, "abc", {"a": 1})),
        *({"key": "rack", "operator": "Gt", "values": values} for values in ([None], "1", {"a": 1})),
    ]
    lists: list[Any] = [1, {"key": "zone"}, *([requirement] for requirement in requirements)]

    assert [odd for odd in lists if _allows({"matchExpressions": odd})] == []


@rows(__file__, "amounts")
def test_thousandths(quantity: str | float, amount: int) -> None:
    """An amount comes in thousandths, rounded up, within what 64 bits hold of whole ones."""
    assert thousandths(quantity) == amount


@pytest.mark.parametrize("quantity", ["", "1 ", "-1", "1mi", "1e", "eins", "1Gi2", "٣"])
def test_what_is_no_amount(quantity: str) -> None:
    """Any other text is told."""
    with pytest.raises(ValueError, match=re.escape(f"{quantity!r} is no amount; one such as 8, 500m or 1.5Gi was")):
        thousandths(quantity)
