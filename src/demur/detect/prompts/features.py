"""The features of a prompt: attacks on the model's instructions, requests for harm, and what its form says.

Classes of the pack say what the text contains; cues say how: a persona that is set up late, harm in a frame of fiction, a *suffix salad*
(the string of odd tokens that an optimiser appends: brackets and backslashes inside words, hardly any function words).
A text without a harm class is not harmful, whatever its form.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from demur.detect.prompts.pack import class_features, score

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.detect.prompts.pack import Evidence, PromptPack, PromptScore, Spans

__all__ = [
    "OTHER",
    "SUFFIX",
    "UNNAMED",
    "attack_features",
    "attack_score",
    "distinct_attacks",
    "harm_categories",
    "harm_features",
    "harm_score",
    "has_code",
    "has_placeholder",
    "is_shouted",
    "lacks_function_words",
    "salad",
    "shouted_run",
    "you_density",
]

_ODD_PLACES = "[]{}()<>\\^$|@#~=*_`%;+&/!?"
# ASCII capitals, small letters and odd places by one letter each; every other byte of UTF-8 is a full stop.
_SHAPES = bytes(
    ord("A" if char.isupper() else "a" if char.islower() else "!" if char in _ODD_PLACES else ".")
    for char in map(chr, range(128))
).ljust(256, b".")
_TAIL = 260
_LINE = 1500  # an optimiser's suffix is short, and this bounds the work on any text
_ASIDE = re.compile(r"`[^`]{1,80}`|\([\w ,.;:/-]{1,200}\)|\[[\w ,.;:/-]{1,200}\]")
# A search for calls stops at every word, one for the others only at their first mark, so it is used only where needed.
_ASIDE_OR_CALL = re.compile(rf"\b\w{{1,60}}\([\w, .]{{0,80}}\)|{_ASIDE.pattern}")
_CALL = re.compile(r"\((?<=\w\()")
_NAME = re.compile(r"^(?:Mc|Mac|i|e|[A-Z][a-z]+)[A-Z][a-z]+s?$|^[a-z]+[A-Z][A-Za-z]*\(|.*(?:GPT|ML|SQL|DB|OS|PC|TV)s?$")
_TAG = re.compile(r"<+/?\w{1,40}>+|\]\(|http|<br")
_HASHTAG = re.compile(r"[(\"']?[#@]\w{2}")
_CLEAN_PAIRS = frozenset(
    ('."', '?"', '!"', ',"', '",', '".', '")', "),", ").", "'s", "..", "?)", ".)", "'.", "',", ':"')
)
_CLEAN_TOKENS = frozenset(("--", "...", "**", "---", '""', "-->"))
_ODD = frozenset("[]{}()<>\\^$|@#~=*_`%;")
_LONERS = frozenset("({[?!")
_SALAD_LENGTHS = range(60, 1201)
_BARE_LENGTHS = range(100, 1001)
_HEAD_TOKENS = 8
_TAIL_TOKENS = 14
_MIN_TOKENS = 12
_MAX_DOLLARS = 5
_MAX_DIGITS = 7
_SHORTEST_POWER = 5
_EDGE_LEFT, _EDGE_RIGHT = "\"'(*-", ".,;:!?\"')*-"
# Tokens worth a closer look: `_is_odd` would reject all others, which are nearly all of prose.
_UNUSUAL = re.compile(rf"(?<!\S)(?!(?=[A-Za-z0-9])[A-Z0-9]*[a-z0-9]*(?:['-][a-z0-9]+)*[{_EDGE_RIGHT}]?(?!\S))\S+")

_FUNCTION = re.compile(
    r"\b(?:the|of|to|an?|and|in|for|that|is|are|with|on|how|your?|it|this|from|by|or|as|at|be|their|without|what|can|i|my|"
    r"who|which|do|not|was|me|should|into|if)\b"
)
_FUNCTION_TAIL = 85
_FEW = 3

_PLACEHOLDER = re.compile(r"\[[A-Za-z][^\]\n]{0,40}\]|\{\{?[A-Za-z][^}\n]{0,40}\}")
# The first letter comes before the look-behind, so that the search skips to capitals.
_CAPITALS = re.compile(r"[A-Z](?<!\w.)[A-Z]{3,}\b")
_RUN = re.compile(r"[A-Z](?<!\w.)[A-Z']+\b[ ,]+(?:\b[A-Z][A-Z']+\b[ ,]+){3,}")


def salad(raw: str) -> int:
    """Return how many odd tokens are among the last fourteen of a prompt that starts as prose."""
    line = raw.rstrip()[-_LINE:].rsplit("\n", 1)[-1].lstrip()
    shape = line[-_TAIL:].encode("utf-8", "surrogatepass").translate(_SHAPES)
    # A tail with fewer than two odd places costs only this search.
    if shape.count(b"!") <= 1 and shape.count(b"aA") <= 1:
        return 0
    line = (_ASIDE_OR_CALL if _CALL.search(line) else _ASIDE).sub("", line)
    tokens = line.split()
    if len(line) not in _SALAD_LENGTHS or len(tokens) < _MIN_TOKENS or line.count("$") > _MAX_DOLLARS:
        return 0
    odd = _count_odd(tokens[_HEAD_TOKENS:][-_TAIL_TOKENS:])
    if odd and (sum(map(str.isdigit, line[-120:])) > _MAX_DIGITS or _count_odd(tokens[:_HEAD_TOKENS]) > 1):
        return 0
    return odd


def _count_odd(tokens: list[str]) -> int:
    return sum(map(_is_odd, _UNUSUAL.findall(" ".join(tokens))))


def _is_odd(token: str) -> bool:
    """Return whether a token looks like nothing that people type."""
    # Code, tables, tags and brand names have odd tokens as well, hence the exceptions.
    if any(map(str.isdigit, token)) or _TAG.search(token) or _HASHTAG.match(token):
        return False
    core = token.strip(_EDGE_RIGHT).lstrip(_EDGE_LEFT)
    if not core:
        return (len(token) > 1 and token not in _CLEAN_TOKENS) or token in _LONERS
    if len(core) < _SHORTEST_POWER and "^" in core:
        return False
    if not _ODD.isdisjoint(core):
        return True
    if any(a.islower() and b.isupper() for a, b in pairwise(core)):
        return not _NAME.match(core)
    pairs = (a + b for a, b in pairwise(token) if not a.isalnum() and not b.isalnum())
    return any(pair not in _CLEAN_PAIRS for pair in pairs)


def lacks_function_words(view: str, raw: str) -> bool:
    """Return whether a one-line prompt loses its function words towards the end and stops without a full stop."""
    text = view.rstrip()
    if len(text) not in _BARE_LENGTHS or text.endswith((".", "?", "!")) or "\n" in raw.rstrip()[-90:]:
        return False
    head, tail = text[:-_FUNCTION_TAIL], text[-_FUNCTION_TAIL:]
    return tail.count(",") < _FEW and not _has_function_words(tail, _FEW + 1) and _has_function_words(head, 2)


def _has_function_words(text: str, least: int) -> bool:
    return next(islice(_FUNCTION.finditer(text), least - 1, None), None) is not None


def has_placeholder(raw: str) -> bool:
    """Return whether there is a slot to fill in, such as `[topic]` or `{question}`."""
    return ("[" in raw or "{" in raw) and _PLACEHOLDER.search(raw[:8000]) is not None


def you_density(view: str) -> float:
    """Return the share of words that address the reader, in the opening."""
    opening = view[:4000]
    return (opening.count("you") + opening.count(" du ")) / max(opening.count(" ") + 1, 8)


def is_shouted(raw: str) -> bool:
    """Return whether six words or more are in capitals."""
    return len(_CAPITALS.findall(raw[:4000])) > _HEAD_TOKENS - 3


def shouted_run(raw: str) -> bool:
    """Return whether four words in a row are in capitals, and the rest is not."""
    found = _RUN.search(raw[:3000])
    return found is not None and len(found[0]) < 0.6 * len(raw)


def has_code(raw: str) -> bool:
    """Return whether the text holds lines of code."""
    return raw.count("\n") > 1 and ("```" in raw or "def " in raw or "import " in raw)


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
    odd = salad(raw)
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
        "cue:placeholder": has_placeholder(raw),
        "cue:you_density": len(view) > 60 and you_density(view) > 0.045,  # noqa: PLR2004 - thrice that of prose
        "cue:shout": is_shouted(raw),
        "cue:shout_run": shouted_run(raw),
        "cue:padlock": "\U0001f513" in raw or "\U0001f512" in raw,
        "cue:code": has_code(raw),
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
    bare = lacks_function_words(evidence.view, evidence.raw)
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


OTHER = "other"  # the category of a harmful request whose kind no class names

_NO_CATEGORY = frozenset(("benign", "intent"))
_CATEGORY_WEIGHT = 1.2
_ASK_START = 30
_DEFINITION_LENGTH = 60
_SHORT = 250
_LONG = 1000
_NEAR = 14
_DEFINITION = re.compile(r"(?:what|who) (?:is|are|was|were) (?:a |an |the )?[\w-]+(?: [\w-]+)?\?$")
_OF_THE_PAST = re.compile(
    r"(?:what|who|when|where|which|how|why)(?: \w+){0,2} (?:did|were|was|had|have|has)\b|who \w+ed\b"
)
_OPINION = re.compile(r"(?:why|is|are|was|were|do|does|did|would|will|has|have|don't|doesn't|isn't|aren't)\b")


def harm_features(evidence: Evidence, pack: PromptPack) -> list[str]:
    """Return the names of the classes and cues in a text; none where it has no class of harm."""
    kinds = [name for name in evidence.harm if pack.classes[name].family != "benign"]
    if not kinds:
        return []
    names = class_features(evidence.harm, pack)
    names += _ask_cues(evidence, pack)
    names += _question_cues(evidence, kinds, pack=pack)
    names += [f"cue:harms_{least}" for least in (2, 3, 4) if len(kinds) >= least]
    if len({pack.classes[name].family for name in kinds} - {"intent"}) > 1:
        names.append("cue:categories_2")
    if len(evidence.view) > _LONG:
        names.append("cue:long")
    return names


def harm_score(evidence: Evidence, pack: PromptPack) -> PromptScore:
    """Return the score of a text as a harmful request."""
    return score(harm_features(evidence, pack), pack.harm)


def harm_categories(found: PromptScore, pack: PromptPack) -> tuple[str, ...]:
    """Return the categories of a flagged text, the heaviest first; none where it is not flagged."""
    if not found.flagged:
        return ()
    totals: dict[str, float] = {}
    for name, weight in found.weights.items():
        known = pack.classes.get(name.removesuffix("+"))
        if known is not None and known.family not in _NO_CATEGORY:
            totals[known.family] = totals.get(known.family, 0.0) + weight
    # By name where weights are equal, so that the same prompt always gets the same order.
    ranked = sorted(totals, key=lambda family: (-totals[family], family))
    return tuple(f for f in ranked if totals[f] >= _CATEGORY_WEIGHT) or tuple(ranked[:1]) or (OTHER,)


def _ask_cues(evidence: Evidence, pack: PromptPack) -> Iterator[str]:
    """Yield how the text asks: at its start or shortly, with weight, or not at all."""
    view = evidence.view.strip()
    short = len(view) < _SHORT
    words = evidence.group(pack.groups.get("harm/HOWTO")) + evidence.group(pack.groups.get("harm/WH"))
    direct = evidence.group(pack.groups.get("harm/DIRECT")) or evidence.group(pack.groups.get("harm/DIRECT_LATE"))
    asks = any(start < _ASK_START for start, _ in words) or (short and bool(direct))
    if asks:
        yield "cue:ask"
        if short:
            yield "cue:short_ask"
        if sum(pack.classes[name].prior for name in evidence.harm) >= 3:  # noqa: PLR2004 - more than one plain class
            yield "cue:strong_ask"
    elif not view.endswith("?"):
        yield "cue:no_ask"


def _question_cues(evidence: Evidence, kinds: list[str], *, pack: PromptPack) -> Iterator[str]:
    """Yield what kind of question it is: for a way to do harm, for the meaning of a word, about the past, about a view."""
    view = evidence.view.strip()
    before = {end for _, end in evidence.group(pack.groups.get("harm/DIRECT"))}
    after = {start for start, _ in evidence.group(pack.groups.get("harm/DIRECT_LATE"))}
    spans = [span for name in kinds for span in evidence.harm[name]] if before or after else []
    # A harm comes right after "how do I", or right before its counterpart in other languages. Questions about a crime, its
    # prevention or its history are evidence against a request for harm.
    if any(
        not before.isdisjoint(range(start - _NEAR, start + 1)) or not after.isdisjoint(range(end, end + _NEAR))
        for start, end in spans
    ):
        yield "cue:direct_ask"
    elif _OF_THE_PAST.match(view):
        yield "cue:past"
    elif _OPINION.match(view):
        yield "cue:opinion"
    if len(view) < _DEFINITION_LENGTH and _DEFINITION.match(view):
        yield "cue:definition"
