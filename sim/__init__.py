"""The simulator: what a program computes (:class:`Functional`), how long it takes (:func:`simulate_timing`), and
how long many take on several cores (:func:`simulate_cores`)."""

from tilewright.sim.cores import Ran, Run, simulate_cores, steady_interval
from tilewright.sim.functional import Functional, SimulationError, run_together
from tilewright.sim.result import EngineCounters, Fault, FaultCode, FunctionalResult, SimResult, TimingResult
from tilewright.sim.run import ProgramResult, run_program
from tilewright.sim.simulate import initial_segments, simulate
from tilewright.sim.timing import simulate_timing

__all__ = [
    "EngineCounters",
    "Fault",
    "FaultCode",
    "Functional",
    "FunctionalResult",
    "ProgramResult",
    "Ran",
    "Run",
    "SimResult",
    "SimulationError",
    "TimingResult",
    "initial_segments",
    "run_program",
    "run_together",
    "simulate",
    "simulate_cores",
    "simulate_timing",
    "steady_interval",
]
