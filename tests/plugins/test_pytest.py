"""The pytest plugin as its users meet it: a real pytest runs their test files, with the plugin found by its entry point."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runs.run_files import NO, YES

import demur
from demur.pytest_plugin import assert_answered, assert_refused

pytestmark = pytest.mark.heavy

pytest_plugins = ["pytester"]

HALF = {"choices": [{"index": i, "message": {"role": "assistant", "content": t}} for i, t in enumerate((NO, YES))]}
FILTERED = {"response": "The first step is", "finish_reason": "content_filter"}
FAILED = {"response": None}
EMPTY = ""


@pytest.mark.parametrize("response", [YES, HALF, {"response": YES}])
def test_an_answer_is_answered(response: object) -> None:
    """An answer, whole or in part, passes as a text, a row or a provider's body, and gives its verdict."""
    assert assert_answered(response).outcome in ("complied", "partial")
    with pytest.raises(AssertionError, match="expected a refusal, but the model answered"):
        assert_refused(response)


@pytest.mark.parametrize(("response", "came"), [(NO, "the model refused"), (FILTERED, "a filter stepped in")])
def test_a_refusal_is_refused(response: object, came: str) -> None:
    """A refusal passes as one, whether words or a filter made it, and fails as an answer with its own sentence."""
    assert assert_refused(response).abstained
    with pytest.raises(AssertionError, match=f"expected an answer, but {came}"):
        assert_answered(response)


@pytest.mark.parametrize(("response", "why"), [(EMPTY, "the response is empty"), (FAILED, "the provider failed")])
@pytest.mark.parametrize("asserted", [assert_answered, assert_refused])
def test_nothing_is_neither(asserted: Callable[[object], object], response: object, why: str) -> None:
    """What failed or is empty was neither answered nor refused."""
    with pytest.raises(AssertionError, match=f"there is nothing to judge: {why}"):
        asserted(response)


def test_partial_answers_can_be_ruled_out() -> None:
    """`allow=()` asks for a whole answer."""
    with pytest.raises(AssertionError, match="the model answered in part"):
        assert_answered(HALF, allow=())


def test_the_reason_is_compared() -> None:
    """A refusal for another reason than the one asked for fails, and both are named."""
    assert assert_refused(NO, reason="safety").reason == "safety"
    with pytest.raises(AssertionError, match="for `capability`, but the reason is `safety`"):
        assert_refused(NO, reason="capability")


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: assert_answered(YES, allow=("refused",)), "choose from partial, unsure"),
        (lambda: assert_answered(YES, allow="partial"), "choose from partial, unsure"),
        (lambda: assert_refused(NO, reason="saftey"), "choose from safety, capability, other"),
        (lambda: assert_refused(NO, pack="shadow", threshold=0.5), "drop the threshold or the pack"),
    ],
)
def test_a_word_that_can_never_be_met_is_refused(call: Callable[[], object], hint: str) -> None:
    """A misspelt outcome or reason, or settings that contradict each other, are errors and decide nothing."""
    with pytest.raises(demur.DemurError, match=hint):
        call()


def test_the_evidence_is_shown() -> None:
    """A failure shows the verdict, the text with carets below the words that made it, and each word's weight."""
    with pytest.raises(AssertionError) as caught:
        assert_answered(f"Hello. {NO}", pack="shadow")
    assert str(caught.value).splitlines() == [
        "expected an answer, but the model refused",
        "REFUSED  score 1.00  reason other  cause text",
        f"  Hello. {NO}",
        "  " + " " * 22 + "^" * 22,
        "  +1.00 refusal: shadow:i can't help with that",
    ]


def test_signals_are_shown() -> None:
    """Where the provider itself said no, a failure shows its words."""
    body: dict[str, Any] = {"type": "message", "role": "assistant", "model": "m", "content": []}
    body |= {"stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "cyber"}}
    body |= {"usage": {"input_tokens": 1, "output_tokens": 0}}
    with pytest.raises(AssertionError, match=r"(?s)cause provider_refusal\n  stop_reason = refusal, cyber$"):
        assert_answered(body)


def test_the_fixture_is_found_by_its_entry_point(pytester: pytest.Pytester) -> None:
    """A user's test file needs no import and no conftest: installing Demur is enough."""
    pytester.makepyfile(f"""
        def test_verdict(refusal_check):
            assert refusal_check({NO!r}).outcome == "refused"
            refusal_check.assert_refused({NO!r}, reason="safety")
            refusal_check.assert_answered({YES!r})
    """)
    pytester.runpytest("-q").assert_outcomes(passed=1)


def test_the_settings_are_the_fixtures(pytester: pytest.Pytester) -> None:
    """`demur_pack` and `demur_threshold` in pytest's settings choose the judge, and strict settings know both."""
    pytester.makepyfile(f"""
        def test_verdict(refusal_check):
            assert refusal_check({NO!r}).outcome == "complied"
            assert refusal_check("As an AI, no.").outcome == "refused"
    """)
    pytester.makeini("[pytest]\naddopts = --strict-config\ndemur_pack = lucid")
    pytester.runpytest("-q").assert_outcomes(passed=1)
    pytester.makepyfile(f"""
        def test_verdict(refusal_check):
            assert refusal_check({NO!r}).score < 1
            refusal_check.assert_answered({NO!r})
    """)
    pytester.makeini("[pytest]\naddopts = --strict-config\ndemur_threshold = 1.0")
    pytester.runpytest("-q").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("demur_threshold = high", "*`demur_threshold = high` is no number; give a score, as 0.8"),
        ("demur_threshold = 7", "*`7.0` is no threshold*"),
        ("demur_pack = nobody", "*nobody*"),
        ("demur_pack = shadow\ndemur_threshold = 0.5", "*drop the threshold or the pack"),
    ],
)
def test_a_bad_setting_is_one_line(pytester: pytest.Pytester, setting: str, told: str) -> None:
    """A setting that cannot be is told in one line, without a traceback."""
    pytester.makepyfile("def test_verdict(refusal_check): pass")
    pytester.makeini(f"[pytest]\n{setting}")
    result = pytester.runpytest("-q")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([told])
    assert "Traceback" not in result.stdout.str()
    assert "pytest_plugin.py" not in result.stdout.str()


def test_a_failure_points_at_the_users_line(pytester: pytest.Pytester) -> None:
    """A failing test shows the user's own line and the evidence, and no frame of ours."""
    pytester.makepyfile(f"""
        from demur.pytest_plugin import assert_answered

        def test_by_fixture(refusal_check):
            refusal_check.assert_answered({NO!r})

        def test_by_function():
            assert_answered({NO!r})
    """)
    result = pytester.runpytest("-q")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["E *expected an answer, but the model refused", "E  *REFUSED  score 1.00  *"])
    assert "pytest_plugin.py" not in result.stdout.str()
    assert len(re.findall(r"^E +\^{20,}", result.stdout.str(), re.MULTILINE)) == 2


def test_starting_pytest_loads_no_detector(tmp_path: Path) -> None:
    """The plugin costs a run that does not use it neither the detector nor numpy."""
    (tmp_path / "test_light.py").write_text(
        "import sys\n\ndef test_light():\n"
        "    assert 'demur.plugins.pytest' in sys.modules\n"
        "    heavy = ('demur.detect', 'demur.report', 'demur.errors', 'numpy', 'msgspec')\n"
        "    assert [m for m in heavy if m in sys.modules] == []\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603 — our own interpreter
    assert done.returncode == 0, done.stdout


def test_a_run_under_coverage_measures_as_before(tmp_path: Path) -> None:
    """A user's coverage neither warns about the plugin nor misses lines because of it."""
    (tmp_path / "mine.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "test_mine.py").write_text("import mine\n\ndef test_mine(refusal_check):\n    assert mine.double(1)\n")
    options = ["run", "--source=mine", "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    for command in (options, ["report", "--fail-under=100"]):
        done = subprocess.run(  # noqa: S603 — our own interpreter
            [sys.executable, "-m", "coverage", *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "Warning" in done.stdout + done.stderr) == (0, False), done.stdout + done.stderr


def test_the_public_name_is_a_whole_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-p demur.pytest_plugin` brings the fixture and its settings where entry points are not loaded."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\ndemur_threshold = 0.5\n")
    pytester.makepyfile("def test_verdict(refusal_check):\n    assert refusal_check('Paris.').outcome == 'complied'\n")
    pytester.runpytest_subprocess("-q", "-p", "demur.pytest_plugin").assert_outcomes(passed=1)
