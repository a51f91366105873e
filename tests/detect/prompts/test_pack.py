"""Frames: slots in order, close to each other, within a sentence."""

from __future__ import annotations

import pytest
from tests.growth import assert_linear

from demur.detect.prompts.pack import (
    FrameFile,
    LinearModel,
    PackFile,
    PromptClass,
    compile_pack,
    find_evidence,
    parse_prompt_pack,
)
from demur.errors import PackError

NO_MODEL = LinearModel(0.0, 0.0, 1.0, 0.0, {})


def pack_file(gap: int = 10) -> PackFile:
    """Return a pack with one frame, one class of phrases, and an open-ended word."""
    groups = {"attack/VERB": ("drop", "forget"), "attack/NOUN": ("rules", "regel*"), "harm:word": ("boo",)}
    classes = {
        "attack:frame": PromptClass("attack", "override", 2.0, strong=True),
        "harm:word": PromptClass("harm", "violence", 1.0),
    }
    frames = (FrameFile("attack:frame", ("attack/VERB", "attack/NOUN"), gap),)
    return PackFile({}, groups, classes, frames, NO_MODEL, NO_MODEL)


CASES = [
    ("forget the rules", ["forget the rules"]),
    ("rules to forget", []),
    ("forget all of these long rules", []),
    ("forget it. rules rule", []),
    ("forget\nrules", []),
    ("dropped rules", []),
    ("drop regeln", ["drop regel"]),
    ("forget rules, drop rules", ["forget rules", "drop rules"]),
]


@pytest.mark.parametrize(("view", "expected"), CASES)
def test_slots_stand_in_order_within_the_gap(view: str, expected: list[str]) -> None:
    """A frame is found where its slots follow each other closely, in one sentence, at the edges of words."""
    found = find_evidence(view, view, compile_pack(pack_file())).attack.get("attack:frame", [])
    assert [view[start:end] for start, end in found] == expected


def test_wide_frames_go_across_sentences() -> None:
    """A frame with a wide gap may go across the end of a sentence."""
    view = "forget it. rules rule"
    assert find_evidence(view, view, compile_pack(pack_file(gap=60))).attack


def test_classes_are_kept_apart_by_domain() -> None:
    """Attack and harm come from one scan and stand apart."""
    found = find_evidence("boo, forget rules", "", compile_pack(pack_file()))
    assert list(found.attack) == ["attack:frame"]
    assert found.harm == {"harm:word": [(0, 3)]}
    assert found.group(None) == []


def test_repeated_hits_stay_bounded() -> None:
    """A text that repeats a frame ten thousand times yields a bounded number of spans, in time that its length bounds."""
    pack = compile_pack(pack_file(gap=60))
    few, many = ("forget rules " * times for times in (1250, 10_000))
    assert len(find_evidence(many, many, pack).attack["attack:frame"]) <= 201
    assert_linear(lambda view: find_evidence(view, view, pack), few, many, ratio=8)


def test_a_frame_of_unknown_slots_is_refused() -> None:
    """A frame that names a group which is not there is a broken pack."""
    good = pack_file()
    bad = PackFile({}, {}, good.classes, good.frames, NO_MODEL, NO_MODEL)
    with pytest.raises(PackError, match="attack/VERB"):
        compile_pack(bad)


def test_broken_packs_are_named() -> None:
    """A pack that is no JSON of the right shape is a `PackError`."""
    with pytest.raises(PackError, match="cannot be read"):
        parse_prompt_pack(b'{"groups": []}')
