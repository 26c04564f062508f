"""The constants of the timing contract (``docs/timing.md``): data that the simulator and the RTL both read.

All in cycles. The rules that use them are written in ``docs/timing.md``.
"""

DOORBELL_LATENCY = 2  #: a doorbell that rings at a retire in cycle r can be heard by an issue in cycle r + 2
TOKEN_LATENCY = 1  #: a token pushed by a retire in cycle r can be popped by an issue in cycle r + 1
DISPATCH_LATENCY = 1  #: an instruction dispatched in cycle d can issue in cycle d + 1
GEMM_DEPTH = 12  #: from a micro-op's issue to its result in acc
ALU_DEPTH = 16  #: from a vector's issue to its result in act or acc
LOAD_SETUP = 2  #: from LOAD's issue to its first address request
LOAD_DEPTH = 3  #: from the last beat (or fill write) to retire
STORE_SETUP = 4  #: from STORE's issue to its first data beat
STORE_DEPTH = 1  #: from the last write response to retire
FETCH_START = 1  #: cycle of the first instruction fetch request, start being cycle 0
FETCH_DEPTH = 3  #: from the beat that completes an instruction to its earliest dispatch
FAULT_LATENCY = 2  #: from the issue of a LOAD or STORE to the end of its extent check, the cycle of a fault
DONE_LATENCY = 2  #: from the last retire to done; ``cycles`` counts up to done

#: least distance, in issue cycles, from an ALU vector's issue to that of one that reads what it wrote
ALU_DISTANCE = ALU_DEPTH
