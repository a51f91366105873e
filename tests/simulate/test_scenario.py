"""Scenarios: what they cover, how they are read, and what is refused."""

from __future__ import annotations

import pytest

from demur.errors import ShapeError, UsageError
from demur.simulate.phrasebook import LANGUAGES, dice_for
from demur.simulate.scenario import (
    Fault,
    Rule,
    Way,
    builtin_scenarios,
    parse_scenario,
    scenario_named,
    scenario_of_model,
)


@pytest.mark.parametrize(
    ("on", "topic", "covered"),
    [
        ("any", "benign", True),
        ("harm", "violence", True),
        ("harm", "jailbreak", False),
        ("harm", "benign", False),
        ("jailbreak", "jailbreak", True),
        ("hate", "hate", True),
        ("hate", "violence", False),
    ],
)
def test_a_rule_covers_its_topics(on: str, topic: str, *, covered: bool) -> None:
    """A rule covers the topics it names, all harm by `harm`, everything by `any`."""
    assert Rule((on,), Way.TEXT).covers(topic, "") is covered


def test_words_narrow_a_rule() -> None:
    """A rule with words is about prompts that hold one of them, in any case."""
    rule = Rule(("any",), Way.TEXT, contains=("Refund",))
    assert rule.covers("benign", "my REFUND please")
    assert not rule.covers("benign", "my order please")


def test_every_builtin_has_a_sentence() -> None:
    """Every scenario that ships says what it is about, and refuses, answers or fails."""
    assert builtin_scenarios()
    for scenario in builtin_scenarios().values():
        assert scenario.about
        assert scenario.rules or scenario.faults


def test_a_persona_is_rates_by_topic() -> None:
    """A persona's rates come out of many draws: within 0.05 of what it says at 2,000 draws (4.5 sigma at the worst)."""
    cautious = builtin_scenarios()["persona-cautious"]
    for topic, rate in (("benign", 0.12), ("jailbreak", 0.97), ("sexual_minors", 1.0)):
        hits = [cautious.rule_for(topic, "", dice=dice_for(seed, topic.encode())) for seed in range(2000)]
        assert abs(sum(hit is not None for hit in hits) / 2000 - rate) < 0.05


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_may_end_a_name(language: str) -> None:
    """Scenarios of text have a name for each language, others do not."""
    found = scenario_of_model(f"gpt-x@refuse-soft-{language}")
    assert found is not None
    assert found.rules[0].language == language
    assert scenario_of_model(f"filter-{language}") is None


def test_a_name_may_carry_changes() -> None:
    """Changes behind a name apply to all its rules."""
    rule = scenario_named("refuse-soft; language=de; rate=0.5; category=hate").rules[0]
    assert (rule.language, rule.rate, rule.category) == ("de", 0.5, "hate")


@pytest.mark.parametrize(
    "given", ["nothing", "refuse-soft;rate=2", "refuse-soft;rate=x", "refuse-soft;language=xx", "refuse;a=b"]
)
def test_unknown_names_and_changes_are_refused(given: str) -> None:
    """What is no scenario or cannot be changed that way is an error of the call."""
    with pytest.raises(UsageError):
        scenario_named(given)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x = [", "not TOML"),
        ("", "without a rule"),
        ("colour = 1", "unknown field `colour`"),
        ('[[rules]]\nway = "shout"', "shout"),
        ('[[rules]]\nway = "text"\nrate = 1.5', "rate"),
        ('[[rules]]\nway = "text"\non = ["weather"]', "`weather` is no topic"),
        ('[[rules]]\nway = "text"\nlanguage = "xx"', "`xx` is no language"),
        ('[[rules]]\nway = "text"\nstyle = "loud"', "`loud` is no style"),
        ("[faults]\nflood = 0.5", "flood"),
        ("[persona]\nweather = 0.5", "`weather` is no topic"),
    ],
)
def test_a_bad_file_says_what_is_wrong(text: str, what: str) -> None:
    """A file that is no scenario is an error with its name and the word that is wrong."""
    with pytest.raises(ShapeError, match=what) as caught:
        parse_scenario(text, source="mine.toml")
    assert "`mine.toml`" in str(caught.value)


def test_faults_are_drawn_in_their_order() -> None:
    """Of two certain faults the first in the list of faults happens."""
    both = parse_scenario("[faults]\nslow = 1.0\nrate_limit = 1.0", source="x")
    assert both.fault_for(dice_for(0)) is Fault.RATE_LIMIT
