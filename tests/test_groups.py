"""Which tests run in one process, and which begin first."""

from pathlib import Path

from support.groups import JUDGED, LONGEST, NATIVE, RELEASED, group, rank

ROOT = Path(__file__).parents[1]


def test_groups() -> None:
    """Tests that share a control plane, a release or the chart are one group, and so is every other module."""
    modules = {
        "tests/chart/test_rights.py::test_a[x::y]": "chart",
        "tests/cluster/test_release.py::test_a": "released",
        "tests/cluster/test_release_load.py::test_a": "released",
        "tests/cluster/test_release_modes.py::test_a": "vacant",
        "tests/cluster/test_doctor.py::test_a": "judged",
        "tests/cluster/test_labels.py::test_a": "control_plane",
        "tests/cluster/test_topology_kept.py::test_a": "placed",
        "tests/cluster/test_schemas.py::test_a": "native",
        "tests/cluster/test_upgrade.py::test_a": "upgraded",
        "tests/policies/cel/test_reads.py::test_a": "tests/policies/cel/test_reads",
    }

    assert {nodeid: group(nodeid) for nodeid in modules} == modules


def test_the_longest_groups_begin() -> None:
    """What takes longest comes first, and everything else together after it."""
    order = [rank(f"tests/cluster/{name}.py::test_a") for name in ("test_labels", "test_release", "test_doctor")]

    assert order == sorted(set(order))
    assert rank("tests/certs/test_plan.py::test_a") == rank("tests/chart/test_rights.py::test_a") == len(LONGEST)


def test_there_are_such_modules() -> None:
    """Every module that is named has a file."""
    named = [name for name in LONGEST if "/" in name]
    named += [f"tests/cluster/{name}" for name in (*JUDGED, *NATIVE, *(f"test_release_{each}" for each in RELEASED))]

    assert [name for name in named if not (ROOT / f"{name}.py").is_file()] == []
