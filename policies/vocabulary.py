"""The known label keys of Nodes: what they say of a Node, their values, and what a misspelt one was meant to be.

Sources: CoreWeave's pages "InfiniBand and RoCE labels", "Workload Scheduling on CKS", "Day 1" of the Node lifecycle and
"Kueue"; Topograph's "Node Labels and Annotations", before and after version 1.0, which also lists the labels of other
clouds; Amazon's "Topology-aware scheduling" of SageMaker HyperPod; the draft of KEP-4962 "Standardizing the
Representation of Cluster Network Topology"; "Well-Known Labels, Annotations and Taints" of Kubernetes.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher, get_close_matches
from functools import cache, lru_cache
from typing import Literal

from msgspec import Struct

from policies.kubernetes.spelling import LONGEST

Sort = Literal["place", "measure", "trait"]
"""What a label says: where a Node is, how it is connected, or what it is."""


class Form(Struct, frozen=True):
    """The form of a label's values. pattern: matches them all; empty if they may be any text.

    called: the form in words, such as `a number`. choices: the only values that there are, if they are few.
    """

    pattern: str = ""
    called: str = ""
    choices: tuple[str, ...] = ()

    def fits(self, value: str) -> bool:
        """Whether a value has the form."""
        if self.choices:
            return value in self.choices
        return not self.pattern or re.fullmatch(self.pattern, value) is not None


ANY = Form()


class Key(Struct, frozen=True):
    """A label key that is known. name: the key; a `*` in it stands for any text.

    sort: see `Sort`. form: of its values. instead: the key, or what else to name, for who looks for a place; empty for
    places. replaced: by which key, if it is an older name and its values are the same.
    """

    name: str
    sort: Sort = "place"
    form: Form = ANY
    instead: str = ""
    replaced: str = ""

    @property
    def prefix(self) -> str:
        """The part before the slash."""
        return self.name.partition("/")[0]

    @property
    def short(self) -> str:
        """The part behind the slash."""
        return self.name.partition("/")[2]

    @property
    def is_pattern(self) -> bool:
        """Whether the name stands for several keys."""
        return "*" in self.name


REGION, ZONE, HOSTNAME = "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/hostname"
BACKEND, IB, NODE = "backend.coreweave.cloud/", "ib.coreweave.cloud/", "node.coreweave.cloud/"
FLAVOR, LEAFGROUP, IB_FABRIC = f"{BACKEND}flavor", f"{BACKEND}leafgroup", f"{IB}fabric"
RACK, STATE, RESERVED, RESERVED_DESIRED = (
    f"{NODE}{name}" for name in ("rack", "state", "reserved", "reserved-desired")
)
INSTANCE_TYPE, OLD_TYPE = "node.kubernetes.io/instance-type", "node.kubernetes.io/type"
CLIQUE, ACCELERATOR = "nvidia.com/gpu.clique", "network.topology.nvidia.com/accelerator"
COREWEAVE_NVLINK, ULTRASERVER = "ds.coreweave.com/nvlink.domain", "topology.k8s.aws/ultraserver-id"
CAPACITY_BLOCK = "topology.k8s.aws/capacity-block-id"
STANDARD = tuple(f"network.topology.kubernetes.io/{name}" for name in ("datacenter", "spine", "block", "accelerator"))
"""The keys of KEP-4962, farthest first. It is a draft; some clusters have them already."""

_SWITCHES = ("leaf", "spine", "core")
RENAMED = ("fabric", "superpod", "leafgroup", "leafgroup-name", "speed.current", "speed.expected")
"""The names of labels that exist under both `backend.coreweave.cloud/` and `ib.coreweave.cloud/`."""

TOPOGRAPH = ("network.topology.nvidia.com/", "fabric.topograph.run/", "accelerator.topograph.run/")
"""The prefixes of the labels that Topograph writes. It shortens values that are too long."""

TIERS = (
    *((f"{TOPOGRAPH[0]}{old}", f"{TOPOGRAPH[1]}tier-{tier}", STANDARD[2 - tier]) for tier, old in enumerate(_SWITCHES)),
    (ACCELERATOR, f"{TOPOGRAPH[2]}domain", STANDARD[3]),
)
"""Keys of one tier of the network: Topograph's before 1.0, its newer one, and that of KEP-4962."""

PRODUCTION, CONTROL_PLANE = "production", "control-plane"
NO_WORKLOADS = ("onboard", "seatrial", "zap", "zapfail", "test", "triage", "rma", "debug")
"""The states of a CoreWeave Node in which no workload runs on it."""

NUMBER = Form("[0-9]+", "a number")
FABRICS = Form(called="infiniband or roce", choices=("infiniband", "roce"))
STATES = Form(called=f"{PRODUCTION} on Nodes for workloads", choices=(PRODUCTION, *NO_WORKLOADS))
UUID_AND_CLIQUE = Form(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\.[0-9]+", "ClusterUUID.CliqueID")
INSTANCE_ID = Form("[a-z0-9]+(-[a-z0-9]+)*", "an Instance ID, such as gd-8xh100ib-i128")

_PLACES = {"fabric": ANY, "superpod": NUMBER, "leafgroup": NUMBER, "leafgroup-name": ANY}


def _fabric(prefix: str) -> tuple[Key, ...]:
    places = (Key(f"{prefix}{name}", form=form) for name, form in _PLACES.items())
    speeds = (
        Key(f"{prefix}speed.{name}", "measure", instead=BACKEND + "leafgroup") for name in ("current", "expected")
    )
    neighbors = Key(f"{prefix}neighbors.*", "measure", instead=BACKEND + "leafgroup")
    return (*places, *speeds, neighbors)


def _places(prefix: str, *names: str) -> tuple[Key, ...]:
    return tuple(Key(f"{prefix}/{name}") for name in names)


COREWEAVE = (
    *_fabric(BACKEND),
    Key(FLAVOR, "trait", FABRICS, instead=BACKEND + "fabric"),
    *_fabric(IB),
    *(Key(f"{IB}{name}", "measure", instead=LEAFGROUP) for name in ("ports.*", "speed")),
    Key(RACK, form=NUMBER),
    Key(COREWEAVE_NVLINK),
    Key(STATE, "trait", STATES, instead=RACK),
    *(Key(key, "trait", instead=RACK) for key in (RESERVED, RESERVED_DESIRED)),
    *(Key(f"{NODE}{name}", "trait", instead=RACK) for name in ("class", "type", "cpu", "pending-state", "version")),
)
CLOUDS = (
    *_places("topology.k8s.aws", *(f"network-node-layer-{layer}" for layer in (1, 2, 3)), "ultraserver-id", "zone-id"),
    Key(CAPACITY_BLOCK, "trait", instead=f"{CLIQUE} or topology.k8s.aws/network-node-layer-3"),
    *_places("oci.oraclecloud.com", "host.network_block_id", "host.rack_id", "host.gpu_memory_fabric_id", "host.id"),
    *_places("cloud.google.com", *(f"gce-topology-{part}" for part in ("block", "subblock", "host"))),
)
NVIDIA = (
    *_places("network.topology.nvidia.com", "core", "spine", "leaf", "accelerator"),
    Key("fabric.topograph.run/tier-*"),
    *_places("accelerator.topograph.run", "domain", "sub-domain"),
    Key(CLIQUE, form=UUID_AND_CLIQUE),
)
KUBERNETES = (
    *map(Key, (REGION, ZONE, HOSTNAME, *STANDARD)),
    Key(INSTANCE_TYPE, "trait", instead=ZONE),
    Key(OLD_TYPE, "trait", INSTANCE_ID, instead=ZONE),
    *(Key(f"kubernetes.io/{name}", "trait", instead=HOSTNAME) for name in ("os", "arch")),
    Key("failure-domain.beta.kubernetes.io/region", replaced=REGION),
    Key("failure-domain.beta.kubernetes.io/zone", replaced=ZONE),
    Key("beta.kubernetes.io/instance-type", "trait", instead=ZONE, replaced=INSTANCE_TYPE),
)
ALL: tuple[Key, ...] = (*COREWEAVE, *CLOUDS, *NVIDIA, *KUBERNETES)


_BY_NAME = {key.name: key for key in ALL if not key.is_pattern}
_PATTERNS = tuple((re.compile(re.escape(key.name).replace(r"\*", ".+")), key) for key in ALL if key.is_pattern)
_NAMES: dict[str, tuple[str, ...]] = {
    prefix: tuple(key.short for key in _BY_NAME.values() if key.prefix == prefix)
    for prefix in dict.fromkeys(key.prefix for key in ALL)
}
# Domains under which all keys belong to one vocabulary: names of one prefix are looked for under the others.
_COREWEAVE = ("coreweave.cloud", "coreweave.com")
_FAMILIES = ("topograph.run", "topology.nvidia.com", "kubernetes.io")
_SIMILAR_PREFIX, _SIMILAR_NAME = 0.85, 0.75


CONCERNS = "weave|[.]cloud/|topogra|topology|oraclecloud|gce-|gpu.?clique|nvidia[.]com/clique|kubernetes[.]io/[hzrti]"
"""A regular expression, of Python's and Go's kind, that finds something in every key of the vocabulary and in what is
near to one; it passes over the labels that nearly every selector has, such as `kubernetes.io/os`."""

ALONE = "^(zone|region|hostname|rack|superpod|leafgroup|fabric)$"
"""The same for the short names of places, which some write without their prefix."""

_concerns = re.compile(f"(?i){CONCERNS}|{ALONE}").search


@lru_cache(maxsize=1024)
def concerns(name: str) -> bool:
    """Whether a key looks as if it were of the vocabulary. Of all others, nothing is known."""
    return _concerns(name) is not None


def key(name: str) -> Key | None:
    """The known key with a name; None if it is not known."""
    exact = _BY_NAME.get(name)
    if exact is not None or "/" not in name:
        return exact
    return next((known for pattern, known in _PATTERNS if pattern.fullmatch(name)), None)


def equivalent(name: str) -> tuple[str, ...]:
    """All keys of the same label, newest first: its own, and its twin under the other prefix of CoreWeave's fabrics."""
    short = name.removeprefix(BACKEND).removeprefix(IB)
    return (BACKEND + short, IB + short) if short != name and short in RENAMED else (name,)


def twin(name: str) -> str:
    """The key of the same label under the other prefix of CoreWeave's fabrics; empty if there is none."""
    return next((other for other in equivalent(name) if other != name), "")


def belongs(name: str) -> bool:
    """Whether a key has a prefix of the vocabulary, so that nobody else has a label with it."""
    return name.partition("/")[0] in _NAMES


def no_place(name: str) -> str:
    """Why a known label does not say where a Node is, to continue a sentence; empty for places and unknown keys."""
    known = key(name)
    if known is None or known.sort == "place":
        return ""
    if known.sort == "measure":
        return "tells how a Node is connected, not where it is"
    if name == FLAVOR:
        return "tells the kind of the network, which a topology may require"
    if name == CAPACITY_BLOCK:
        return "is a reservation"
    return "tells what a Node is, not where it is"


@cache
def near(name: str) -> str:
    """The known key that a misspelt one was probably meant to be; empty if it is known itself, or nothing is near."""
    prefix, _, short = name.partition("/")
    if len(name) > LONGEST or key(name) is not None or not short:
        return ""
    # The known prefixes that this one may stand for, the likeliest first.
    families = _COREWEAVE if _is_within(prefix, *_COREWEAVE) else [one for one in _FAMILIES if _is_within(prefix, one)]
    kin = [known for known in _NAMES if _is_within(known, *families)]
    likeness = {known: SequenceMatcher(None, known, prefix).ratio() for known in _NAMES if known not in kin}
    alike = [known for known, ratio in likeness.items() if ratio >= _SIMILAR_PREFIX]
    alike.sort(key=likeness.__getitem__, reverse=True)
    for candidate in dict.fromkeys((*(known for known in kin if known == prefix), *kin, *alike)):
        names, flat = _NAMES[candidate], {}
        for known in map(_BY_NAME.__getitem__, (f"{candidate}/{one}" for one in names)):
            # Under another prefix the name of a place means the same; a speed or a type is that of something else.
            first, other = (one.partition(".")[0] for one in (known.prefix, prefix))
            is_alike = SequenceMatcher(None, first, other).ratio() >= _SIMILAR_PREFIX
            is_short = known.sort == "trait" and known.prefix.endswith(f".{prefix}")
            if known.sort == "place" or is_alike or is_short or known.name == FLAVOR:
                flat[_flat(known.short)] = known.short
        if _flat(short) in flat:
            return f"{candidate}/{flat[_flat(short)]}"
        if candidate == prefix and (close := get_close_matches(short, names, 1, _SIMILAR_NAME)):
            return f"{candidate}/{close[0]}"
    return ""


def _is_within(prefix: str, *domains: str) -> bool:
    return any(prefix == domain or prefix.endswith(f".{domain}") for domain in domains)


def _flat(name: str) -> str:
    """A name without what people write differently."""
    return re.sub("[-_.]", "", name).lower()
