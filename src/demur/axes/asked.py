"""Which axes are asked for, and which of them may fail the gate?

Laws: a name that is no axis is an error that lists them; safety alone is no further axis; what may fail the gate must be measured, and must
have what only the caller can give (rules, a judge, a rubric), or the gate would pass for want of looking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.axes.registry import AxesSettings
from demur.errors import UsageError
from demur.model.axes import AxisName

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ALL_AXES", "axes_asked", "axes_named", "gated_axes"]

ALL_AXES = "all"


def axes_named(names: Sequence[str]) -> tuple[AxisName, ...]:
    """Return the axes of these names, in the order of a report; `all` is every one."""
    unknown = next((name for name in names if name != ALL_AXES and name not in set(AxisName)), None)
    if unknown is not None:
        raise UsageError(f"no axis `{unknown}`", hint=f"there are {', '.join(AxisName)}, and all")
    return tuple(axis for axis in AxisName if ALL_AXES in names or axis in names)


def axes_asked(axes: AxesSettings | Sequence[str] | None) -> AxesSettings | None:
    """Return what is asked of the axes; None where that is safety alone, which a comparison is without them."""
    if axes is None or isinstance(axes, AxesSettings):
        return axes
    if isinstance(axes, str):
        raise UsageError("axes are a list of names", hint=f'as in axes=["{axes}"]')
    named = axes_named(axes)
    return None if named in ((), (AxisName.SAFETY,)) else AxesSettings(axes=named)


def gated_axes(names: Sequence[str], asked: AxesSettings | None) -> tuple[AxisName, ...]:
    """Return the axes that may fail the gate, an error where one of them could not."""
    gated = axes_named(names)
    if not gated:
        raise UsageError("no axis may fail the gate", hint="name at least one, as safety")
    measured = {AxisName.SAFETY, *(asked.axes if asked else ())}
    unasked = next((axis for axis in gated if axis not in measured), None)
    if unasked is not None:
        raise UsageError(f"`{unasked}` may fail the gate and is not measured", hint=f"add it: --axes safety,{unasked}")
    if asked is not None:
        _refuse_unarmed(asked, gated)
    return gated


def _refuse_unarmed(asked: AxesSettings, gated: Sequence[AxisName]) -> None:
    if AxisName.RULES in gated and not asked.rules:
        raise UsageError("`rules` may fail the gate, and there is no rule", hint="name a file of them: --rules FILE")
    if AxisName.JUDGE in gated and asked.judge is None:
        raise UsageError("`judge` may fail the gate, and none is configured", hint="set DEMUR_JUDGE_URL")
    if AxisName.JUDGE in gated and not asked.rubrics:
        raise UsageError("`judge` may fail the gate, and there is no rubric", hint="name one: --rubric NAME")
