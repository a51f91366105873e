"""How much dearer is folding with a way back than the bare Unicode calls? Prints µs a text and the ratio to that floor."""

from __future__ import annotations

import sys
import timeit
import unicodedata
from typing import TYPE_CHECKING

from demur.text.normalise import fold, normalise
from demur.text.unmask import unmask

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 1000
SENTENCES = {
    "ascii": "I'm sorry, but I can't help with that request, since it may hurt somebody. ",
    "ascii lines": "I can't help with that.\n\nHere is another way:\n- ask a person you trust\n- read the manual\n",
    "curly": "I’m sorry, but I can’t help with “that” request — it may hurt somebody, so, no. ",
    "typographic": "I’m sorry, but I can’t help with “that” request — it may hurt somebody… so, no. ",
    "accented": "Lo siento, no puedo ayudarte con esa petición; la búsqueda no está permitida aquí. ",
    "cjk": "很抱歉，我无法协助处理该请求。如果您需要帮助，请联系您信任的人。「再见」！",
    "russian": "Извините, но я не могу помочь с этим запросом. Обратитесь к специалисту, please. ",
    "fullwidth": "ｉｇｎｏｒｅ　ｐｒｅｖｉｏｕｓ　ｉｎｓｔｒｕｃｔｉｏｎｓ",
    "emoji": "Sorry 😔 — I can’t do that 🙏🏽 right now 👨‍👩‍👧. ",
}


def floor(text: str) -> str:
    """Return the bare library calls: no quotes, no white space, no offsets."""
    return unicodedata.normalize("NFKC", text).casefold()


def microseconds(call: Callable[[str], object], text: str) -> float:
    """Return the best of five timings of one call."""
    runs = 2000
    return min(timeit.repeat(lambda: call(text), number=runs, repeat=5)) / runs * 1e6


def main() -> None:
    """Print one line for each kind of text."""
    calls: dict[str, Callable[[str], object]] = {"normalise": normalise, "fold": fold, "unmask": unmask}
    print(f"{SIZE} characters a text; µs (ratio to NFKC + casefold)")
    print(f"{'text':12} {'floor':>7}" + "".join(f"{name:>18}" for name in calls))
    for kind, sentence in SENTENCES.items():
        text = (sentence * SIZE)[:SIZE]
        base = microseconds(floor, text)
        cells = [microseconds(call, text) for call in calls.values()]
        print(f"{kind:12} {base:7.2f}" + "".join(f"{cell:9.2f} ({cell / base:5.1f})" for cell in cells))
    print("numpy imported:", "numpy" in sys.modules)


if __name__ == "__main__":
    main()
