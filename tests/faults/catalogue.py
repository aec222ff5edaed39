"""All faults, in the order of the table."""

from __future__ import annotations

from faults import clocks, crowds, evaluations, hostile, references, releases, reloads, watches
from faults.row import Fault

FAULTS: tuple[Fault, ...] = (
    evaluations.stall,
    hostile.hostile,
    crowds.large_reviews,
    crowds.slow_connections,
    crowds.out_of_descriptors,
    crowds.full_disk,
    crowds.unread_logs,
    reloads.policy_edits,
    reloads.policy_directory,
    clocks.clock_ahead,
    clocks.certificate_from_the_future,
    references.parameters_150,
    references.parameters_1000,
    references.slow_access_reviews,
    references.failing_access_reviews,
    watches.cut_off,
    watches.gone,
    watches.restarted_api_server,
    releases.stopped_replica,
    releases.version_skew,
    releases.cold_start,
)
