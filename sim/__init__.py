"""The simulator: what a program computes (:class:`Functional`) and how long it takes (:func:`simulate_timing`)."""

from tilewright.sim.functional import Functional, SimulationError
from tilewright.sim.result import EngineCounters, Fault, FaultCode, FunctionalResult, SimResult, TimingResult
from tilewright.sim.simulate import initial_segments, simulate
from tilewright.sim.timing import simulate_timing

__all__ = [
    "EngineCounters",
    "Fault",
    "FaultCode",
    "Functional",
    "FunctionalResult",
    "SimResult",
    "SimulationError",
    "TimingResult",
    "initial_segments",
    "simulate",
    "simulate_timing",
]
