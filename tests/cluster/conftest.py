"""One control plane for the whole test run."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from compatibility.recording import Recording, mark

from cluster import auditreports, load, manifests, release, toolchain, topologynodes
from cluster.apicalls import Caller
from cluster.controlplane import ControlPlane
from cluster.golang import ToolchainError
from cluster.process import ComponentError
from cluster.programs import CONTROL_PLANE, judged_as
from cluster.release import Release
from cluster.service import EXCEPTIONS, NAMESPACE, Service, registered

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests of the API server alone first: once registered, the service stays, and changes the Pods of all.

    Those that remove the chart's release come last.
    """
    items.sort(key=_order)


def pytest_configure(config: pytest.Config) -> None:
    """Where RECORD is set, write down what is proven for which release, for docs/reference/compatibility.md."""
    if os.environ.get("RECORD") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recording(judged_as()))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Say in the report of each proof what it is about."""
    mark(item)


def _order(item: pytest.Item) -> tuple[bool, int]:
    module = item.path.stem
    is_here = item.path.parent == HERE
    return is_here and "service" in getattr(item, "fixturenames", ()), _LAST.index(module) if module in _LAST else -1


# cert-manager and its Secrets stay after the last.
_LAST = ("test_release_pages", "test_release_modes", "test_release_certmanager")

# What takes room on Nodes, which tests share; the Pods last, for their controllers would make them again.
_RUNNING = (
    "cronjobs",
    "deployments",
    "daemonsets",
    "statefulsets",
    "jobs",
    "replicasets",
    "replicationcontrollers",
    "pods",
)


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """Run a control plane; if it cannot be built or started, every test that asks for it fails with the reason."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    failure = ""
    with ExitStack() as stack:
        try:
            with capture.global_and_fixture_disabled():  # a first build takes minutes: its progress has to be seen
                tools = toolchain.ensure(CONTROL_PLANE)
            audited = ("admin", f"system:serviceaccount:{NAMESPACE}:{auditreports.NAME}")
            running = stack.enter_context(ControlPlane(tools, audited=audited))
            running.objects.apply(manifests.LASTING)
        except (ToolchainError, ComponentError) as error:
            failure = str(error)
        if failure:  # outside of the except clause, or the report shows the text twice
            pytest.fail(failure, pytrace=False)
        yield running


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """Make a Namespace of the test's own, with its service account; whatever runs in it is deleted afterwards.

    The Namespace itself stays to the end: to delete one takes the API server hundreds of requests.
    """
    name = f"test-{secrets.token_hex(4)}"
    control_plane.namespace(name)
    yield name
    control_plane.objects.delete_all(*_RUNNING, namespace=name)


@pytest.fixture(scope="module")
def caller(control_plane: ControlPlane) -> Iterator[Caller]:
    """A connection of the administrator, who may speak for everybody."""
    with Caller(control_plane) as connection:
        yield connection


@pytest.fixture(scope="session")
def service(control_plane: ControlPlane) -> Iterator[Service]:
    """Run the service, registered with the API server, for all tests that want it."""
    with registered(control_plane, exceptions=EXCEPTIONS, topology=dict(topologynodes.SETTINGS)) as running:
        yield running


@pytest.fixture(scope="session")
def judged() -> Iterator[ControlPlane]:
    """Run a control plane for services with policies that would refuse what other tests write, one after the other."""
    with ControlPlane(toolchain.ensure(CONTROL_PLANE)) as running:
        yield running


@pytest.fixture(scope="session")
def audited() -> Iterator[ControlPlane]:
    """Run a control plane for the chart: it writes down what the accounts of the chart do, and shows a certificate."""
    users = [f"system:serviceaccount:{release.NAMESPACE}:{account}" for account in release.ACCOUNTS]
    with ControlPlane(toolchain.ensure(CONTROL_PLANE), audited=users, presents_certificate=True) as running:
        running.namespace(load.NAMESPACE)
        yield running


@pytest.fixture(scope="session")
def site(audited: ControlPlane) -> Iterator[Release]:
    """Nodes, a balancer and a kubelet there, for one release after the other."""
    with Release(audited) as running:
        yield running


@pytest.fixture(scope="session")
def installed(site: Release) -> Release:
    """Install the chart there with its defaults and one policy."""
    site.values = {"policies": {"load.yaml": load.POLICIES}}
    site.install()
    site.wait_until_asked()
    return site


@pytest.fixture(scope="session")
def vacant(site: Release) -> Release:
    """The same without a release; tests that need this one come after those of the one that stays."""
    if site.control_plane.objects.find("deployment", release.NAME, "-n", release.NAMESPACE):
        site.uninstall()
    return site


@pytest.fixture(scope="session")
def topology_nodes(control_plane: ControlPlane, service: Service) -> Iterator[None]:
    """Make Nodes with the labels of networks, which the service knows; no Pods of other tests can run there."""
    del service
    with topologynodes.standing(control_plane):
        yield
