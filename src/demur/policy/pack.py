"""The policy packs that ship with Demur, by name."""

from __future__ import annotations

from importlib import resources

from demur.errors import PolicyError
from demur.policy.rules import nearest
from demur.policy.tokens import PolicySource

__all__ = ["POLICY_PACKS", "builtin_policies"]

POLICY_PACKS = ("observe-only", "block-attacks", "strict")


def builtin_policies(name: str) -> PolicySource:
    """Return a pack's text; raise `PolicyError` for a name that is none."""
    if name not in POLICY_PACKS:
        near = nearest(name, POLICY_PACKS)
        hint = f"did you mean `{near}`?" if near else f"choose {', '.join(POLICY_PACKS)}, or name a file"
        raise PolicyError(f"no policy pack and no file is called `{name}`", hint=hint)
    text = resources.files("demur.policy.packs").joinpath(f"{name}.cedar").read_text(encoding="utf-8")
    return PolicySource(f"{name}.cedar", text)
