"""`python -m demur_train.refusals`: learns the refusal pack that ships, and says what it reaches on sets it never saw."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.detect.refusal.cues import Reader
from demur.text.normalise import view
from demur_train.data import DEFAULT_FOLDER, DataError, digest_of, verify
from demur_train.refusals.grammar import load_grammar
from demur_train.refusals.learn import INSTEAD_OF_COMPLIED, INSTEAD_OF_REFUSED, Learner, Model
from demur_train.refusals.pack import pack_bytes, untrained
from demur_train.refusals.report import report
from demur_train.refusals.sets import MEASURE, PINS, TRAIN, load_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur_train.refusals.grammar import Grammar

_SAMPLE = 1500
PACK = Path(__file__).resolve().parents[2] / "src" / "demur" / "detect" / "packs" / "refusals.json"


def main(argv: list[str] | None = None) -> int:
    """Train, judge with one set left out, write the pack and the report; return the exit code."""
    args = _parser().parse_args(argv)
    try:
        verify(args.data, PINS)
    except DataError as exc:
        print(f"demur_train: {exc}", file=sys.stderr)
        return 2
    grammar = load_grammar()
    empty = untrained(grammar)
    reader = Reader(empty)
    sets = {name: load_set(args.data, name, reader) for name in [*TRAIN, *MEASURE]}
    learner = Learner(grammar, sets, empty.feature_names)
    model = learner.learn(TRAIN)
    judged = {name: learner.judge(learner.learn(n for n in TRAIN if n != name), name) for name in TRAIN}
    judged |= {name: learner.judge(model, name) for name in MEASURE}
    lines = report(judged)
    print(lines)
    if args.report:
        args.report.write_text(lines + "\n", encoding="utf-8")
    if not args.dry_run:
        sample = [view(text).replace("\n", " ") for text in sets["arena"].texts[:_SAMPLE]]
        args.pack.write_bytes(_shipped(grammar, learner, model, empty.feature_names, data=args.data, sample=sample))
        print(f"\n{args.pack.name}: {args.pack.stat().st_size:,} bytes, {len(grammar.entries):,} phrases")
    return 0


def _shipped(
    grammar: Grammar, learner: Learner, model: Model, names: tuple[str, ...], *, data: Path, sample: Sequence[str]
) -> bytes:
    weights = dict(zip(names, model.head.weights.tolist(), strict=True))
    values = [round(float(value), 4) for value in model.partial.weights]
    count = len(learner.partial_names)
    partial: dict[str, Any] = {
        "bias": round(model.partial.bias, 4),
        "features": dict(zip(learner.partial_names, values[:count], strict=True)),
        "bands": values[count:],
        "instead_of_refused": INSTEAD_OF_REFUSED,
        "instead_of_complied": INSTEAD_OF_COMPLIED,
    }
    trained_on = {path: digest_of(data, path) for path, _ in TRAIN.values()}
    return pack_bytes(
        grammar,
        weights,
        bias=model.head.bias,
        calibration=model.calibration,
        partial=partial,
        trained_on=trained_on,
        sample=sample,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m demur_train.refusals", description=__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT_FOLDER, help="the folder of the labelled sets")
    parser.add_argument("--pack", type=Path, default=PACK, help="where the pack is written")
    parser.add_argument("--report", type=Path, help="write the tables to this file as well")
    parser.add_argument("--dry-run", action="store_true", help="judge, but write no pack")
    return parser


if __name__ == "__main__":
    sys.exit(main())
