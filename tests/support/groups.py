"""Which tests run in one process, and the order of these groups: the longest first, so that all processes end together.

A group shares what is dear: a control plane, which ends with it, the release on it, what helm rendered. Every other
module is a group.
"""

RELEASED = ("load", "rights", "skew")
"""Modules test_release_* that share one release, as test_release does; the others install and remove their own."""
JUDGED = (
    "test_doctor",
    "test_mistakes",
    "test_packs",
    "test_pages",
    "test_safety",
    "test_served_packs",
    "test_served_policies",
)
"""Modules with services that refuse much, on a control plane of their own."""
NATIVE = (
    "test_authorization",
    "test_defaults",
    "test_fence",
    "test_mutation_merge",
    "test_pod_defaults",
    "test_policy_differential",
    "test_policy_documents",
    "test_policy_matching",
    "test_schemas",
    "test_typechecking",
)
"""Modules that ask an API server without the service what it says itself."""
_MODULES = {**dict.fromkeys(JUDGED, "judged"), **dict.fromkeys(NATIVE, "native"), "test_upgrade": "upgraded"}

LONGEST = (
    *("native", "control_plane", "released", "placed", "judged", "vacant", "upgraded"),
    *(f"tests/webhook/{name}" for name in ("test_serve_crowds", "test_serve", "test_serve_heavy")),
    "tests/policies/topology/test_choice",
    *(f"tests/properties/{name}" for name in ("test_topology", "test_topology_updates")),
)
"""What takes over 20 s on a busy machine, in this order."""


def group(nodeid: str) -> str:
    """Return the name of a test's group. In the wrong one another control plane is started."""
    path = nodeid.partition("::")[0].removesuffix(".py")
    folder, _, module = path.rpartition("/")
    if folder.endswith("tests/chart"):
        return "chart"
    if not folder.endswith("tests/cluster"):
        return path
    if module == "test_release" or module.removeprefix("test_release_") in RELEASED:
        return "released"
    if module.startswith("test_release_"):
        return "vacant"
    if module.startswith("test_topology_"):
        return "placed"
    return _MODULES.get(module, "control_plane")


def is_dear(nodeid: str) -> bool:
    """Return whether a test's group has a control plane, which ends with the group."""
    return nodeid.startswith("tests/cluster/")


def rank(nodeid: str) -> int:
    """Return a group's place among those that begin first."""
    name = group(nodeid)
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)
