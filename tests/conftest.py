"""What holds for all tests: how patient Hypothesis is, which share a process, which begin first and end together."""

import signal
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from support import groups
from support.packmodes import no_packs

# How long an example takes is the machine's affair, and the first text of all has Hypothesis read all of Unicode.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# What a shell runs in the background ignores Ctrl-C, and so would the commands that tests start and end by it.
signal.signal(signal.SIGINT, signal.default_int_handler)

__all__ = [
    "no_packs",
    "pytest_collection_modifyitems",
    "pytest_runtest_protocol",
    "pytest_xdist_make_scheduler",
]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, or one process is still at it when the others have nothing left to do."""
    items.sort(key=lambda item: groups.rank(item.nodeid))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    """End a control plane with the last test of its group: left running, it would take time from the others."""
    if nextitem is None or not groups.is_dear(item.nodeid):
        return None
    if groups.group(item.nodeid) == groups.group(nextitem.nodeid):
        return None
    return item.ihook.pytest_runtest_protocol(item=item, nextitem=None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run each group in one process, in the order of the collection, where `--dist loadgroup` asks for groups."""
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False
    scheduling = import_module("xdist.scheduler").LoadScopeScheduling(config, log)
    scheduling._split_scope = groups.group  # what it takes for one piece of work
    return scheduling
