"""Fixtures and assertions for pytest: did the model answer, or refuse? A simulator beside a test.

Whatever `demur.check` takes is taken here. A response that failed or is empty is neither an answer nor a refusal, so both
assertions fail on it. pytest loads this module at every start, so everything else is imported when a test needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.detect.check import TextJudge
    from demur.model.verdict import Verdict
    from demur.simulate.server.run import RunningSimulator

__all__ = [
    "RefusalCheck",
    "_demur_simulator_server",
    "assert_answered",
    "assert_refused",
    "demur_simulator",
    "refusal_check",
]

_COLUMNS = 76  # a failure's lines come after pytest's own margin
_MAY_BE_ALLOWED = ("partial", "unsure")
_WHAT_CAME = {
    "complied": "the model answered",
    "partial": "the model answered in part",
    "unsure": "the detector is unsure",
    "refused": "the model refused",
    "filtered": "a filter stepped in",
    "empty": "there is nothing to judge: the response is empty",
    "failed": "there is nothing to judge: the provider failed",
    "unread": "there is nothing to judge: the response could not be read",
}


@dataclass(frozen=True, slots=True)
class RefusalCheck:
    """Judges responses by one judge; what the fixture `refusal_check` gives."""

    judge: TextJudge | None = None

    def __call__(self, response: object) -> Verdict:
        """Return the verdict on a text, a dict or any provider's response object."""
        return self._judged(response)[0]

    def assert_answered(self, response: object, *, allow: Sequence[str] = ("partial",)) -> Verdict:
        """Return the verdict if the model answered; `allow` says what counts beside a complete answer."""
        __tracebackhide__ = True  # a failure shows the verdict and its evidence, none of our frames
        _check_words(allow, _MAY_BE_ALLOWED)
        verdict, text = self._judged(response)
        if verdict.outcome != "complied" and verdict.outcome not in allow:
            raise AssertionError(
                _failure_text(f"expected an answer, but {_WHAT_CAME[verdict.outcome]}", verdict, text=text)
            )
        return verdict

    def assert_refused(self, response: object, *, reason: str | None = None) -> Verdict:
        """Return the verdict where the model refused or a filter stepped in, for that reason if one is given."""
        __tracebackhide__ = True
        from demur.model.verdict import Reason

        _check_words([reason] if reason is not None else [], tuple(Reason))
        verdict, text = self._judged(response)
        if not verdict.abstained:
            raise AssertionError(
                _failure_text(f"expected a refusal, but {_WHAT_CAME[verdict.outcome]}", verdict, text=text)
            )
        if reason is not None and verdict.reason != reason:
            sentence = f"expected a refusal for `{reason}`, but the reason is `{verdict.reason}`"
            raise AssertionError(_failure_text(sentence, verdict, text=text))
        return verdict

    def _judged(self, response: object) -> tuple[Verdict, str]:
        """Return the verdict and the text that its spans count in."""
        __tracebackhide__ = True
        from demur.detect.check import as_exchange, check, classify_text

        if isinstance(response, str):
            return check(response, judge=self.judge), response
        return classify_text(as_exchange(response).response, judge=self.judge)


def assert_answered(
    response: object, *, allow: Sequence[str] = ("partial",), pack: str | None = None, threshold: float | None = None
) -> Verdict:
    """Return the verdict where the model answered; pytest's settings are the fixture's, not this function's."""
    __tracebackhide__ = True
    return _check_by(pack, threshold).assert_answered(response, allow=allow)


def assert_refused(
    response: object, *, reason: str | None = None, pack: str | None = None, threshold: float | None = None
) -> Verdict:
    """Return the verdict where the model refused or a filter stepped in, for that reason if one is given."""
    __tracebackhide__ = True
    return _check_by(pack, threshold).assert_refused(response, reason=reason)


@pytest.fixture(scope="session")
def refusal_check(pytestconfig: pytest.Config) -> RefusalCheck:
    """Judges responses by `demur_pack` and `demur_threshold`: call it for the verdict, or use its two assertions."""
    from demur.errors import DemurError, UsageError

    given = str(pytestconfig.getini("demur_threshold"))
    try:
        threshold = float(given) if given else None
        return _check_by(pytestconfig.getini("demur_pack") or None, threshold)
    except DemurError as exc:
        pytest.fail(f"demur: {exc}", pytrace=False)
    except ValueError:
        wrong = UsageError(f"`demur_threshold = {given}` is no number", hint="give a score, as 0.8")
        pytest.fail(f"demur: {wrong}", pytrace=False)


@pytest.fixture(scope="session")
def _demur_simulator_server() -> Iterator[RunningSimulator]:
    from demur.simulate.server.run import running_simulator

    with running_simulator() as running:
        yield running


@pytest.fixture
def demur_simulator(_demur_simulator_server: RunningSimulator) -> RunningSimulator:
    """A running simulator: `url`, `openai_url`, `environment()`, `truths`, `refuse_by("refuse-soft")`."""
    from demur.simulate.engine import Simulator

    # One server serves the whole session; every test finds it with default settings and no truths of another test.
    _demur_simulator_server.use(Simulator())
    return _demur_simulator_server


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings of the fixture."""
    parser.addini("demur_pack", "phrase pack that `refusal_check` judges by: shadow or lucid", default="")
    parser.addini("demur_threshold", "score from which on `refusal_check` calls an answer refused", default="")


# The functions are called per assertion, and loading the detector costs far more than a check.
@cache
def _check_by(pack: str | None, threshold: float | None) -> RefusalCheck:
    """Return the check with the judge that is asked for; one is built once."""
    from demur.plugins.judge import judge_by

    return RefusalCheck(judge_by(pack, threshold))


def _check_words(given: Sequence[str], words: Sequence[str]) -> None:
    """Raise where a word can never be met: a misspelt one would decide a test without a trace."""
    __tracebackhide__ = True
    from demur.errors import UsageError

    # A bare string is a sequence too: of letters, none of which is a word.
    strange = [word for word in given if word not in words]
    if strange:
        raise UsageError(f"`{strange[0]}` is not known here", hint=f"choose from {', '.join(words)}")


def _failure_text(sentence: str, verdict: Verdict, *, text: str) -> str:
    """Return what a failing test shows: the sentence, the verdict, the text with its evidence underlined."""
    from demur.report.columns import underline

    facts = [verdict.outcome.upper(), f"score {verdict.score:.2f}"]
    facts += [f"reason {verdict.reason}"] if verdict.reason else []
    facts += [f"cause {verdict.cause}"] if verdict.cause else []
    lines = []
    for signal in verdict.signals:
        more = (fact for fact in (signal.category, signal.severity) if fact and fact != signal.value)
        lines.append(", ".join([f"{signal.path} = {signal.value}", *more]))
    lines += underline(text, [f.span for f in verdict.findings], width=_COLUMNS)
    lines += [f"{f.weight:+.2f} {f.category}: {f.rule}" for f in verdict.findings]
    return "\n".join([sentence, "  ".join(facts), *(f"  {line}" for line in lines)])
