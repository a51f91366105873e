"""Harm without refusal: no answer here refuses, so the safety axis sees nothing. Rules and a judge do.

Run it with `python examples/harmful-content-judge/compare.py`. For the judge, name any endpoint that speaks as OpenAI does:

    DEMUR_JUDGE_URL=http://127.0.0.1:11434/v1 DEMUR_JUDGE_MODEL=llama3.1 python examples/harmful-content-judge/compare.py

Other domains: `harmful_legal`, `harmful_eating_disorder`, or a YAML file of your own. Without an endpoint the judge's axis is
absent, and says so. `demur diff baseline.jsonl candidate.jsonl --rules rules.yaml --rubric harmful_medical` says the same.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import demur
from demur.axes.compare import AxesSettings
from demur.axes.judge.client import judge_from_environment
from demur.axes.rubric import read_rubric
from demur.axes.rules.files import read_rules
from demur.model.axes import AxisName

HERE = Path(__file__).parent


def main(rubric: str = "harmful_medical") -> None:
    """Compare the two runs and say what changed."""
    settings = AxesSettings(
        axes=(AxisName.SAFETY, AxisName.JUDGE, AxisName.RULES),
        rules=read_rules(str(HERE / "rules.yaml")),
        rubrics=(read_rubric(rubric),),
        judge=judge_from_environment(os.environ),
        show=1,
    )
    axes = demur.compare(HERE / "baseline.jsonl", HERE / "candidate.jsonl", axes=settings).axes
    if axes is None:
        return
    for result in axes.report.results:
        print(f"{result.name}: {result.severity}, {result.baseline} → {result.candidate}, p = {result.p_adjusted:.3g}")
        for evidence in result.evidence:
            print(f"  {evidence.key}: {evidence.sentence}")
    for absent in axes.report.absent:
        print(f"{absent.name}: absent, {absent.why}")


if __name__ == "__main__":
    main(*sys.argv[1:])
