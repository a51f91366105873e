"""The breaker opens, waits, tries once, and closes again."""

from __future__ import annotations

from demur.audit.breaker import Breaker, BreakerSettings


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker(BreakerSettings(failures=3, reset_s=10.0))
    for _ in range(3):
        assert breaker.allows(at)
        breaker.failed(at)
    return breaker


def test_it_opens_after_failures_in_a_row() -> None:
    """Three failures in a row open it; a success in between starts the count anew."""
    breaker = Breaker(BreakerSettings(failures=3, reset_s=10.0))
    for fails in (True, True, False, True, True):
        assert breaker.allows(0.0)
        breaker.failed(0.0) if fails else breaker.succeeded()
    assert breaker.allows(0.0)
    breaker.failed(0.0)
    assert not breaker.allows(9.9)


def test_one_call_tries_it() -> None:
    """After the reset time one call is let through, and no other until that one has ended."""
    breaker = opened()
    assert breaker.allows(10.0)
    assert not breaker.allows(10.0)
    breaker.succeeded()
    assert breaker.allows(10.0)
    assert breaker.allows(10.0)


def test_a_failed_try_opens_it_again() -> None:
    """A try that fails keeps it open for another reset time, from then on."""
    breaker = opened()
    assert breaker.allows(12.0)
    breaker.failed(12.0)
    assert not breaker.allows(21.9)
    assert breaker.allows(22.0)


def test_a_try_that_was_given_up_leaves_room_for_another() -> None:
    """A try whose caller went away neither closes it nor blocks the next try."""
    breaker = opened()
    assert breaker.allows(10.0)
    breaker.given_up()
    assert breaker.allows(10.0)
