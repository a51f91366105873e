"""The base class that users derive auditors from, and its binding to a place in a chain.

    class Mine(ClaimsAuditor):
        auditor_id = "mine"
        version = "1.0"

        @claims(phase=Phase.REQUEST)
        def look(self, request):
            return {"too_long": len(request["prompt"]) > 10_000}

An auditor makes claims and never enforces. Whatever its code raises or returns is a value here.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from demur.audit.claims import ClaimChecker, claim_rows, read_specs
from demur.errors import UsageError
from demur.model.claim import MOST_VERSION_CHARS, ClaimSpec, Phase, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

    from demur.audit.claims import GivenRow
    from demur.audit.inputs import AuditorInput
    from demur.model.claim import ClaimType, Stated, Vocabulary

__all__ = ["BoundAuditor", "ClaimsAuditor", "claims"]

_MARK = "__demur_claims__"
_AWAITS = frozenset({"GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "BEFORE_ASYNC_WITH", "SEND"})
_Method = TypeVar("_Method", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class _Mark:
    """What `@claims` says of a method."""

    phases: tuple[Phase, ...]
    vocabulary: Mapping[str, ClaimType | str | Mapping[str, object]] | None
    typed: bool


@dataclass(frozen=True, slots=True)
class _ClaimsMethod:
    """A method of an auditor, ready to be called; `is_sync` where it never awaits, `coroutine` where it is async."""

    name: str
    call: Callable[[Any], object]
    mark: _Mark
    coroutine: bool
    is_sync: bool

    def __call__(self, given: AuditorInput) -> object:
        """Return what the method returns, called with the values or the mapping by how it is marked."""
        return self.call(given if self.mark.typed else given.mapping())


class ClaimsAuditor:
    """The base of every auditor: states claims by methods under `@claims`, has an id and a version.

    Both are class attributes or arguments. `vocabulary` declares the claims of all its methods; `blocking` says that a
    method may wait (for a disk, a lock, a model), so that it is run in a thread.
    """

    auditor_id: str = ""
    version: str = "0"
    vocabulary: Mapping[str, ClaimType | str | Mapping[str, object]] | Vocabulary | None = None
    blocking: bool = False

    def __init__(self, auditor_id: str | None = None, version: str | None = None) -> None:
        """Take another id or version than the class's."""
        if auditor_id is not None:
            self.auditor_id = auditor_id
        if version is not None:
            self.version = version


def claims(
    phase: Phase | str | tuple[Phase | str, ...] = Phase.REQUEST,
    vocabulary: Mapping[str, ClaimType | str | Mapping[str, object]] | None = None,
    *,
    typed: bool = False,
) -> Callable[[_Method], _Method]:
    """Return the decorator that makes a method one that states claims in a phase, or in several.

    A `typed` method is called with an `AuditorInput` (`request`, `response`, `prompt`, `content`) in place of a mapping.
    """
    phases = (phase,) if isinstance(phase, str) else tuple(phase)
    try:
        mark = _Mark(tuple(Phase(word) for word in phases), vocabulary, typed)
    except ValueError as exc:
        raise UsageError(f"`{phase}` is no phase", hint=f"choose from {', '.join(Phase)}") from exc

    def marked(method: _Method) -> _Method:
        setattr(method, _MARK, mark)
        return method

    return marked


class BoundAuditor:
    """An auditor under the name it has in a chain, with the vocabulary that it declares or teaches."""

    __slots__ = ("_checker", "_methods", "_sync", "blocking", "name", "phases", "version")

    def __init__(self, auditor: ClaimsAuditor, name: str | None = None) -> None:
        # A class that could never be asked is an error now, not a failure at every exchange.
        self.name = name or auditor.auditor_id
        if not self.name:
            raise UsageError(f"the auditor `{type(auditor).__name__}` has no id", hint='set auditor_id = "…"')
        self.version = str(auditor.version)
        if len(self.version) > MOST_VERSION_CHARS:
            hint = f"{MOST_VERSION_CHARS} characters are the most"
            raise UsageError(f"the auditor `{self.name}` has too long a version", hint=hint)
        self.blocking = auditor.blocking
        methods = tuple(_methods_of(auditor))
        if not methods:
            hint = "put @claims(phase=…) above a method"
            raise UsageError(f"the auditor `{self.name}` has no method that states claims", hint=hint)
        self._methods = {phase: tuple(m for m in methods if phase in m.mark.phases) for phase in Phase}
        self._sync = frozenset(phase for phase, asked in self._methods.items() if all(m.is_sync for m in asked))
        self.phases = tuple(phase for phase in Phase if self._methods[phase])
        declared: list[ClaimSpec] = []
        for phase in self.phases:
            given = (auditor.vocabulary, *(method.mark.vocabulary for method in self._methods[phase]))
            for words in given:
                declared += () if words is None else read_specs(words, phase=phase, auditor=self.name)
        self._checker = ClaimChecker(self.name, declared)

    @property
    def vocabulary(self) -> Vocabulary:
        """What is known of its claims: what was declared, and what was learned so far."""
        return self._checker.vocabulary

    @property
    def complete(self) -> bool:
        """Whether its vocabulary is declared, and so is all that it can ever state."""
        return all(self._checker.closed(phase) for phase in self.phases)

    def is_sync(self, phase: Phase) -> bool:
        """Return whether the methods of a phase are known never to await."""
        return phase in self._sync

    def ask(self, given: AuditorInput) -> Stated:
        """Return what it states, without an event loop; a method that awaits after all is a problem."""
        phase = given.phase
        methods = self._methods[phase]
        if len(methods) == 1:
            result = _call(methods[0], given)
            if type(result) is dict:
                # The common case, one method that returns a plain dict, is checked without another walk.
                return self._checker.check(phase, list(result.items()), version=self.version)
            return self._check(phase, ((methods[0], result),))
        return self._check(phase, [(method, _call(method, given)) for method in methods])

    async def ask_async(self, given: AuditorInput) -> Stated:
        """Return what it states, awaiting the methods that ask for it one after the other."""
        results: list[tuple[_ClaimsMethod, object]] = []
        for method in self._methods[given.phase]:
            guard = _ForeignCode()
            result: object = None
            with guard:
                result = method(given)
                if inspect.isawaitable(result):
                    result = await result
            results.append((method, guard.problem(method) or result))
        return self._check(given.phase, results)

    async def close(self) -> None:
        """Let go of nothing: an auditor in the process holds nothing of ours."""

    def _check(self, phase: Phase, results: Iterable[tuple[_ClaimsMethod, object]]) -> Stated:
        """Return the sound claims in the methods' results; a mapping that cannot be walked is a problem of its own."""
        rows: list[GivenRow] = []
        for method, result in results:
            if type(result) is dict:
                # Copying a plain dict runs nobody else's code.
                rows += result.items()
            elif isinstance(result, Problem):
                rows.append(result)
            else:
                guard = _ForeignCode()
                with guard:
                    rows += list(claim_rows(result))
                problem = guard.problem(method)
                rows += [problem] if problem else []
        return self._checker.check(phase, rows, version=self.version)


class _ForeignCode:
    """Takes whatever code that is not ours raises: nobody can name it beforehand, and it must not end the process."""

    __slots__ = ("_raised",)
    _raised: BaseException | None

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> bool:
        """Keep what was raised."""
        self._raised = raised
        # A cancellation and an interrupt are the caller's own, and pass.
        return raised is not None and isinstance(raised, Exception | SystemExit)

    def problem(self, method: _ClaimsMethod) -> Problem | None:
        """Return what was raised, by its kind alone: its message may hold the user's text."""
        if self._raised is None:
            return None
        return Problem("auditor_error", f"`{method.name}` raised {type(self._raised).__name__}")


def _call(method: _ClaimsMethod, given: AuditorInput) -> object:
    guard = _ForeignCode()
    result: object = None
    with guard:
        result = method(given)
        if method.coroutine and isinstance(result, Coroutine):
            # One that never awaits runs to its end at the first `send`, without an event loop.
            try:
                result.send(None)
            except StopIteration as done:
                result = done.value
    problem = guard.problem(method)
    if problem is None and type(result) is dict:
        return result
    if problem is None and isinstance(result, Awaitable):
        if isinstance(result, Coroutine):
            result.close()
        return Problem("auditor_error", f"`{method.name}` returned something to await; make it async")
    return problem or result


def _methods_of(auditor: ClaimsAuditor) -> Iterator[_ClaimsMethod]:
    """Yield the methods under `@claims`, those of base classes first, each as its last class defines it."""
    kinds = reversed(type(auditor).__mro__)
    for name in dict.fromkeys(name for kind in kinds for name, value in vars(kind).items() if hasattr(value, _MARK)):
        method = getattr(auditor, name)
        mark = getattr(method, _MARK, None)
        if not isinstance(mark, _Mark):
            continue
        try:
            inspect.signature(method).bind(None)
        except TypeError as exc:
            what = f"`{type(auditor).__name__}.{name}` cannot be called with one value"
            raise UsageError(what, hint=f"write def {name}(self, request)") from exc
        except ValueError:
            # Made by an extension that tells no signature: only the call can show.
            pass
        # An async method without a point at which it awaits costs no task and no event loop.
        coroutine = inspect.iscoroutinefunction(method)
        yield _ClaimsMethod(name, method, mark, coroutine, _never_awaits(method, coroutine=coroutine))


def _never_awaits(method: Callable[..., object], *, coroutine: bool) -> bool:
    """Return whether this is a plain method, or an async one without a single point at which it awaits."""
    # A wrapper may do anything around the method it wraps; only the method's own code can be looked at.
    if inspect.unwrap(method) is not method or not inspect.ismethod(method):
        return False
    return not coroutine or not any(step.opname in _AWAITS for step in dis.get_instructions(method))
