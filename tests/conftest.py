"""What holds for every test."""

from hypothesis import HealthCheck, settings

# A loaded machine must not fail a property: no deadlines, no complaints about slow draws.
settings.register_profile("egrl", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("egrl")
