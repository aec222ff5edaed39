"""What holds for all tests: how patient Hypothesis is."""

from hypothesis import HealthCheck, settings

# How long an example takes is the machine's affair, and the first text of all has Hypothesis read all of Unicode.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
