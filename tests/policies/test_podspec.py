"""Whether a Pod asks for an accelerator: each way of asking, each way of asking for none."""

import re
from typing import Any

import pytest
from support.builders import FACTS, TODAY, pod, pod_spec

from policies.engine.facts import Node, StaticFacts
from policies.podspec import Accelerators, allows, thousandths

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


_LABELS = {"zone": "a", "rack": "12", "gpu": "", "word": "x"}
_NODE = Node("n1", _LABELS)
_UNNAMED = Node("", _LABELS)


def _affinity(terms: Any) -> dict[str, Any]:
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


def _need(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def _labels(*needs: Any) -> dict[str, Any]:
    return {"matchExpressions": list(needs)}


def _fields(*needs: Any) -> dict[str, Any]:
    return {"matchFields": list(needs)}


@pytest.mark.parametrize(
    ("term", "by_the_node", "by_some_labels"),
    [
        pytest.param(_labels(_need("zone", "In", "b", "a")), True, True, id="in"),
        pytest.param(_labels(_need("zone", "In", "b")), False, False, id="in-others"),
        pytest.param(_labels(_need("zone", "In")), False, False, id="in-nothing"),
        pytest.param(_labels(_need("absent", "In", "a")), False, True, id="in-absent"),
        pytest.param(_labels(_need("zone", "NotIn", "b")), True, True, id="not-in"),
        pytest.param(_labels(_need("zone", "NotIn", "a")), False, False, id="not-in-itself"),
        pytest.param(_labels(_need("absent", "NotIn", "a")), True, True, id="not-in-absent"),
        pytest.param(_labels(_need("gpu", "Exists")), True, True, id="exists-with-empty-value"),
        pytest.param(_labels({"key": "gpu", "operator": "Exists"}), True, True, id="exists-without-values"),
        pytest.param(_labels(_need("absent", "Exists")), False, True, id="exists-absent"),
        pytest.param(_labels(_need("absent", "DoesNotExist")), True, True, id="does-not-exist"),
        pytest.param(_labels(_need("zone", "DoesNotExist")), False, False, id="does-not-exist-present"),
        pytest.param(_labels(_need("rack", "Gt", "11")), True, True, id="greater"),
        pytest.param(_labels(_need("rack", "Gt", "12")), False, False, id="greater-equal"),
        pytest.param(_labels(_need("rack", "Lt", "100")), True, True, id="less-by-number"),
        pytest.param(_labels(_need("rack", "Lt", "9")), False, False, id="less-not-by-text"),
        pytest.param(_labels(_need("absent", "Gt", "1")), False, True, id="greater-absent"),
        pytest.param(_labels(_need("word", "Gt", "1")), False, False, id="greater-no-number"),
        pytest.param(_labels(_need("rack", "Lt", "x")), False, False, id="less-than-no-number"),
        pytest.param(_labels(_need("rack", "Gt")), False, False, id="greater-than-nothing"),
        pytest.param(_labels(_need("zone", "Like", "a")), False, False, id="unknown-operator"),
        pytest.param(_labels(_need("zone", "Exists"), _need("gpu", "In", "x")), False, False, id="one-of-two"),
        pytest.param(_fields(_need("metadata.name", "In", "n1")), True, True, id="name"),
        pytest.param(_fields(_need("metadata.name", "In", "n2")), False, True, id="another-name"),
        pytest.param(_fields(_need("metadata.name", "NotIn", "n1")), False, True, id="not-this-name"),
        pytest.param(
            _labels(_need("zone", "Exists")) | _fields(_need("metadata.name", "In", "n2")),
            False,
            True,
            id="not-the-name",
        ),
        pytest.param(
            _labels(_need("zone", "In", "b")) | _fields(_need("metadata.name", "In", "n1")),
            False,
            False,
            id="only-the-name",
        ),
        pytest.param({}, False, False, id="empty-term"),
        pytest.param({"matchExpressions": [], "matchFields": None}, False, False, id="term-with-empty-lists"),
        pytest.param(None, False, False, id="null-term"),
        pytest.param("zone", False, False, id="term-is-text"),
    ],
)
def test_a_term(term: Any, by_the_node: bool, by_some_labels: bool) -> None:  # noqa: FBT001
    """Each operator decides as Kubernetes does; where only some labels are known, requirements on others hold."""
    assert allows(_affinity([term]), _NODE) is by_the_node
    assert allows(_affinity([term]), _UNNAMED, labels_complete=False) is by_some_labels


@pytest.mark.parametrize(
    ("terms", "allowed"),
    [
        pytest.param([_labels(_need("zone", "In", "b")), _labels(_need("zone", "In", "a"))], True, id="one-matches"),
        pytest.param([_labels(_need("zone", "In", "b")), _labels(_need("zone", "In", "c"))], False, id="none-matches"),
        pytest.param([{}, _labels(_need("zone", "In", "a"))], True, id="an-empty-one-takes-nothing-away"),
        pytest.param([], False, id="empty-list"),
        pytest.param(None, False, id="null"),
        pytest.param("zone", False, id="text"),
    ],
)
def test_terms(terms: Any, allowed: bool) -> None:  # noqa: FBT001
    """Terms are alternatives, and no terms at all match nothing."""
    assert allows(_affinity(terms), _NODE) is allowed


@pytest.mark.parametrize(
    ("selector", "by_the_node", "by_some_labels"),
    [
        pytest.param({"zone": "a"}, True, True, id="match"),
        pytest.param({"zone": "a", "rack": "12"}, True, True, id="all-match"),
        pytest.param({"zone": "a", "rack": "13"}, False, False, id="one-differs"),
        pytest.param({"absent": "1"}, False, True, id="absent"),
        pytest.param({"absent": ""}, False, True, id="absent-is-not-empty"),
        pytest.param({"zone": None}, False, False, id="null-value"),
        pytest.param({"zone": ["a"]}, False, False, id="list-value"),
        pytest.param({}, True, True, id="empty"),
        pytest.param(None, True, True, id="null"),
        pytest.param(["zone"], True, True, id="list"),
    ],
)
def test_node_selectors(selector: Any, by_the_node: bool, by_some_labels: bool) -> None:  # noqa: FBT001
    """Every label of the selector must be the Node's, as far as the Node's labels are known."""
    assert allows({"nodeSelector": selector}, _NODE) is by_the_node
    assert allows({"nodeSelector": selector}, _UNNAMED, labels_complete=False) is by_some_labels


def test_selector_and_affinity_must_both_allow() -> None:
    """Neither a node selector nor an affinity makes up for the other."""
    yes, no = _affinity([_labels(_need("zone", "In", "a"))]), _affinity([_labels(_need("zone", "In", "b"))])

    assert allows({"nodeSelector": {"rack": "12"}, **yes}, _NODE) is True
    assert allows({"nodeSelector": {"rack": "13"}, **yes}, _NODE) is False
    assert allows({"nodeSelector": {"rack": "12"}, **no}, _NODE) is False


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"affinity": None}, id="null-affinity"),
        pytest.param({"affinity": {"nodeAffinity": None}}, id="null-node-affinity"),
        pytest.param(
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}}, id="null-required"
        ),
        pytest.param({"affinity": ["x"]}, id="list"),
        pytest.param({"affinity": {"podAffinity": {}}}, id="another-affinity"),
        pytest.param(
            {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
            id="preferred",
        ),
    ],
)
def test_nothing_required_allows_every_node(spec: dict[str, Any]) -> None:
    """What is absent, null or only preferred rules no Node out."""
    assert allows(spec, _NODE) is True


@pytest.mark.parametrize(
    "term",
    [
        pytest.param(_labels("zone"), id="requirement-is-text"),
        pytest.param(_labels(None), id="requirement-is-null"),
        pytest.param({"matchExpressions": 1}, id="requirements-are-a-number"),
        pytest.param({"matchExpressions": {"key": "zone"}}, id="requirements-are-a-map"),
        pytest.param(_labels({"key": "zone", "operator": "In", "values": 1}), id="values-are-a-number"),
        pytest.param(_labels({"key": "zone", "operator": "In", "values": "abc"}), id="values-are-text"),
        pytest.param(_labels({"key": "zone", "operator": "In", "values": {"a": 1}}), id="values-are-a-map"),
        pytest.param(_labels({"key": "rack", "operator": "Gt", "values": [None]}), id="bound-is-null"),
        pytest.param(_labels({"key": "rack", "operator": "Gt", "values": "1"}), id="bounds-are-text"),
        pytest.param(_labels({"key": "rack", "operator": "Gt", "values": {"a": 1}}), id="bounds-are-a-map"),
        pytest.param(_labels({"key": ["zone"], "operator": "In", "values": ["a"]}), id="key-is-a-list"),
        pytest.param(_labels({}), id="empty-requirement"),
    ],
)
def test_malformed_requirements_match_nothing(term: Any) -> None:
    """A requirement that the API server would refuse is met by no Node, and never an exception."""
    assert allows(_affinity([term]), _NODE) is False


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        pytest.param("8", 8000, id="whole"),
        pytest.param(8, 8000, id="number"),
        pytest.param(0.5, 500, id="float"),
        pytest.param("500m", 500, id="thousandths"),
        pytest.param("1.5Gi", 1_610_612_736_000, id="binary"),
        pytest.param(".5Ki", 512_000, id="without-a-whole-part"),
        pytest.param("1.E", 10**21, id="exa"),
        pytest.param("1E3", 10**6, id="exponent"),
        pytest.param("12e-1", 1200, id="negative-exponent"),
        pytest.param("1n", 1, id="rounded-up"),
        pytest.param("0n", 0, id="nothing"),
        pytest.param("1e999999999", (2**63 - 1) * 1000, id="too-much"),
        pytest.param("1e-999999999", 1, id="too-little"),
    ],
)
def test_thousandths(quantity: str | float, expected: int) -> None:
    """An amount comes in thousandths, rounded up, within what 64 bits hold of whole ones."""
    assert thousandths(quantity) == expected


@pytest.mark.parametrize("quantity", ["", ".", "m", "1 ", "-1", "1mi", "1e", "eins", "1Gi2", "٣"])
def test_what_is_no_amount(quantity: str) -> None:
    """Any other text is told."""
    with pytest.raises(ValueError, match=re.escape(f"{quantity!r} is no amount; one such as 8, 500m or 1.5Gi was")):
        thousandths(quantity)
