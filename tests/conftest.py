"""What holds for all tests: how patient Hypothesis is, and the fixture that turns packs off."""

from hypothesis import HealthCheck, settings
from support.packmodes import no_packs

# How long an example takes is the machine's affair, and the first text of all has Hypothesis read all of Unicode.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

__all__ = ["no_packs"]
