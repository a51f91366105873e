"""What all steps of `demur policy` share: how rules are loaded, and how a line, a number and a decision are written."""

from __future__ import annotations

import json
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from demur.model.claim import Decision
    from demur.policy.files import PolicyFiles
    from demur.policy.gate import PolicyGate

__all__ = ["ABOUT_PATHS", "counted", "decision_json", "loaded_gate", "print_json", "print_wrapped"]

_WIDTH = 80  # fixed, so that output in logs and in tests is the same everywhere
ABOUT_PATHS = """\
PATH is a .cedar file, a folder of them, or a pack that ships with
Demur: observe-only, block-attacks, strict.
"""


def loaded_gate(args: argparse.Namespace, paths: Iterable[str] | None = None) -> tuple[PolicyGate, PolicyFiles]:
    """Return the gate that a call names, and the files behind it."""
    from demur.policy.files import read_policies
    from demur.policy.gate import load_gate

    files = read_policies(list(paths or args.paths))
    return load_gate(files.sources, default=args.default, vocabulary=args.vocabulary), files


def decision_json(decision: Decision) -> dict[str, object]:
    """Return a decision as JSON writes it."""
    fired = [{"id": r.id, "decision": r.effect.word, "reason": r.reason, "place": r.place} for r in decision.rules]
    return {"decision": decision.effect.word, "fired": fired, "errors": list(decision.errors)}


def counted(number: int, noun: str, nouns: str | None = None) -> str:
    """Return a number and its noun."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def print_wrapped(text: str, indent: str = "  ") -> None:
    """Print a text in lines that fit a terminal."""
    lines = wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    lead = text[: len(text) - len(text.lstrip())]
    print("\n".join(lines) if not lead else "\n".join([lead + lines[0].lstrip(), *lines[1:]]))


def print_json(value: object) -> None:
    """Print one JSON object."""
    print(json.dumps(value, ensure_ascii=False, default=str))
