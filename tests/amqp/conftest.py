"""Generated examples are judged by what they show, not by how long a busy machine takes over them."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("warren", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("warren")
