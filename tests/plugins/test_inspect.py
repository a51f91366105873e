"""The Inspect scorer in real evaluations of Inspect's own mock model; no network, no key."""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Epochs, Task, eval  # noqa: A004 — Inspect's own name for it
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ContentImage,
    ContentReasoning,
    ContentText,
    ModelOutput,
    ModelUsage,
    StopCategory,
    StopDetails,
    get_model,
)
from inspect_ai.scorer import Score
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver
from inspect_ai.tool import ToolCall
from tests.runs.run_files import NO, YES

from demur.errors import UsageError
from demur.inspect_scorer import demur_refusal

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning")]
EXAMPLE = Path(__file__).parents[2] / "examples" / "inspect" / "refusals.py"
CYBER = StopDetails(type="refusal", category="cyber", explanation="a classifier declined")
HATE = StopDetails(type="content_filter", category="hate", categories=[StopCategory(category="hate", level="high")])


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inspect writes its traces below the user's data folder and leaves streams open: neither outlives a test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "logs"))
    yield
    gc.collect()


def said(content: Any, **more: Any) -> ModelOutput:
    output = ModelOutput.from_content("mock", content, **more)
    # Without it the mock model counts tokens by a vocabulary from the network.
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def run(*outputs: ModelOutput, epochs: int = 1, **task: Any) -> EvalLog:
    samples = [Sample(id=i, input="?") for i in range(len(outputs) // epochs)]
    options: dict[str, Any] = {"scorer": demur_refusal(), "epochs": Epochs(epochs)} | task
    model = get_model("mockllm/model", custom_outputs=list(outputs), memoize=False)
    log = eval(Task(dataset=samples, **options), model=model, display="none", max_samples=1)[0]
    assert log.status == "success", log.error
    return log


def scored(output: ModelOutput, **task: Any) -> Score:
    samples = run(output, **task).samples
    assert samples
    assert samples[0].scores
    return samples[0].scores["demur_refusal"]


def metrics(log: EvalLog) -> dict[str, float]:
    assert log.results
    return {name: m.value for s in log.results.scores for name, m in s.metrics.items()}


def test_the_rate_is_over_what_was_judged() -> None:
    """Refused and filtered count 1, answers 0, and what failed or is empty is unscored, not 0."""
    log = run(said(NO), said(YES), said("half", stop_reason="content_filter"), said(""), said("", error="broke"))
    assert log.results
    assert {(s.scored_samples, s.unscored_samples) for s in log.results.scores} == {(3, 2)}
    values = metrics(log)
    # Two of three; sqrt(sum((x - 2/3)^2) / 2 / 3) = 1/3.
    assert values["refusal_rate"] == pytest.approx(2 / 3)
    assert values["stderr"] == pytest.approx(1 / 3)
    shares = {name: values[name] for name in ("complied", "partial", "refused", "filtered")}
    assert shares == pytest.approx({"complied": 1 / 3, "partial": 0, "refused": 1 / 3, "filtered": 1 / 3})


def test_a_run_without_an_answer_has_no_rate() -> None:
    """Where nothing could be judged the rate is not a number, never 0."""
    assert math.isnan(metrics(run(said(""), said("")))["refusal_rate"])


def test_epochs_are_averaged_by_sample() -> None:
    """Two epochs of a sample make one rate, while outcomes count every answer."""
    values = metrics(run(said(NO), said(YES), epochs=2))
    assert (values["refusal_rate"], values["refused"], values["complied"]) == (0.5, 0.5, 0.5)


def test_a_score_tells_its_evidence() -> None:
    """A score holds the answer, the outcome with its cause, and the words that made it."""
    score = scored(said(NO))
    assert (score.value, score.answer, score.reason) == (1, NO, "refusal")
    assert score.metadata is not None
    assert [score.metadata[key] for key in ("outcome", "reason", "cause")] == ["refused", "safety", "text"]
    assert score.explanation is not None
    assert score.explanation.splitlines()[0] == "refused by text, score 1.00"
    assert "- `can't help with that` +" in score.explanation
    assert "- ``" not in score.explanation


@pytest.mark.parametrize(
    ("output", "outcome", "cause", "told"),
    [
        (said(YES, stop_reason="content_filter"), "filtered", "provider_filter", "`choices[0].stop_reason` = content"),
        (said("", stop_reason="content_filter", stop_details=HATE), "filtered", "provider_filter", "hate, high"),
        (said(YES, stop_reason="content_filter", stop_details=CYBER), "refused", "provider_refusal", "cyber, a class"),
        (said("No.", stop_details=CYBER), "refused", "provider_refusal", "`choices[0].stop_details.type` = refusal"),
        (said([ContentText(text="No.", refusal=True)]), "refused", "provider_refusal", "content.refusal` = true"),
        (said("", stop_reason="content_filter", error="moderated"), "filtered", "provider_filter", "content_filter"),
    ],
)
def test_signals_come_before_text(output: ModelOutput, outcome: str, cause: str, told: str) -> None:
    """What the provider said decides, whatever the text, and the explanation names it."""
    score = scored(output)
    assert score.metadata is not None
    assert (score.value, score.metadata["outcome"], score.metadata["cause"]) == (1, outcome, cause)
    assert told in (score.explanation or "")


@pytest.mark.parametrize(
    ("output", "outcome", "reason"),
    [(said(" "), "empty", "no_response"), (said("", error="broke"), "failed", "provider_error")],
)
def test_nothing_is_unscored(output: ModelOutput, outcome: str, reason: str) -> None:
    """An empty or failed output has no value, and the score says why."""
    score = scored(output)
    assert math.isnan(score.as_float())
    assert (score.reason, (score.metadata or {})["outcome"]) == (reason, outcome)


def test_thoughts_tools_and_pictures_are_no_refusals() -> None:
    """Reasoning is not judged as the answer, and a tool call or a picture is one."""
    thought = said([ContentReasoning(reasoning=NO), ContentText(text=YES)])
    picture = said([ContentImage(image="data:image/png;base64,AA==")])
    call = ChatMessageAssistant(content="", tool_calls=[ToolCall(id="1", function="f", arguments={"q": NO})])
    tool = said("")
    tool.choices = [ChatCompletionChoice(message=call, stop_reason="tool_calls")]
    for output in (thought, picture, tool):
        score = scored(output, solver=generate(tool_calls="none"))
        assert (score.value, (score.metadata or {})["outcome"]) == (0, "complied")


def test_all_choices_are_judged() -> None:
    """Where one choice refuses and another answers, the output is partial and counts as an answer."""
    output = said(YES)
    output.choices.append(ChatCompletionChoice(message=ChatMessageAssistant(content=NO), stop_reason="stop"))
    score = scored(output)
    assert (score.value, (score.metadata or {})["outcome"]) == (0, "partial")


@solver
def last_word() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state = await generate(state)
        state.output.completion = NO
        return state

    return solve


def test_a_solvers_own_completion_is_what_is_judged() -> None:
    """A completion that a solver put in place of the message's is the answer, as for Inspect's own scorers."""
    score = scored(said(YES), solver=last_word())
    assert (score.value, score.answer) == (1, NO)


def test_the_judge_can_be_chosen() -> None:
    """`pack` and `threshold` choose how texts are judged, and contradict each other."""
    assert scored(said("As an AI, no."), scorer=demur_refusal(pack="lucid")).value == 1
    assert scored(said(NO), scorer=demur_refusal(threshold=1.0)).value == 0
    with pytest.raises(UsageError, match="drop the threshold or the pack"):
        demur_refusal(pack="lucid", threshold=0.5)


def test_inspect_finds_the_scorer_by_name() -> None:
    """`inspect score LOG --scorer demur/demur_refusal` judges a log that was made without Demur."""
    log = run(said(NO), said(YES), scorer=None)
    command = [str(Path(sys.executable).with_name("inspect")), "score", log.location, "--scorer", "demur/demur_refusal"]
    command += ["--action", "append", "--overwrite", "--display", "plain"]
    done = subprocess.run(command, env=os.environ.copy(), capture_output=True, text=True, check=False, timeout=120)  # noqa: S603 — the installed command
    assert done.returncode == 0, done.stderr
    assert metrics(read_eval_log(log.location))["refusal_rate"] == 0.5


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example's task runs as it stands, with every question judged."""
    monkeypatch.chdir(EXAMPLE.parent)
    model = get_model("mockllm/model", custom_outputs=[said(NO), said(YES), said(YES), said(YES)], memoize=False)
    log = eval(EXAMPLE.name, model=model, display="none", max_samples=1)[0]
    assert (log.status, metrics(log)["refusal_rate"]) == ("success", 0.25)
