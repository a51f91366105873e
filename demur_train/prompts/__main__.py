"""Trains the pack for prompts: `python -m demur_train.prompts [--data FOLDER] [--report FILE] [--pack FILE]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur_train.data import DEFAULT_FOLDER, DataError, verify
from demur_train.prompts.report import brier, lines, markdown
from demur_train.prompts.sets import PINS, read_examples
from demur_train.prompts.train import make_pack, open_lab

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from demur.detect.prompts.pack import Domain, LinearModel

    Floats = NDArray[np.float64]

PACK = Path(__file__).resolve().parents[2] / "src" / "demur" / "detect" / "packs" / "prompts.json"


def main() -> None:
    """Verify the inputs, fit, write the pack, and report on sets left out."""
    options = _options()
    try:
        verify(options.data, PINS)
        lab = open_lab(read_examples(options.data))
    except DataError as exc:
        sys.exit(f"error: {exc}")
    margins: dict[Domain, Floats] = {"attack": lab.left_out_margins("attack"), "harm": lab.left_out_margins("harm")}
    attack, harm = lab.calibrated("attack", margins["attack"]), lab.calibrated("harm", margins["harm"])
    written = msgspec.json.encode(make_pack(lab.grammar, attack, harm))
    options.pack.write_bytes(written + b"\n")
    models: dict[Domain, LinearModel] = {"attack": attack, "harm": harm}
    scores = [
        f"Brier score of {domain}, sets left out: {brier(lab, domain, margins=margins[domain], model=model):.3f}"
        for domain, model in models.items()
    ]
    report = "\n".join([markdown(lines(lab, margins)), "", *scores, f"pack: {len(written)} bytes", ""])
    if options.report is None:
        sys.stdout.write(report)
    else:
        options.report.write_text(report, encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demur_train.prompts", description="Trains the pack for prompts.")
    parser.add_argument("--data", type=Path, default=DEFAULT_FOLDER, help="the folder of the labelled sets")
    parser.add_argument("--report", type=Path, help="where the table goes; the terminal if not given")
    parser.add_argument("--pack", type=Path, default=PACK, help="where the pack goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
