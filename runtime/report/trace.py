"""A run as a trace in the Chrome trace event format, which Perfetto opens: one track per engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.runtime.report.run import TRACKS, ProgramRun, recorded_layers, spans

_PROCESS = 1


def trace_events(data: dict[str, Any], runs: Sequence[ProgramRun]) -> dict[str, Any]:
    """The trace as a JSON-able mapping, of a report's JSON form and its programs.

    Times are microseconds at the configured clock. Every engine is a track of its instructions, named after their
    layer; a fifth track shows which layer each cycle is attributed to. ``args`` hold the instruction's number and its
    cycles of dispatch, issue and retire.
    """
    clock, layers, cycles = data["clock_mhz"], recorded_layers(runs), data["cycles"] or 0
    events = [_metadata("process_name", 0, name=f"{data['model']} on {data['config']} ({data['device']})")]
    events += [_metadata("thread_name", track, name=name) for track, name in enumerate(TRACKS)]
    events += [_metadata("thread_sort_index", track, sort_index=track) for track in range(len(TRACKS))]
    for span in spans(runs):
        layer = layers[span.layer]
        args: dict[str, Any] = {"cycles": span.end - span.begin}
        if span.opcode:
            dispatch, issue, retire = span.times
            args = {"instruction": span.instruction, "opcode": span.opcode, "dispatch": dispatch, "issue": issue,
                    "retire": retire}  # fmt: skip
        events.append(
            {"ph": "X", "pid": _PROCESS, "tid": span.track, "name": layer["name"],
             "cat": span.opcode or layer.get("op", ""), "ts": span.begin / clock,
             "dur": (span.end - span.begin) / clock, "args": args}
        )  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"cycles": cycles, "clock_mhz": clock}}


def _metadata(kind: str, track: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "pid": _PROCESS, "tid": track, "name": kind, "args": args}
