"""Auditors written for Lucid run unchanged: `lucid_auditor_sdk` is answered by Demur's own kit.

    python -m demur.plugins.lucid safety_auditor.py

or `import demur.plugins.lucid` before the auditor's own imports. Nothing is registered until one of them is done, and a package that is
really called `lucid_auditor_sdk`, where it is installed, is left alone.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path
from types import ModuleType

from demur.audit.kit import serve
from demur.audit.sdk import ClaimsAuditor, claims
from demur.model.claim import Claim, ClaimType, Phase

__all__ = ["SDK_NAME", "install"]

SDK_NAME = "lucid_auditor_sdk"
"""What auditors written for Lucid import."""
_KIT = {each.__name__: each for each in (Claim, ClaimType, ClaimsAuditor, Phase, claims, serve)}


def install() -> ModuleType:
    """Register our kit under the name of Lucid's, and return what is registered there."""
    if SDK_NAME not in sys.modules and importlib.util.find_spec(SDK_NAME) is not None:
        return importlib.import_module(SDK_NAME)
    if SDK_NAME not in sys.modules:
        module = ModuleType(SDK_NAME, "Demur's auditing kit under the name of Lucid's.")
        vars(module).update(_KIT, __all__=sorted(_KIT))
        sys.modules[SDK_NAME] = module
    return sys.modules[SDK_NAME]


install()

if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit("usage: python -m demur.plugins.lucid FILE")
    # As `python FILE` does: the file is the program, with its own arguments, and finds the modules beside it.
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
