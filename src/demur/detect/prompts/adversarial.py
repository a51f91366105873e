"""Is this prompt an attack on the model's instructions, and how many distinct attacks is it?

Classes of the pack say what stands in the text; cues say how: whether a persona is set up late, whether harm comes in a
frame of fiction, whether all there is are persona words that harmless prompts use as well.

Laws: words of persona and fiction alone weigh little; an attack that is only quoted in a question about it is none; a
*distinct attack* is a family of which a strong class is found, a demand for a secret in the same sentence as an override is
that override's aim, and a flagged prompt without a strong class counts one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from demur.detect.prompts import cues
from demur.detect.prompts.frames import class_features, score

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.detect.prompts.frames import Evidence, PromptScore, Spans
    from demur.detect.prompts.pack import PromptPack

__all__ = ["SUFFIX", "UNNAMED", "attack_features", "attack_score", "distinct_attacks"]

# The family of optimised suffixes, and the one of attacks that no strong class names.
SUFFIX, UNNAMED = "suffix", "unnamed"

_POINTED = frozenset(("override", "extraction", "secret", "jailbreak", "delimiter"))
_FRAMED = ("attack:not_real", "attack:fiction", "attack:role_character", "attack:become", "attack:in_character")
_SUFFIX_TOKENS = 3
_FRAMED_LENGTH = 1500
_OPENING = 400
_SPARSE_LENGTH = 900
_QUOTE_LENGTH = 400
_AFTER_STOP = re.compile(r"[.?!:\"\]\n] ?\W*$")
_QUOTED = re.compile(r"\"[^\"]{3,200}\"|(?<!\w)'[^']{3,200}'(?!\w)")
_INNER_STOP = re.compile(r"[.!?\n] ?\w")
_ABOUT = re.compile(
    r"\b(?:mean|means|meaning|translate|phrase|term|define|detect|classify|synonym|grammar|correct|spelling|word|quote|"
    r"bedeutet|übersetze|traduce|traduis|signifie|significa|означает|переведи)\b|翻译|意思|意味|訳|번역|뜻|معنى|ترجم|मतलब|अनुवाद"
)
_SENTENCE_END = re.compile(r"[.!?;] |\n")


def attack_features(evidence: Evidence, pack: PromptPack) -> list[str]:
    """Return the names of the classes and cues in a text; none where nothing points to an attack."""
    odd = cues.salad(evidence.raw)
    role = _role_opens(evidence, pack)
    if not (evidence.attack or odd or role):
        return []
    names = class_features(evidence.attack, pack)
    kinds = [name for name in evidence.attack if pack.classes[name].family != "benign"]
    harm = sum(pack.classes[name].prior for name in evidence.harm)
    names += _suffix_cues(evidence, odd, harm=harm)
    names += _frame_cues(evidence, role=role, harm=harm)
    names += _volume_cues(evidence, kinds, pack=pack)
    names += _style_cues(evidence)
    if not _is_pointed(names, kinds, pack=pack):
        names.append("cue:bland")
    if _is_quoted(evidence, kinds, pack=pack):
        names.append("cue:quoted")
    return names


def attack_score(evidence: Evidence, pack: PromptPack) -> PromptScore:
    """Return the score of a text as an attack."""
    return score(attack_features(evidence, pack), pack.attack)


def distinct_attacks(evidence: Evidence, found: PromptScore, *, pack: PromptPack) -> tuple[str, ...]:
    """Return the families of attack in a text, in alphabetical order; none where it is not flagged."""
    if not found.flagged:
        return ()
    strong: dict[str, Spans] = {}
    for name, spans in evidence.attack.items():
        if pack.classes[name].strong:
            strong.setdefault(pack.classes[name].family, []).extend(spans)
    families = set(strong)
    if "secret" in strong and _same_sentence(strong["secret"], strong.get("override", []), evidence.view):
        families.remove("secret")
    if "cue:salad2" in found.weights:
        families.add(SUFFIX)
    return tuple(sorted(families)) or (UNNAMED,)


def _same_sentence(some: Spans, others: Spans, view: str) -> bool:
    """Return whether a span of the one kind shares its sentence with one of the other."""
    ends = [found.start() for found in _SENTENCE_END.finditer(view)] if others else []
    return not {_count_below(ends, s) for s, _ in some}.isdisjoint(_count_below(ends, s) for s, _ in others)


def _count_below(ends: list[int], position: int) -> int:
    return sum(end < position for end in ends)


def _role_opens(evidence: Evidence, pack: PromptPack) -> bool:
    """Return whether a role is set up in the first sentence or at the start of one soon after."""
    view = evidence.view
    for start, _ in evidence.group(pack.groups.get("attack/ROLE_OPEN"))[:6]:
        if start <= 1 or (start < 90 and view[start - 2 : start] in (". ", "! ", "? ", ", ", ": ")):  # noqa: PLR2004 - the opening
            return True
    return False


def _suffix_cues(evidence: Evidence, odd: int, *, harm: float) -> Iterator[str]:
    bare = cues.lacks_function_words(evidence.view, evidence.raw)
    if bare:
        yield "cue:bare_tail"
    odd = odd if bare else odd - 1
    one_line = len(evidence.view) < 700 and "\n" not in evidence.raw.strip()  # noqa: PLR2004 - a prompt, no document
    if odd >= _SUFFIX_TOKENS or (odd > 1 and one_line):
        yield "cue:salad1"
    if odd >= _SUFFIX_TOKENS:
        yield "cue:salad2"
    if odd >= _SUFFIX_TOKENS + 2:
        yield "cue:salad3"
    if odd > 1 and bare:
        yield "cue:salad_bare"
    if odd > 1 and harm >= 1:
        yield "cue:salad_harm"


def _frame_cues(evidence: Evidence, *, role: bool, harm: float) -> Iterator[str]:
    """Yield what a role or a story is set up for; `harm` is the sum of the harm classes' weights set by hand."""
    found, short = evidence.attack, len(evidence.view) < _FRAMED_LENGTH
    if role:
        yield "cue:role_open"
    if short and harm >= 2 and (role or _opens_framed(evidence)):  # noqa: PLR2004 - one plain harm class
        yield "cue:framed_harm"
        if harm >= 4:  # noqa: PLR2004 - two plain harm classes
            yield "cue:framed_harm2"
    if harm >= 2 and "attack:detail" in found and len(evidence.view) > 250:  # noqa: PLR2004 - more than a bare request
        yield "cue:detail_harm"
    if "attack:not_real" in found and ((role and short) or "attack:become" in found):
        yield "cue:pair_frame"
    if _becomes_late(evidence):
        yield "cue:become_late"


def _opens_framed(evidence: Evidence) -> bool:
    """Return whether a story or a persona begins in the opening."""
    spans = [span for name in _FRAMED for span in evidence.attack.get(name, ())]
    return any(start < _OPENING for start, _ in spans)


def _becomes_late(evidence: Evidence) -> bool:
    """Return whether a persona is set up at the start of a later sentence."""
    view = evidence.view
    spans = evidence.attack.get("attack:become", []) + evidence.attack.get("attack:terminal", [])
    return any(start > 20 and _AFTER_STOP.search(view[start - 3 : start]) for start, _ in spans[:100])  # noqa: PLR2004


def _volume_cues(evidence: Evidence, kinds: list[str], *, pack: PromptPack) -> Iterator[str]:
    length = len(evidence.view)
    for least in (800, 2000):
        if length > least:
            yield f"cue:longer_{least}"
    for least in (3, 5, 8):
        if len(kinds) >= least:
            yield f"cue:classes_{least}"
    pointed = sum(pack.classes[name].family != "framing" for name in kinds)
    if length > _SPARSE_LENGTH and pointed <= 1 and len(kinds) < 5:  # noqa: PLR2004 - as `classes_5`
        yield "cue:long_sparse"


def _style_cues(evidence: Evidence) -> Iterator[str]:
    if cues.has_placeholder(evidence.raw):
        yield "cue:placeholder"
    if len(evidence.view) > 60 and cues.you_density(evidence.view) > 0.045:  # noqa: PLR2004 - thrice that of prose
        yield "cue:you_density"
    if cues.is_shouted(evidence.raw):
        yield "cue:shout"
    if cues.shouted_run(evidence.raw):
        yield "cue:shout_run"
    if "\U0001f513" in evidence.raw or "\U0001f512" in evidence.raw:
        yield "cue:padlock"
    if cues.has_code(evidence.raw):
        yield "cue:code"


def _is_pointed(names: list[str], kinds: list[str], *, pack: PromptPack) -> bool:
    """Return whether anything is there that harmless persona prompts do not have."""
    if any(pack.classes[name].family in _POINTED for name in kinds):
        return True
    return not {"cue:salad1", "cue:framed_harm", "attack:not_real", "attack:now_you"}.isdisjoint(names)


def _is_quoted(evidence: Evidence, kinds: list[str], *, pack: PromptPack) -> bool:
    """Return whether every pointed hit of a short text is all that a quotation says, in a question about it."""
    view = evidence.view
    if len(view) >= _QUOTE_LENGTH or "attack:to_the_model" in evidence.attack:
        return False
    spans = [span for name in kinds if pack.classes[name].family in _POINTED for span in evidence.attack[name]]
    quotes = [found.span() for found in _QUOTED.finditer(view) if not _INNER_STOP.search(found[0])]
    if not (spans and quotes and all(any(a <= s and e <= b for a, b in quotes) for s, e in spans)):
        return False
    return _ABOUT.search(_QUOTED.sub("", view)) is not None
