"""Two pieces of work compared in one run, so that a slow or busy machine slows both alike."""

from collections.abc import Callable
from time import perf_counter

Work = Callable[[], object]
Clock = Callable[[], float]


def ratio_of_minima(work: Work, yardstick: Work, repeats: int = 5, clock: Clock | None = None) -> float:
    """``min time(work) / min time(yardstick)`` over repeats that take turns, after one unmeasured turn of each.

    Disturbances only ever add time, so the shortest of several runs is the one least disturbed. Work so long that a
    busy machine interrupts it nearly always is better timed by ``clock=process_time``.

    >>> from time import sleep
    >>> ratio_of_minima(lambda: sleep(0.02), lambda: sleep(0.001), repeats=2) > 2
    True
    """
    clock = clock or perf_counter
    work(), yardstick()
    turns = [(_seconds(work, clock), _seconds(yardstick, clock)) for _ in range(repeats)]
    return min(turn[0] for turn in turns) / min(turn[1] for turn in turns)


def _seconds(work: Work, clock: Clock) -> float:
    start = clock()
    # The result is let go inside the measured time for both alike.
    work()
    return clock() - start
