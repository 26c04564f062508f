"""The program of a recurrent layer: of an LSTM all time steps, of an SVDF one."""

from __future__ import annotations

from tilewright.config import Config
from tilewright.jit.graph import Graph, Recurrent
from tilewright.jit.recurrent.form import RecurrentProgram
from tilewright.jit.recurrent.lstm import lstm_program
from tilewright.jit.recurrent.ops import Lstm
from tilewright.jit.recurrent.svdf import SvdfWriter


def is_recurrent(graph: Graph) -> bool:
    """Whether a graph is what :func:`recurrent_program` takes: a single recurrent layer."""
    return len(graph.ops) == 1 and isinstance(graph.ops[0], Recurrent)


def recurrent_program(graph: Graph, config: Config) -> RecurrentProgram:
    """The program of a graph that is a single recurrent layer.

    Raises PlaceError where something does not fit the chip or has no form there, and says what.
    """
    if isinstance(graph.ops[0], Lstm):
        return lstm_program(graph, config)
    return SvdfWriter(graph, config).written()
