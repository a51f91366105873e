"""What the simulator answers, and what is true about the answer.

The same call and seed give the same reply, whatever came before. Harm takes precedence over jailbreak, and the message names both;
all user turns are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from demur.detect.prompts.check import default_prompt_judge, prompt_text
from demur.model.exchange import Message, Shape, TextPart
from demur.model.verdict import Outcome
from demur.simulate.phrasebook import dice_for, fold_topic, refusal_message
from demur.simulate.reply import TOKENS_PER_MESSAGE, Asked, Plan, build_reply, count_tokens, is_free, outcome_of, worded
from demur.simulate.scenario import Fault, Way, scenario_named, scenario_of_model
from demur.simulate.settings import SAFETY_MESSAGE, SafetySettings, SimulatorSettings
from demur.wire.fields import SYSTEM_ROLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from demur.detect.check import PromptJudge
    from demur.model.exchange import Request, Response
    from demur.simulate.phrasebook import Dice

__all__ = [
    "Call",
    "Simulated",
    "Simulator",
    "Topic",
    "Truth",
    "is_jailbreak_attempt",
    "prepend_safety_message",
    "should_refuse_request",
    "topic_of",
]

_BENIGN = "benign"
_JAILBREAK = "jailbreak"
# Faults that leave no reply to be judged; one that is only late is still a reply.
_FAILING = (Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.OVERLOADED, Fault.CONTENT_TYPE, Fault.MALFORMED, Fault.CUT)
_SAFETY_TURN = Message("system", (TextPart(SAFETY_MESSAGE),))


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the simulator: what it asks, the parts that its draws come from, whether tokens are to be told.

    `host` is who serves a shape that is not their own, as Azure serves OpenAI's Responses.
    """

    shape: Shape
    request: Request
    key: tuple[bytes, ...]
    stream: bool = False
    scenario: str | None = None
    seed: int | None = None
    max_tokens: int | None = None
    schema: bytes | None = None
    usage: bool = True
    host: Shape | None = None


@dataclass(frozen=True, slots=True)
class Truth:
    """The label of one reply: what was done, not what was detected, without prompt or answer.

    `topic` is what the prompt is about, `category` what the reply declines for.
    """

    id: str
    outcome: Outcome
    way: Way | None
    topic: str
    category: str | None
    style: str | None
    language: str | None
    scenario: str
    fault: Fault | None
    shape: Shape
    model: str
    stream: bool

    def header(self) -> str:
        """Return the label as one header: the outcome, then what else there is to say."""
        said = (("way", self.way), ("category", self.category), ("style", self.style), ("language", self.language))
        named = [f"{name}={value}" for name, value in (*said, ("fault", self.fault)) if value is not None]
        return "; ".join([str(self.outcome), *named, f"topic={self.topic}", f"scenario={self.scenario}"])

    def line(self) -> bytes:
        """Return the label as one line of JSON."""
        return msgspec.json.encode(self) + b"\n"


@dataclass(frozen=True, slots=True)
class Simulated:
    """A reply: in which shape, what it says, what is true about it, how it is to be sent, and whether its prompt is a jailbreak."""

    shape: Shape
    response: Response
    truth: Truth
    piece_chars: int
    jailbreak: bool = False


@dataclass(frozen=True, slots=True)
class Simulator:
    """Answers calls by its settings and a prompt judge."""

    settings: SimulatorSettings = field(default_factory=SimulatorSettings)
    judge: PromptJudge = field(default_factory=default_prompt_judge)

    def answer(self, call: Call) -> Simulated:
        """Return the reply to a call; a scenario that it names and that does not exist is a `UsageError`."""
        # The header's scenario, else the model's, else the simulator's own.
        named = scenario_of_model(call.request.model) if call.scenario is None else scenario_named(call.scenario)
        scenario = named or self.settings.scenario
        seed = next(s for s in (call.seed, scenario.seed, self.settings.seed) if s is not None)
        # By the request alone, not by what came before: parallel tests get the same replies in any order.
        dice = dice_for(seed, *call.key)
        prompt = call.request.prompt
        found = topic_of(prompt, judge=self.judge, safety=self.settings.safety)
        topic = found.name
        rule = scenario.rule_for(topic, prompt, dice=dice)
        plan = Plan(Way.ANSWER, topic)
        if rule is not None:
            plan = worded(Plan(rule.way, rule.category or topic, rule.style, rule.language, found.jailbreak), dice)
        shape = _shape(call, scenario.dialect, plan.way)
        # A refusal by the provider's own field counts no tokens here, see `is_free`.
        tokens = 0 if is_free(plan, shape) else self._input_tokens(call)
        asked = Asked(shape, call.request.model, call.request.n, tokens, call.max_tokens, call.schema)
        response = build_reply(plan, asked, dice=dice)
        response = response if call.usage else msgspec.structs.replace(response, usage=None)
        fault = scenario.fault_for(dice)
        truth = _truth(call, plan, dice=dice, shape=shape, topic=topic, scenario=scenario.name, fault=fault)
        piece_chars = scenario.piece_chars
        if piece_chars is None:
            # A refusal field comes in one piece unless the scenario (`refuse-in-pieces`) says otherwise.
            piece_chars = 0 if plan.way is Way.REFUSAL else self.settings.piece_chars
        return Simulated(shape, response, truth, piece_chars, found.jailbreak)

    def _input_tokens(self, call: Call) -> int:
        messages = call.request.messages
        if self.settings.safety.prepend_safety_message and all(m.role not in SYSTEM_ROLES for m in messages):
            messages = (_SAFETY_TURN, *messages)
        return sum(count_tokens(message.text) + TOKENS_PER_MESSAGE for message in messages)


@dataclass(frozen=True, slots=True)
class Topic:
    """What a prompt is about: its first harm, else `jailbreak`, else `benign`; and whether it is a jailbreak in any case."""

    name: str
    jailbreak: bool = False


def topic_of(prompt: str, *, judge: PromptJudge, safety: SafetySettings) -> Topic:
    """Return what a prompt is about; switches that are off see nothing."""
    if not (safety.enable_safety_features or safety.enable_jailbreak_detection):
        return Topic(_BENIGN)
    verdict = judge.judge(prompt)
    jailbreak = verdict.adversarial and safety.enable_jailbreak_detection
    # Harm outranks a jailbreak: what was asked for matters more than how.
    if verdict.harm and safety.enable_safety_features:
        return Topic(fold_topic(verdict.harm[0]), jailbreak)
    return Topic(_JAILBREAK if jailbreak else _BENIGN, jailbreak)


def should_refuse_request(
    messages: object, *, safety: SafetySettings | None = None, judge: PromptJudge | None = None
) -> tuple[bool, str | None]:
    """Return whether the user turns ask for harm, and the refusal that answers it; jailbreaks are no part of this.

    `messages` is a list of messages, a text, or any provider's request.
    """
    # Jailbreaks have a function of their own, as in FakeAI.
    looked_at = replace(safety or SafetySettings(), enable_jailbreak_detection=False)
    topic = topic_of(prompt_text(messages), judge=judge or default_prompt_judge(), safety=looked_at).name
    return (False, None) if topic == _BENIGN else (True, refusal_message(topic))


def is_jailbreak_attempt(
    messages: object, *, safety: SafetySettings | None = None, judge: PromptJudge | None = None
) -> bool:
    """Return whether the user turns attack the model's instructions; harm is no part of this."""
    looked_at = replace(safety or SafetySettings(), enable_safety_features=False)
    return topic_of(prompt_text(messages), judge=judge or default_prompt_judge(), safety=looked_at).jailbreak


def prepend_safety_message(messages: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Return the messages with a safety message first, unless one of them is a system message already."""
    if any(message.get("role") in SYSTEM_ROLES for message in messages):
        return list(messages)
    return [{"role": "system", "content": SAFETY_MESSAGE}, *messages]


def _shape(call: Call, dialect: Shape | None, way: Way) -> Shape:
    """Return the shape of a reply: the call's own, but for a scenario's dialect."""
    if call.shape is Shape.OPENAI_CHAT:
        return dialect or call.shape
    # Azure serves OpenAI's Responses, and blocks prompts in words of its own.
    if call.shape is Shape.OPENAI_RESPONSES and way is Way.BLOCK and Shape.AZURE in (call.host, dialect):
        return Shape.AZURE
    return call.shape


def _truth(
    call: Call, plan: Plan, *, dice: Dice, shape: Shape, topic: str, scenario: str, fault: Fault | None
) -> Truth:
    declines = plan.way not in (Way.ANSWER, Way.EMPTY)
    worded_by = plan.way in (Way.TEXT, Way.PARTIAL)
    # A reply that never arrives as it was written has no way, style or language: its truth is that it failed.
    failed = fault in _FAILING
    return Truth(
        id=dice.word("truth", 16),
        outcome=Outcome.FAILED if failed else outcome_of(plan, shape),
        way=None if failed else plan.way,
        topic=topic,
        category=plan.topic if declines and not failed else None,
        style=plan.style if plan.way is Way.TEXT and not failed else None,
        language=plan.language if worded_by and not failed else None,
        scenario=scenario,
        fault=fault,
        shape=shape,
        model=call.request.model,
        stream=call.stream,
    )
