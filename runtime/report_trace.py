"""A run as a trace in the Chrome trace event format, which Perfetto opens: one track per engine."""

from __future__ import annotations

from typing import Any

from tilewright.isa.spec import Engine, Opcode
from tilewright.runtime.report import ProgramRun, Report

_PROCESS = 1
_LAYER_TRACK = len(Engine)


def trace_events(report: Report) -> dict[str, Any]:
    """The trace as a JSON-able mapping. Times are microseconds at the configured clock.

    Every engine is a track of its instructions, named after their layer; a fifth track shows which layer each
    cycle is attributed to. ``args`` hold the instruction's number and its cycles of dispatch, issue and retire.
    """
    config = report.artifact.config
    events: list[dict[str, Any]] = [
        _metadata("process_name", 0, f"{report.artifact.name} on {config.name} ({report.device})"),
        *(_metadata("thread_name", int(engine), engine.name) for engine in Engine),
        _metadata("thread_name", _LAYER_TRACK, "layer"),
    ]
    events += [{"ph": "M", "pid": _PROCESS, "tid": t, "name": "thread_sort_index", "args": {"sort_index": t}}
               for t in range(_LAYER_TRACK + 1)]  # fmt: skip
    start = 0
    for run in report.runs:
        events += _engine_events(run, start, config.clock_mhz) + _layer_events(run, start, config.clock_mhz)
        start += run.counters.cycles
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"cycles": report.cycles, "clock_mhz": config.clock_mhz},
    }


def _metadata(name: str, track: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "pid": _PROCESS, "tid": track, "name": name, "args": {"name": text}}


def _engine_events(run: ProgramRun, start: int, clock: int) -> list[dict[str, Any]]:
    activity = run.activity
    if activity is None:
        return []
    names = [layer["name"] for layer in run.layers]
    events = []
    for engine in Engine:
        members, begins, ends = activity.spans(engine)
        for index, begin, end in zip(members.tolist(), begins.tolist(), ends.tolist()):
            events.append(
                {
                    "ph": "X",
                    "pid": _PROCESS,
                    "tid": int(engine),
                    "name": names[int(activity.layer[index])],
                    "cat": Opcode(int(activity.opcode[index])).name,
                    "ts": (start + begin) / clock,
                    "dur": (end - begin) / clock,
                    "args": {
                        "instruction": index,
                        "opcode": Opcode(int(activity.opcode[index])).name,
                        "dispatch": start + int(activity.dispatch[index]),
                        "issue": start + int(activity.begin[index]),
                        "retire": start + int(activity.retire[index]),
                    },
                }
            )
    return events


def _layer_events(run: ProgramRun, start: int, clock: int) -> list[dict[str, Any]]:
    if run.attribution is None:
        return []
    return [
        {
            "ph": "X",
            "pid": _PROCESS,
            "tid": _LAYER_TRACK,
            "name": run.layers[layer]["name"],
            "cat": run.layers[layer].get("op", ""),
            "ts": (start + begin) / clock,
            "dur": (end - begin) / clock,
            "args": {"cycles": end - begin},
        }
        for begin, end, layer in run.attribution.spans()
    ]
