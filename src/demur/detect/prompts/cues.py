"""What the form of a prompt says, apart from its words; above all whether it ends in a *suffix salad*.

That is the string of odd tokens that an optimiser appends to a request: brackets and backslashes inside words, capitals in
the middle of them, and hardly any function words, while the prompt began as prose.
"""

from __future__ import annotations

import re
from itertools import islice, pairwise

__all__ = ["has_code", "has_placeholder", "is_shouted", "lacks_function_words", "salad", "shouted_run", "you_density"]

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
