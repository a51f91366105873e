"""Auditors of the user's own: found, asked, and never able to do harm by failing."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from demur.audit.inputs import AuditorInput
from demur.audit.sdk import BoundAuditor, ClaimsAuditor, claims
from demur.audit.server import read_input
from demur.errors import UsageError
from demur.model.claim import Claim, ClaimType, Phase

REQUEST = read_input(Phase.REQUEST, {"input": "hello"})
Fields = Mapping[str, Any]


def wrapped(method: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    """A decorator as users write them: the wrapper itself is not async."""

    @functools.wraps(method)
    def call(self: object, request: Fields) -> Awaitable[object]:
        return method(self, request)

    return call


class Kinds(ClaimsAuditor):
    """One method of each kind that never awaits."""

    auditor_id = "kinds"
    version = "2.0"

    @claims(phase=Phase.REQUEST)
    def plain(self, request: Fields) -> dict[str, object]:
        """Look at the prompt."""
        return {"plain": request["prompt"] == "hello"}

    @claims(phase=Phase.REQUEST)
    async def straight(self, request: Fields) -> list[Claim]:
        """Return a list, without awaiting."""
        return [Claim("straight", ClaimType.BOOLEAN, "prompt" in request, Phase.REQUEST, "")]

    @claims(phase=(Phase.REQUEST, "response"))
    def nothing(self, _request: Fields) -> None:
        """State nothing."""


class Waiting(ClaimsAuditor):
    """Methods that await, openly and behind a wrapper."""

    auditor_id = "waiting"

    @claims(phase=Phase.REQUEST)
    async def waits(self, _request: Fields) -> dict[str, object]:
        """Await openly."""
        await asyncio.sleep(0)
        return {"waited": True}

    @claims(phase=Phase.RESPONSE)
    @wrapped
    async def hidden(self, _request: Fields) -> dict[str, object]:
        """Await behind the wrapper."""
        await asyncio.sleep(0)
        return {"hidden": True}


def made_of(look: Callable[..., object], **attributes: object) -> ClaimsAuditor:
    """An auditor whose only method under `@claims`, for all phases, is this."""
    fields = {"auditor_id": "made", "look": claims()(look), **attributes}
    return type("Made", (ClaimsAuditor,), fields)()  # type: ignore[no-any-return]  # a class of ours


def raising(error: BaseException) -> BoundAuditor:
    class Raising(ClaimsAuditor):
        auditor_id = "raising"

        @claims(phase=Phase.REQUEST)
        async def fails(self, _request: Fields) -> None:
            raise error

        @claims(phase=Phase.REQUEST)
        def works(self, _request: Fields) -> dict[str, object]:
            return {"works": True}

    return BoundAuditor(Raising())


def test_methods_of_every_kind_are_asked() -> None:
    """Sync or async, a dict or a list or nothing: all claims of the phase are stated under the auditor's name."""
    bound = BoundAuditor(Kinds())
    assert bound.is_sync(Phase.REQUEST)
    stated = bound.ask(REQUEST)
    assert [(c.name, c.value, c.auditor) for c in stated.claims] == [
        ("plain", True, "kinds"),
        ("straight", True, "kinds"),
    ]
    assert (bound.name, bound.version, bound.phases) == ("kinds", "2.0", (Phase.REQUEST, Phase.RESPONSE))


def test_both_ways_of_asking_agree() -> None:
    """What never awaits states the same with and without an event loop."""
    bound = BoundAuditor(Kinds())
    assert asyncio.run(bound.ask_async(REQUEST)) == bound.ask(REQUEST)


def test_awaiting_methods_are_known_as_such() -> None:
    """A method that awaits, or may hide that it does, is not straight, and works in an event loop."""
    bound = BoundAuditor(Waiting())
    assert not bound.is_sync(Phase.REQUEST)
    assert not bound.is_sync(Phase.RESPONSE)
    assert bound.is_sync(Phase.ARTIFACT)
    assert [c.name for c in asyncio.run(bound.ask_async(REQUEST)).claims] == ["waited"]
    response = read_input(Phase.RESPONSE, {"output": "x"})
    assert [c.name for c in asyncio.run(bound.ask_async(response)).claims] == ["hidden"]


def test_awaiting_without_a_loop_is_a_problem() -> None:
    """A method that awaits where nobody waits for it is a problem, not a hang and not a crash."""
    stated = BoundAuditor(Waiting()).ask(REQUEST)
    assert [p.code for p in stated.problems] == ["auditor_error"]


@pytest.mark.parametrize("error", [ValueError("secret text"), KeyError("secret text"), SystemExit(3), RecursionError()])
def test_an_exception_is_a_problem_without_its_message(error: BaseException) -> None:
    """Whatever a method raises is named by its kind alone, and the other methods still speak."""
    for stated in (raising(error).ask(REQUEST), asyncio.run(raising(error).ask_async(REQUEST))):
        assert [p.what for p in stated.problems] == [f"`fails` raised {type(error).__name__}"]
        assert [c.name for c in stated.claims] == ["works"]


def test_an_interrupt_passes() -> None:
    """Ctrl-C in the middle of a method is not swallowed."""
    with pytest.raises(KeyboardInterrupt):
        raising(KeyboardInterrupt()).ask(REQUEST)


def test_a_result_that_fights_back_is_a_problem() -> None:
    """A mapping that raises while it is walked is a problem of its auditor."""

    class Hostile(dict[str, object]):
        def items(self) -> Any:
            raise RuntimeError

    hostile = BoundAuditor(made_of(lambda _self, _request: Hostile()))
    assert [p.what for p in hostile.ask(REQUEST).problems] == ["`look` raised RuntimeError"]


def test_identity_is_an_attribute_or_an_argument() -> None:
    """An argument outranks the class, the chain's name outranks both; a constructor of the user's own may ignore ours."""

    class Own(Kinds):
        def __init__(self, limit: int) -> None:
            self.limit = limit

    assert BoundAuditor(Kinds("other", "3")).name == "other"
    assert BoundAuditor(Kinds(version="3")).version == "3"
    assert BoundAuditor(Kinds(), "chained").name == "chained"
    assert BoundAuditor(Own(3)).name == "kinds"


def test_a_vocabulary_is_declared_by_class_or_method() -> None:
    """Declared claims are known before the first is made, and hold the methods to them."""

    class Declared(ClaimsAuditor):
        auditor_id = "declared"
        vocabulary = {"flag": "boolean"}  # noqa: RUF012 — as a user would write it

        @claims(Phase.REQUEST, vocabulary={"word": {"type": "category", "sensitive": False}})
        def look(self, _request: Fields) -> dict[str, object]:
            return {"flag": 3, "word": "w", "extra": 1}

    bound = BoundAuditor(Declared())
    assert bound.complete
    assert bound.vocabulary.names == ("flag", "word")
    stated = bound.ask(REQUEST)
    assert [c.name for c in stated.claims] == ["word"]
    assert len(stated.problems) == 2


def test_inherited_methods_are_asked_as_overridden() -> None:
    """A subclass keeps its base's methods, and one that it defines anew without the mark no longer states claims."""

    class Quiet(Kinds):
        def plain(self, _request: Fields) -> dict[str, object]:
            return {"plain": False}

    assert [c.name for c in BoundAuditor(Quiet()).ask(REQUEST).claims] == ["straight"]


def test_an_auditor_that_could_state_nothing_is_refused() -> None:
    """No id, no method under `@claims`, an unknown phase: each is an error when the auditor is made."""
    with pytest.raises(UsageError, match="no id"):
        BoundAuditor(made_of(lambda _self, _request: None, auditor_id=ClaimsAuditor.auditor_id))
    with pytest.raises(UsageError, match="no method"):
        BoundAuditor(ClaimsAuditor("silent"))
    with pytest.raises(UsageError, match="no phase"):
        claims(phase="lunch")


def test_deep_recursion_in_an_auditor_is_survived() -> None:
    """An auditor that runs out of stack is a problem like any other."""
    deep = BoundAuditor(made_of(lambda self, request: self.look(request)))
    before = sys.getrecursionlimit()
    assert [p.what for p in deep.ask(REQUEST).problems] == ["`look` raised RecursionError"]
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize("look", [lambda _self: {}, lambda _self, _request, _more: {}], ids=["nothing", "more"])
def test_a_method_that_cannot_be_called_is_refused(look: Callable[..., object]) -> None:
    """A method that takes nothing, or more than it is given, would fail at every exchange: it is refused before the first."""
    with pytest.raises(UsageError, match=r"look` cannot be called with one value") as caught:
        BoundAuditor(made_of(look))
    assert caught.value.hint == "write def look(self, request)"


def test_a_version_is_short() -> None:
    """A version, which is in every record, is refused where it is a text."""
    assert BoundAuditor(Kinds(version="v" * 128)).version == "v" * 128
    with pytest.raises(UsageError, match="too long a version"):
        BoundAuditor(Kinds(version="v" * 129))


def test_a_typed_method_gets_the_values_themselves() -> None:
    """A method that asks for typed values is called with them, beside methods that are called with the mapping."""

    class Both(ClaimsAuditor):
        auditor_id = "both"

        @claims(phase=Phase.REQUEST, typed=True)
        def values(self, given: AuditorInput) -> dict[str, bool]:
            return {"typed": given.request is REQUEST.request and given.prompt == "hello"}

        @claims(phase=Phase.REQUEST)
        def mapping(self, request: Fields) -> dict[str, bool]:
            return {"mapped": request["prompt"] == "hello"}

    bound = BoundAuditor(Both())
    assert {claim.name: claim.value for claim in bound.ask(REQUEST).claims} == {"typed": True, "mapped": True}
    assert asyncio.run(bound.ask_async(REQUEST)) == bound.ask(REQUEST)
