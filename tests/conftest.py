"""How the tests run: the same cases every time, unless more are asked for.

`HYPOTHESIS_PROFILE=wild make test` draws new cases; what it finds becomes a case of its own.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.register_profile("wild", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
