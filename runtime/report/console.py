"""The report as a table on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tilewright.runtime.report.report import Report

_COLOURS = {
    "compute": "green", "padding": "magenta", "half-pace": "magenta", "load": "yellow", "store": "yellow",
    "alu": "cyan", "fetch": "red", "latency": "red",
}  # fmt: skip

_MOST_NOTES = 8  #: notes shown on the terminal

_WIDE = 100  #: columns from which on the table shows the operator type beside the layer's name


def layer_table(report: Report, width: int) -> Table:
    """One row per layer: cycles, lower bound, their ratio, utilisation, what bounds it; ``width`` in characters."""
    wide = width >= _WIDE
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("layer", overflow="ellipsis", no_wrap=True, max_width=40 if wide else 24)
    if wide:
        table.add_column("op", overflow="ellipsis", no_wrap=True, max_width=24)
    table.add_column("place", no_wrap=True)
    for column in ("cycles", "lower bound", "ratio", "util"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("bound", no_wrap=True)
    for layer in report.layers:
        measured = layer["place"] == "accelerator" and layer["cycles"] is not None
        table.add_row(
            layer["name"],
            *([layer["op"]] if wide else []),
            layer["place"],
            f"{layer['cycles']:,}" if measured else "-",
            f"{layer['lower_bound_cycles']:,}" if measured else "-",
            f"{layer['lower_bound_ratio']:.2f}" if measured and layer["lower_bound_cycles"] else "-",
            f"{layer['utilization']:.1%}" if measured and layer["macs"] else "-",
            Text(layer["bound"] or "-", style=_COLOURS.get(layer["bound"] or "", "")),
        )
    return table


def _measured(report: Report, data: dict[str, Any]) -> list[tuple[str, str]]:
    """The rows that follow from the device's cycles, or one that says that there are none."""
    if not report.timed:
        return [("cycles", f"not counted by the {report.device} device (lower bound {report.lower_bound_cycles:,})")]
    least = report.lower_bound_cycles
    ratio = f" ({data['lower_bound_ratio']:.2f}x the lower bound of {least:,})" if least else ""
    return [
        ("cycles", f"{report.cycles:,}{ratio}"),
        ("latency", f"{report.latency_ms:.3f} ms at {data['clock_mhz']} MHz"),
        ("rate", f"{data['inferences_per_second']:,.0f}/s on {report.cores} core{'s' * (report.cores > 1)}, "
                 "the accelerator alone"),
        *([("board", _board(data["board"]))] if data["board"] else []),
        ("array", f"{report.macs:,} MACs, {report.utilization:.1%} of {report.array_macs_per_cycle} MACs/cycle"),
        *([("steady", _steady(data["steady"]))] if data["steady"] else []),
    ]  # fmt: skip


def _board(found: dict[str, Any]) -> str:
    """The estimate of what the board gives, or why there is none."""
    if found["unknown"]:
        return f"not estimated with host work on {found['name']}: {found['unknown']}"
    return (
        f"{found['inferences_per_second']:,.0f}/s on {found['name']} with host work, {found['latency_ms']:.3f} ms from "
        f"input to output (estimate: {found['host_instructions']:,} instructions at "
        f"{found['instructions_per_second'] / 1e9:g} G a second of a {found['processor']})"
    )


def _steady(found: dict[str, Any]) -> str:
    """What cores and CPU give that work on different inferences."""
    threads = f"{found['jobs']} thread{'s' * (found['jobs'] > 1)}"
    measured = found["measured_per_second"]
    return (
        f"{found['inferences_per_second']:,.0f}/s with {found['in_flight']} in flight: a result takes the cores "
        f"{found['cores_ms']:.3f} ms and the CPU, {threads}, {found['host_ms']:.3f} ms at the same time"
        + (f"; measured {measured:,.0f}/s" if measured else "")
    )


def print_report(report: Report, console: Console) -> None:
    """Print the layer table and the totals."""
    data = report.to_dict()
    console.print(layer_table(report, console.width))
    console.print()
    rows = [
        *_measured(report, data),
        ("DRAM", f"{data['dram_read_bytes']:,} bytes read, {data['dram_write_bytes']:,} written"),
        ("program", f"{data['instructions']:,} instructions, {data['uops']:,} micro-ops"),
        ("here", f"{_compiled(data['compile_s'])}; {report.inferences} on {report.device} in "
                 f"{report.timings.launch_s:.2f} s, packing {data['pack_ms']:.2f} ms each, "
                 f"unpacking {data['unpack_ms']:.2f} ms, CPU operators {data['cpu_ms']:.2f} ms"),
    ]  # fmt: skip
    console.print(Text(f"{report.artifact.name} on {data['config']}, device {report.device}", style="bold"))
    for name, value in rows:
        console.print(Text(f"{name:>8}  {value}"), soft_wrap=True)
    for line in data["measured"]:
        console.print(Text(f"measured  {line}"), soft_wrap=True)
    for note in report.notes[:_MOST_NOTES]:
        console.print(Text(f"    note  {note}", style="yellow"), soft_wrap=True)
    if len(report.notes) > _MOST_NOTES:
        console.print(Text(f"    note  and {len(report.notes) - _MOST_NOTES} more; the JSON report has all", "yellow"))


def _compiled(seconds: float) -> str:
    return f"compiled in {seconds:.2f} s" if seconds else "compiled before"
