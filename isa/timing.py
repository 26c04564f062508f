"""The constants of the timing contract (``docs/timing.md``): data that the simulator and the RTL both read.

All in cycles. The rules that use them are written in ``docs/timing.md``.
"""

DOORBELL_LATENCY = 2  #: from a retire that rings to an issue that hears, on another core
TOKEN_LATENCY = 1  #: from a retire that pushes to an issue that pops
DISPATCH_LATENCY = 1  #: from dispatch to issue
GEMM_DEPTH = 12  #: from a micro-op's issue cycle to retire, when its result is in acc
ALU_DEPTH = 16  #: from a vector's issue cycle to retire, when its result is in act or acc
LOAD_SETUP = 2  #: from LOAD's issue to its first read request
LOAD_DEPTH = 3  #: from the last beat, or the last cycle of a FILL or WAIT, to retire
STORE_SETUP = 4  #: from STORE's issue to its first write beat
STORE_DEPTH = 1  #: from the last response, or the last cycle of a WAIT, to retire
FETCH_START = 1  #: from start to the first fetch request
FETCH_DEPTH = 3  #: from the beat that completes an instruction to its dispatch
FAULT_LATENCY = 2  #: from the issue of a LOAD or STORE to the end of its extent check, the cycle of a fault
DONE_LATENCY = 2  #: from the last retire to done, up to which ``cycles`` counts

#: least distance, in issue cycles, from an ALU vector's issue to that of one that reads what it wrote
ALU_DISTANCE = ALU_DEPTH
