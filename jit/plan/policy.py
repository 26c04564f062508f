"""What the scheduler prefers; the compiler tries several policies and keeps the fastest program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """One set of preferences."""

    deep: bool = True  #: of the tasks that can start now, take the one furthest down the network
    constant_share: float = 0.5  #: share of the bus that constants may take while inputs also wait
    slack: int | None = None  #: rows that act holds of each tensor beyond the least; None: all rows if they fit
    banks: bool = False  #: GEMM does what it can elsewhere while STORE reads the bank that it would read


#: measured on the MLPerf Tiny networks: each is the best of some network on some config
POLICIES = (
    *(Policy(False, 0.25, slack) for slack in (1, 2, 4, 8, None)), Policy(False, 0.1, 2), Policy(True, 0.5, 8)
)  # fmt: skip
#: for networks that a plan cuts into groups; with less of the bus for constants; and whatever STORE reads
PLANNED, HASTY, EAGER = Policy(False, 0.25, 8, True), Policy(False, 0.1, 8, True), Policy(False, 0.25, 8)
#: shares of wgt and prm that the constants of one group may take, tried until every chunk finds a place
CONSTANT_SHARES = (0.5, 0.25, 0.125)
#: schedules for less memory are tried unless one takes at most so many times the lower bound, and for still less memory
#: until one takes so many times the cycles of the best
BEST, STEEP = 1.02, 1.03
