"""Whether a Pod asks for an accelerator: each way of asking, each way of asking for none."""

from typing import Any

import pytest
from support.builders import FACTS, TODAY, pod, pod_spec

from policies.engine.facts import StaticFacts
from policies.podspec import Accelerators

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


@pytest.mark.parametrize(
    ("name", "requested"),
    [
        pytest.param("nvidia.com/gpu", True, id="gpu"),
        pytest.param("nvidia.com/gpu.shared", True, id="shared"),
        pytest.param("nvidia.com/mig-1g.5gb", True, id="mig"),
        pytest.param("amd.com/gpu", True, id="amd"),
        pytest.param("sunk.coreweave.com/accelerator", True, id="sunk"),
        pytest.param("deviceclass.resource.kubernetes.io/gpu.nvidia.com", True, id="device-class"),
        pytest.param("deviceclass.resource.kubernetes.io/mig.nvidia.com", True, id="device-class-mig"),
        pytest.param("example.org/accelerated", True, id="extended-name-of-a-device-class"),
        pytest.param("deviceclass.resource.kubernetes.io/nic.example.org", False, id="another-device-class"),
        pytest.param("example.org/nic", False, id="extended-name-of-another-class"),
        pytest.param("cpu", False, id="cpu"),
        pytest.param("memory", False, id="memory"),
        pytest.param("rdma/ib", False, id="infiniband"),
        pytest.param("nvidia.com/gpu-memory", False, id="longer-name"),
        pytest.param("nvidia.com/mig", False, id="shorter-than-the-glob"),
        pytest.param("requests.nvidia.com/gpu", False, id="quota-name"),
    ],
)
def test_resources(name: str, requested: bool) -> None:  # noqa: FBT001
    """Every default form of accelerator counts, and no other resource does."""
    assert Accelerators().requested(pod({name: "1"}), "default", _CLAIMS) is requested


@pytest.mark.parametrize(
    ("quantity", "requested"),
    [
        pytest.param("0", False, id="text-zero"),
        pytest.param(0, False, id="number-zero"),
        pytest.param(0.0, False, id="float-zero"),
        pytest.param("0m", False, id="zero-milli"),
        pytest.param("0e3", False, id="zero-with-exponent"),
        pytest.param("0E3", False, id="zero-with-capital-exponent"),
        pytest.param("0.00", False, id="zero-with-fraction"),
        pytest.param("+0", False, id="plus-zero"),
        pytest.param("0Ki", False, id="zero-kibi"),
        pytest.param("-1", False, id="negative"),
        pytest.param(-1, False, id="negative-number"),
        pytest.param("", False, id="empty"),
        pytest.param(None, False, id="null"),
        pytest.param(["1"], False, id="list"),
        pytest.param("many", False, id="no-number"),
        pytest.param("1", True, id="text-one"),
        pytest.param(1, True, id="number-one"),
        pytest.param("8", True, id="eight"),
        pytest.param("10", True, id="ten"),
        pytest.param("+2", True, id="plus-two"),
        pytest.param("1e3", True, id="exponent"),
        pytest.param("1000m", True, id="milli"),
        pytest.param("0.5", True, id="fraction"),
        pytest.param(".5", True, id="fraction-without-zero"),
        pytest.param("00.01k", True, id="leading-zeros"),
    ],
)
def test_quantities(quantity: Any, requested: bool) -> None:  # noqa: FBT001
    """Only a quantity above zero asks for anything, in whatever way zero is written."""
    assert Accelerators().requested(pod({"nvidia.com/gpu": quantity}), "default", FACTS) is requested


@pytest.mark.parametrize("side", ["limits", "requests"])
@pytest.mark.parametrize("containers", ["containers", "initContainers"])
def test_containers(containers: str, side: str) -> None:
    """A request or a limit of any container or init container counts."""
    others = [{"name": "a"}, {"name": "b", "resources": {side: {"cpu": "1"}}}]
    asking = {"name": "c", "resources": {side: {"cpu": "1", "nvidia.com/gpu": "1"}}}

    def asked(last: Any) -> bool:
        return Accelerators().requested({"spec": {**pod_spec(), containers: [*others, last]}}, "default", FACTS)

    assert (asked(asking), asked({"name": "c"})) == (True, False)


@pytest.mark.parametrize(
    ("claim", "requested"),
    [
        pytest.param({"resourceClaimName": "one-gpu"}, True, id="claim"),
        pytest.param({"resourceClaimName": "gpu-and-nic"}, True, id="claim-of-several-classes"),
        pytest.param({"resourceClaimName": "nic"}, False, id="claim-of-another-class"),
        pytest.param({"resourceClaimName": "not-there-yet"}, False, id="unknown-claim"),
        pytest.param({"resourceClaimName": "theirs"}, False, id="claim-of-another-namespace"),
        pytest.param({"resourceClaimTemplateName": "gpus"}, True, id="template"),
        pytest.param({"resourceClaimTemplateName": "nics"}, False, id="template-of-another-class"),
        pytest.param({"resourceClaimTemplateName": "one-gpu"}, False, id="template-called-like-a-claim"),
        pytest.param({"resourceClaimName": "gpus"}, False, id="claim-called-like-a-template"),
        pytest.param(
            {"resourceClaimName": None, "resourceClaimTemplateName": "gpus"}, True, id="null-beside-a-template"
        ),
        pytest.param({"resourceClaimName": 1}, False, id="name-is-a-number"),
        pytest.param({"name": "gpu"}, False, id="neither"),
        pytest.param("one-gpu", False, id="text"),
        pytest.param(None, False, id="null"),
    ],
)
def test_claims(claim: Any, requested: bool) -> None:  # noqa: FBT001
    """A claim, or a template of claims, counts when it is known and one of its classes is an accelerator."""
    asking = pod(resourceClaims=[{"name": "x", "resourceClaimName": "nic"}, claim])

    assert Accelerators().requested(asking, "default", _CLAIMS) is requested


def test_the_namespace_of_the_request_counts() -> None:
    """Claims are looked up in the namespace given, since a Pod's own may be empty."""
    asking = pod(resourceClaims=[{"name": "x", "resourceClaimName": "theirs"}], metadata={"namespace": "default"})

    assert Accelerators().requested(asking, "elsewhere", _CLAIMS) is True


@pytest.mark.parametrize(
    ("name", "requested"),
    [
        pytest.param("example.org/tpu-v5", True, id="resource-by-glob"),
        pytest.param("deviceclass.resource.kubernetes.io/nic.example.org", True, id="device-class"),
        pytest.param("example.org/nic", True, id="extended-name"),
        pytest.param("nvidia.com/gpu", False, id="no-default-resource"),
        pytest.param("deviceclass.resource.kubernetes.io/gpu.nvidia.com", False, id="no-default-class"),
    ],
)
def test_configured_accelerators(name: str, requested: bool) -> None:  # noqa: FBT001
    """What is configured takes the place of the defaults."""
    configured = Accelerators(resources=("example.org/tpu-*",), device_classes=("nic.example.org",))

    assert configured.requested(pod({name: "1"}), "default", _CLAIMS) is requested


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({}, id="no-spec"),
        pytest.param({"spec": None}, id="null-spec"),
        pytest.param({"spec": "x"}, id="spec-is-text"),
        pytest.param({"spec": {}}, id="empty-spec"),
        pytest.param({"spec": {"containers": None, "initContainers": None, "resourceClaims": None}}, id="null-lists"),
        pytest.param({"spec": {"containers": {"nvidia.com/gpu": 1}, "resourceClaims": {"a": 1}}}, id="maps-for-lists"),
        pytest.param({"spec": {"containers": [None, "x", 1]}}, id="odd-containers"),
        pytest.param(
            {"spec": {"containers": [{"resources": None}, {"resources": ["nvidia.com/gpu"]}]}}, id="odd-resources"
        ),
        pytest.param({"spec": {"containers": [{"resources": {"limits": ["nvidia.com/gpu"]}}]}}, id="limits-are-a-list"),
        pytest.param({"spec": {"resources": {"limits": {"nvidia.com/gpu": 1}}}}, id="resources-of-the-pod"),
    ],
)
def test_odd_pods_ask_for_nothing(odd: Any) -> None:
    """Whatever is missing, null or of another type asks for no accelerator."""
    assert Accelerators().requested(odd, "default", FACTS) is False
