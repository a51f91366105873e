"""Whether a prompt attacks the model's instructions, and how many distinct attacks it contains.

Classes of the pack say what the text contains; cues say how: a persona that is set up late, harm in a frame of fiction,
or nothing but persona words that harmless prompts use as well.
"""

from __future__ import annotations

import re
from bisect import bisect_left
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
_ROLE_OPENING = 90
_CLAUSE_ENDS = (". ", "! ", "? ", ", ", ": ")
_POINTED_CUES = frozenset(("cue:salad1", "cue:framed_harm", "attack:not_real", "attack:now_you"))
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
    view, raw = evidence.view, evidence.raw
    odd = cues.salad(raw)
    # A role counts if it is set up in the first sentence, or at the start of one soon after.
    role = any(
        start <= 1 or (start < _ROLE_OPENING and view[start - 2 : start] in _CLAUSE_ENDS)
        for start, _ in evidence.group(pack.groups.get("attack/ROLE_OPEN"))[:6]
    )
    if not (evidence.attack or odd or role):
        return []
    names = class_features(evidence.attack, pack)
    kinds = [name for name in evidence.attack if pack.classes[name].family != "benign"]
    harm = sum(pack.classes[name].prior for name in evidence.harm)
    names += _suffix_cues(evidence, odd, harm=harm)
    names += _frame_cues(evidence, role=role, harm=harm)
    names += [f"cue:longer_{least}" for least in (800, 2000) if len(view) > least]
    names += [f"cue:classes_{least}" for least in (3, 5, 8) if len(kinds) >= least]
    telling = sum(pack.classes[name].family != "framing" for name in kinds)
    # A long text with little in it is rather a document that happens to use such words.
    if len(view) > _SPARSE_LENGTH and telling <= 1 and len(kinds) < 5:  # noqa: PLR2004 - as `classes_5`
        names.append("cue:long_sparse")
    styles = {
        "cue:placeholder": cues.has_placeholder(raw),
        "cue:you_density": len(view) > 60 and cues.you_density(view) > 0.045,  # noqa: PLR2004 - thrice that of prose
        "cue:shout": cues.is_shouted(raw),
        "cue:shout_run": cues.shouted_run(raw),
        "cue:padlock": "\U0001f513" in raw or "\U0001f512" in raw,
        "cue:code": cues.has_code(raw),
    }
    names += [cue for cue, holds in styles.items() if holds]
    # Words of persona and fiction alone weigh little: harmless role-play has them as well.
    if not any(pack.classes[name].family in _POINTED for name in kinds) and _POINTED_CUES.isdisjoint(names):
        names.append("cue:bland")
    # An attack that is only quoted in a question about it is not one.
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
    if "secret" in strong and "override" in strong:
        # A demand for a secret in the same sentence as an override is that override's aim, not a second attack.
        ends = [found.start() for found in _SENTENCE_END.finditer(evidence.view)]
        secret, override = ({bisect_left(ends, s) for s, _ in strong[family]} for family in ("secret", "override"))
        if not secret.isdisjoint(override):
            families.remove("secret")
    if "cue:salad2" in found.weights:
        families.add(SUFFIX)
    return tuple(sorted(families)) or (UNNAMED,)


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
    framed = role or any(start < _OPENING for name in _FRAMED for start, _ in found.get(name, ()))
    if short and harm >= 2 and framed:  # noqa: PLR2004 - one plain harm class
        yield "cue:framed_harm"
        if harm >= 4:  # noqa: PLR2004 - two plain harm classes
            yield "cue:framed_harm2"
    if harm >= 2 and "attack:detail" in found and len(evidence.view) > 250:  # noqa: PLR2004 - more than a bare request
        yield "cue:detail_harm"
    if "attack:not_real" in found and ((role and short) or "attack:become" in found):
        yield "cue:pair_frame"
    # A persona at the start of a later sentence; only the first hundred are looked at, which bounds the time.
    late = (found.get("attack:become", []) + found.get("attack:terminal", []))[:100]
    if any(start > 20 and _AFTER_STOP.search(evidence.view[start - 3 : start]) for start, _ in late):  # noqa: PLR2004
        yield "cue:become_late"


def _is_quoted(evidence: Evidence, kinds: list[str], *, pack: PromptPack) -> bool:
    """Return whether every pointed hit of a short text is inside a quotation, in a question about it."""
    view = evidence.view
    if len(view) >= _QUOTE_LENGTH or "attack:to_the_model" in evidence.attack:
        return False
    spans = [span for name in kinds if pack.classes[name].family in _POINTED for span in evidence.attack[name]]
    quotes = [found.span() for found in _QUOTED.finditer(view) if not _INNER_STOP.search(found[0])]
    if not (spans and quotes and all(any(a <= s and e <= b for a, b in quotes) for s, e in spans)):
        return False
    return _ABOUT.search(_QUOTED.sub("", view)) is not None
