"""All faults, in the order of the table."""

from __future__ import annotations

from faults import crowds, evaluations, losses, reloads, watches
from faults.row import Fault

FAULTS: tuple[Fault, ...] = (
    evaluations.stall,
    crowds.large_reviews,
    crowds.slow_connections,
    crowds.out_of_descriptors,
    crowds.full_disk,
    crowds.unread_logs,
    reloads.policy_edits,
    reloads.policy_directory,
    losses.dying_worker,
    watches.cut_off,
    watches.gone,
    watches.restarted_api_server,
)
