from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys

import webhook.cluster
from webhook.cluster.api.errors import ClusterError

MODULES = sorted(module.name for module in pkgutil.walk_packages(webhook.cluster.__path__, "webhook.cluster."))


def test_the_client_is_loaded_by_connecting_only() -> None:
    """The client's 16 MB are paid by whoever connects, not by whoever names another part of this package."""
    others = [module for module in MODULES if not module.startswith("webhook.cluster.api.client")]
    code = (
        f"import sys, {', '.join(others)}\n"
        "before = 'kubernetes' in sys.modules\n"
        "import webhook.cluster.api.client\n"
        "print(before, 'kubernetes' in sys.modules)"
    )

    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert printed == "False True\n"


def test_every_error_is_a_cluster_error() -> None:
    """Whoever catches ClusterError catches all errors of this package, and the tree that is drawn has them all."""
    found = {
        name
        for module in MODULES
        for name, thing in inspect.getmembers(importlib.import_module(module), inspect.isclass)
        if issubclass(thing, Exception) and thing.__module__.startswith("webhook.cluster")
    }
    errors = importlib.import_module("webhook.cluster.api.errors")

    assert found == {"ClusterError", "UnreachableError", "ApiError"}
    assert all(issubclass(getattr(errors, name), ClusterError) and name in (errors.__doc__ or "") for name in found)
