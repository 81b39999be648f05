"""Generated examples are judged by what they show, not by how long a busy machine takes over them."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Half as many where a person waits. Most tests here do this for each of sixty methods, and draw anew every time.
EXAMPLES = 100 if os.environ.get("CI") else 50

settings.register_profile("warren", max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("warren")
