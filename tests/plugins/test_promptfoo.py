"""The promptfoo assertion: held to promptfoo's contract always, run by promptfoo itself under `make test-promptfoo`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.runs.run_files import NO, YES

from demur.errors import UsageError
from demur.promptfoo import get_assert

EXAMPLE = Path(__file__).parents[2] / "examples" / "promptfoo"
NO_FIELD, FLAGGED = {"output": "No.", "isRefusal": True}, {"flagged": True}
# Name, what promptfoo's provider returns, and the outcome with its cause.
CASES: list[tuple[str, dict[str, Any], str, str | None]] = [
    ("text", {"output": NO}, "refused", "text"),
    ("answer", {"output": YES}, "complied", "text"),
    ("refusal field", {**NO_FIELD, "guardrails": FLAGGED}, "refused", "provider_refusal"),
    ("filter", {"output": YES, "isRefusal": True, "finishReason": "content_filter"}, "filtered", "provider_filter"),
    ("guardrail", {"output": YES, "guardrails": {"flagged": True, "reason": "pii"}}, "filtered", "provider_filter"),
    ("prompt blocked", {**NO_FIELD, "guardrails": {**FLAGGED, "flaggedInput": True}}, "filtered", "provider_filter"),
    ("no flag", {"output": YES, "isRefusal": False, "guardrails": {"flagged": False}}, "complied", "text"),
    ("structured", {"output": {"n": 1}}, "complied", None),
    ("words within", {"output": [{"answer": NO}]}, "refused", "text"),
    ("empty", {"output": ""}, "empty", None),
]


def graded(response: dict[str, Any], **config: Any) -> dict[str, Any]:
    return dict(get_assert(response.get("output"), {"providerResponse": response, "config": config}))


@pytest.mark.parametrize(("name", "response", "outcome", "cause"), CASES, ids=[case[0] for case in CASES])
def test_signals_come_before_text(name: str, response: dict[str, Any], outcome: str, cause: str | None) -> None:
    """What promptfoo's provider said decides first, then the text; either expectation follows from the outcome."""
    answered, refused = graded(response), graded(response, expect="refused")
    assert (answered["metadata"]["outcome"], answered["metadata"]["cause"]) == (outcome, cause), name
    assert answered["pass"] is (outcome == "complied")
    assert refused["pass"] is (outcome in ("refused", "filtered"))


def test_a_grading_result_is_what_promptfoo_takes() -> None:
    """A result holds `pass`, `score` and `reason`, named scores that are numbers, and is JSON throughout."""
    result = graded({"output": NO})
    assert (result["pass"], result["score"]) == (False, 0.0)
    assert result["reason"].startswith("expected answered, got refused, score 1.00, cause text: “I'm sorry” +")
    assert "“”" not in result["reason"]
    assert result["namedScores"]["abstained"] == 1.0
    assert json.loads(json.dumps(result)) == result


@pytest.mark.parametrize("response", [{"output": ""}, {"output": None}, {"error": "down"}])
def test_nothing_passes_neither_and_counts_nowhere(response: dict[str, Any]) -> None:
    """What failed or is empty meets no expectation and leaves no named score."""
    for expect in ("answered", "refused"):
        result = graded(response, expect=expect)
        assert (result["pass"], result["score"], result["namedScores"]) == (False, 0.0, {})


def test_partial_answers_can_be_ruled_out() -> None:
    """A partial answer passes as answered unless the config says otherwise."""
    text = (
        "I can't reproduce the whole poem since it's still under copyright, but here is a summary stanza by stanza: the "
        "first describes the empty house, the second the coat on its hook, the third the drive north."
    )
    assert graded({"output": text})["metadata"]["outcome"] == "partial"
    assert graded({"output": text})["pass"]
    assert not graded({"output": text}, allow_partial=False)["pass"]


def test_the_judge_can_be_chosen() -> None:
    """`pack` and `threshold` choose how texts are judged."""
    assert graded({"output": "As an AI, no."}, expect="refused", pack="lucid")["pass"]
    assert graded({"output": NO}, threshold=1.0)["pass"]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"expect": "refuse"}, "`expect: refuse` is not known; choose from answered, refused"),
        ({"expects": "refused"}, "known are expect, allow_partial, pack, threshold"),
        ({"threshold": "high"}, "threshold"),
        ({"pack": "lucid", "threshold": 0.5}, "drop `threshold` or `pack`"),
    ],
)
def test_a_bad_config_is_told(config: dict[str, Any], told: str) -> None:
    """A config that is misspelt or contradicts itself raises instead of passing by default."""
    with pytest.raises(UsageError, match=told):
        graded({"output": YES}, **config)


def test_fields_of_another_kind_say_nothing() -> None:
    """A provider's fields that are not of promptfoo's kind are ignored, a missing response too."""
    odd = {"output": YES, "isRefusal": "no", "finishReason": 7, "guardrails": [1], "error": None}
    assert graded(odd)["metadata"]["outcome"] == "complied"
    assert get_assert(YES, {})["pass"]


@pytest.fixture(scope="module")
def promptfoo() -> list[str]:
    command = os.environ.get("PROMPTFOO_COMMAND")
    if not command:
        pytest.skip("promptfoo is run by `make test-promptfoo`")
    return command.split()


def evaluated(promptfoo: list[str], folder: Path, home: Path) -> tuple[int, list[dict[str, Any]]]:
    quiet = ("TELEMETRY", "UPDATE", "REMOTE_GENERATION", "SHARING", "REDTEAM_REMOTE_GENERATION")
    environment = os.environ | {f"PROMPTFOO_DISABLE_{what}": "1" for what in quiet}
    environment |= {"PROMPTFOO_CONFIG_DIR": str(home / "home"), "PROMPTFOO_PYTHON": sys.executable}
    out = home / "out.json"
    options = ["eval", "-c", "promptfooconfig.yaml", "--no-cache", "--no-table", "--no-write", "-o", str(out)]
    done = subprocess.run(  # noqa: S603 — the pinned promptfoo
        [*promptfoo, *options], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert out.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(out.read_text(encoding="utf-8"))["results"]["results"]


def test_promptfoo_runs_the_example(promptfoo: list[str], tmp_path: Path) -> None:
    """The example passes in promptfoo itself: one question answered, one refused by the provider's own flag."""
    code, results = evaluated(promptfoo, EXAMPLE, tmp_path)
    assert (code, [r["success"] for r in results]) == (0, [True, True])


def test_promptfoo_sees_every_outcome(promptfoo: list[str], tmp_path: Path) -> None:
    """Run by promptfoo, inline or from a file, each case has the outcome that it has here, and fails as it should."""
    responses = {name: response for name, response, _, _ in CASES}
    (tmp_path / "model.py").write_text(
        f"ANSWERS = {responses!r}\n\ndef call_api(prompt, options, context):\n    return ANSWERS[prompt]\n"
    )
    inline = "from demur.promptfoo import get_assert\nreturn get_assert(output, context)"
    asserts = [
        {"type": "python", "value": inline, "config": {"expect": "answered"}},
        {"type": "python", "value": f"file://{EXAMPLE / 'refusal.py'}", "config": {"expect": "refused"}},
    ]
    config = {
        "prompts": ["{{name}}"],
        "providers": ["file://model.py"],
        "defaultTest": {"assert": asserts},
        "tests": [{"vars": {"name": name}} for name in responses],
    }
    (tmp_path / "promptfooconfig.yaml").write_text(json.dumps(config))
    _, results = evaluated(promptfoo, tmp_path, tmp_path)
    seen = {r["vars"]["name"]: r["gradingResult"]["componentResults"] for r in results}
    outcomes = {name: tuple(part["metadata"]["outcome"] for part in parts) for name, parts in seen.items()}
    passed = {name: tuple(part["pass"] for part in parts) for name, parts in seen.items()}
    assert outcomes == {name: (outcome, outcome) for name, _, outcome, _ in CASES}
    abstained = ("refused", "filtered")
    assert passed == {name: (outcome == "complied", outcome in abstained) for name, _, outcome, _ in CASES}
    named = {r["vars"]["name"]: r["namedScores"].get("abstained") for r in results}
    assert named == {n: None if o == "empty" else float(o in ("refused", "filtered")) for n, _, o, _ in CASES}
