"""Benchmarks' answers beyond the table of examples.

The forms are those of the sources: FastChat (`fastchat/llm_judge/gen_api_answer.py` at 00bb41f), arena-hard-auto 0.1 (`gen_answer.py` at
01109e9) and 2.0 (the same script in `lmarena/arena-hard-auto`, and the answers published with it), JailbreakBench (`AttackArtifact`, and
the published artifacts), HELM (`request_state.py` at 317976a, `helm/common/request.py` at 05a0c7c and since), HH-RLHF (the data set's rows).
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.formats import examples_benchmarks as made
from tests.formats.example import ANSWER, QUESTION, REFUSAL, answer_of, read_all, read_one

from demur.detect.check import classify
from demur.errors import ShapeError
from demur.model.run import Skipped, Traced


def outcomes(name: str, *records: dict[str, Any]) -> list[str]:
    return [str(classify(r.exchange.response).outcome) for r in read_all(name, records) if isinstance(r, Traced)]


def test_each_turn_is_an_exchange() -> None:
    """A question's turns are exchanges of their own, paired by question and turn, and one cluster."""
    rows = [row for row in read_all("mt-bench", [made.turns(ANSWER, REFUSAL)]) if isinstance(row, Traced)]
    assert [(row.exchange.id, row.exchange.session) for row in rows] == [("81:1", "81"), ("81:2", "81")]
    assert [str(classify(row.exchange.response).outcome) for row in rows] == ["complied", "refused"]
    assert rows[1].fields == (("model", "m"), ("day", "2023-11-14"), ("turn", "2"))


def test_each_choice_is_read() -> None:
    """Several samples of a question are exchanges of the same key."""
    choices = [{"index": at, "turns": [text]} for at, text in enumerate((ANSWER, REFUSAL))]
    rows = read_all("mt-bench", [made.turns(choices=choices)])
    assert [row.exchange.id for row in rows if isinstance(row, Traced)] == ["81:1", "81:1"]
    assert outcomes("mt-bench", made.turns(choices=choices)) == ["complied", "refused"]


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("mt-bench", made.turns(*[REFUSAL] * 2)),
        ("arena-hard", made.turns(*[{"content": REFUSAL, "token_len": 7}] * 2)),
        ("arena-hard", made.turns(*[{"content": {"answer": REFUSAL}}] * 2)),
        ("arena-hard", made.arena({"answer": REFUSAL})),
        ("arena-hard", made.arena(REFUSAL)),
    ],
)
def test_a_refusal_is_never_missed(name: str, record: dict[str, Any]) -> None:
    """A refusal in place of any answer is read as one, in each form that the two benchmarks have had."""
    assert set(outcomes(name, record)) == {"refused"}


def test_a_question_without_turns_is_skipped() -> None:
    """A row that has no turn is counted as skipped."""
    assert read_all("mt-bench", [made.turns()]) == [Skipped("an answer without turns")]


def test_an_attack_without_a_prompt_asked_nothing() -> None:
    """A behaviour for which the attack found no prompt is skipped, since no model was asked."""
    assert read_all("jailbreakbench", [made.jailbreak(None, None)]) == [Skipped("a behaviour without a prompt")]


def test_an_artifact_says_what_was_attacked() -> None:
    """Model, category, method and day are fields of each behaviour; its texts are not."""
    fields = dict(read_one("jailbreakbench", made.jailbreak()).fields)
    assert {name: fields[name] for name in ("model", "category", "method", "day", "jailbroken")} == {
        "model": "m",
        "category": "Physics",
        "method": "GCG",
        "day": "2024-03-18",
        "jailbroken": "false",
    }
    assert not {"goal", "prompt", "response"} & fields.keys()


def test_a_pair_says_which_side_was_read() -> None:
    """Only the chosen side is read, and the row's field says so."""
    traced = read_one("preference", made.preferred("Hello.", "Hi.", QUESTION, REFUSAL))
    assert traced.fields == (("side", "chosen"),)
    assert traced.exchange.request is not None
    assert [message.role for message in traced.exchange.request.messages] == ["user", "assistant", "user"]
    assert outcomes("preference", made.preferred("Hello.", "Hi.", QUESTION, REFUSAL)) == ["refused"]


def test_a_text_of_another_kind_is_no_preference() -> None:
    """A chosen text that is no transcript and has no prompt beside it is an error."""
    with pytest.raises(ShapeError, match="`chosen`: expected a conversation"):
        read_all("preference", [{"chosen": "Yes.", "rejected": "No."}])


def test_completions_are_choices() -> None:
    """Several completions of one request are the choices of one response, thoughts not among their texts."""
    state = made.helm(ANSWER, REFUSAL)
    state["request_states"][0]["result"]["completions"][0]["thinking"] = {"text": REFUSAL}
    assert [choice.text for choice in answer_of("helm", state).choices] == [ANSWER, REFUSAL]
    assert outcomes("helm", state) == ["partial"]


def test_a_request_for_probabilities_is_no_answer() -> None:
    """A request that only scores a given text is skipped."""
    state = made.helm(ANSWER)
    state["request_states"][0]["request"] |= {"max_tokens": 0, "echo_prompt": True}
    assert read_all("helm", [state]) == [Skipped("a request for no answer")]


def test_a_perturbed_instance_is_another_question() -> None:
    """The key of a perturbed instance names the perturbation, and its cluster is the instance."""
    state = made.helm(ANSWER)
    state["request_states"][0]["instance"]["perturbation"] = {"name": "typos"}
    exchange = read_one("helm", state).exchange
    assert (exchange.id, exchange.session) == ("id7:typos", "id7")


def test_a_request_that_was_not_run_is_missing() -> None:
    """A request without a result has no response."""
    state = made.helm()
    state["request_states"][0]["result"] = None
    assert read_one("helm", state).exchange.response is None
