"""What the keys of a report mean: the tables of ``docs/reports.md``. Keys that belong together share an entry."""

from __future__ import annotations

#: of :meth:`tilewright.runtime.report.report.Report.to_dict`
REPORT: dict[tuple[str, ...], str] = {
    ("format",): "counts up when a key goes or changes its meaning",
    ("model", "config", "device", "inferences"): "what ran, on what, how often",
    ("digests",): "SHA-256 of all inputs and of all outputs with types and shapes",
    ("config_fingerprint", "config_parameters"): "the Config, exactly",
    ("cycles",): "from start to done, instruction fetch included; the sum over the programs",
    ("lower_bound_cycles", "lower_bound_ratio"): "the sum of the programs' lower bounds; `cycles` divided by it",
    ("lower_bounds",): "cycles that array, ALU, read channel and write channel have to work, all programs",
    ("array_cycles",): "array cycles of all layers, whole blocks",
    ("macs",): "multiply-accumulates in the channels that the compiler kept",
    ("macs_of_model",): "those of all operators of the model file, wherever they run, no channel dropped",
    ("array_macs_per_cycle",): "BATCH x BLOCK_IN x BLOCK_OUT",
    ("utilization",): "`useful` multiplications of all layers / (`cycles` x `array_macs_per_cycle`)",
    ("cycles_by_cause",): "where the cycles went, all layers",
    ("dram_read_bytes", "dram_write_bytes"): "bytes on the bus, instruction fetch included, whole beats",
    ("instructions", "uops", "uops_issued"): (
        "instructions of the programs; micro-ops loaded, and executed by GEMM and ALU"
    ),
    ("clock_mhz", "latency_ms"): "the Config's clock; accelerator time alone, other cores at rest",
    ("cores", "interval_cycles", "inferences_per_second"): (
        "accelerators; cycles from one result to the next while all are busy; results a second from that"
    ),
    ("board",): "an estimate with the host's work on the Config's board (below); null without a board",
    ("pack_ms", "unpack_ms", "cpu_ms"): (
        "what this machine took for packing, unpacking, and operators on the CPU; processor time with inferences in "
        "flight"
    ),
    ("with_host_ms", "with_host_per_second"): (
        "`latency_ms` and the rate with these three added, for a machine that hosts the accelerator"
    ),
    ("stream",): "whether states went on from one inference to the next",
    ("steady",): (
        "with inferences in flight, else null: `jobs` threads, at most `in_flight` inferences; `cores_ms`, `host_ms` a "
        "result, the `busiest` of both, `inferences_per_second` by it; `measured_per_second` on a real device"
    ),
    ("compile_s",): "seconds of import and compilation; 0 for an artifact from a file or the cache",
    ("simulate_s", "host"): (
        "seconds for all inferences: of the device; of the host (`pack_s`, `launch_s`, `unpack_s`, `host_s`)"
    ),
    ("interpreted_ms",): "of each interpreter step its `operators` and `ms` an inference on this machine",
    ("measured", "outputs"): (
        "outputs against the interpreter's on the sample inputs of compiling: in words; for each output `elements`, "
        "how many `differ`, the `largest` and `mean` difference in `unit`, `snr_db`"
    ),
    ("engines",): "busy cycles of each engine and their share; LOAD and STORE are busy from issue to retire",
    ("stalls",): "idle cycles by `ENGINE.cause`, as the timing contract counts them",
    ("operators",): "each operator of the model file: where it runs, why, and how its integers are known",
    ("notes",): "what to know before trusting the numbers",
    ("layers",): "the layers (below)",
}

#: of the key ``board``
BOARD: dict[tuple[str, ...], str] = {
    ("name", "processor"): "the Config's board; a Cortex-A9 on Zynq-7000, a Cortex-A53 on Zynq UltraScale+",
    ("host_instructions",): "instructions of one inference with the C runtime on 32-bit ARM, from each step's shapes",
    ("instructions_per_second", "host_ms"): "a guess for the processor; the time by it",
    ("latency_ms",): "one inference on one core: accelerator, then host",
    ("inferences_per_second",): (
        "many inferences: the host packs while the accelerator works, so the slower of both decides"
    ),
    ("unknown",): ("why these are null, else empty: operators that run in an interpreter, programs that share memory"),
}

#: of each layer of an accelerator's program; those of the second part are not there where they would say nothing
LAYER: dict[tuple[str, ...], str] = {
    ("name", "op", "place", "title"): "the operator, where it ran, and what the model file calls its result",
    ("cycles",): "those that belong to it (below)",
    ("array_cycles", "alu_cycles", "read_bytes", "write_bytes"): "its part of the lower bound",
    ("alone_cycles",): "its lower bound if it ran alone",
    ("lower_bound_cycles", "lower_bound_ratio"): (
        "the same less what was served in cycles of other layers, never above `cycles`; `cycles` divided by it"
    ),
    ("macs", "useful"): (
        "multiply-accumulates of the operator; multiplications that its result needs: no blocks of zeros, one for each "
        "value that a pool adds up"
    ),
    ("utilization",): "`useful` / (`cycles` x `array_macs_per_cycle`)",
    ("cycles_by_cause", "bound", "why"): "where its cycles went, the main cause, and a sentence that explains it",
}
SOME_LAYERS: dict[tuple[str, ...], str] = {
    ("tensor", "shape", "input_shapes", "weight_shape"): "its output by the name in the model file, and the shapes",
    ("channels_dropped", "macs_dropped"): (
        "output channels that the compiler dropped, by reason, and their multiply-accumulates"
    ),
    ("reason",): "why a layer is the host's",
}

#: of ``cycles_by_cause``: in the order of :data:`tilewright.runtime.attribution.CAUSES`, the cycles in which ...
CAUSES: dict[tuple[str, ...], str] = {
    ("compute",): "the array would be full with the layer's `useful` multiplications",
    ("padding",): (
        "the array worked besides: lanes without channels, missing taps, columns that fill a window, work done twice"
    ),
    ("half-pace",): "a result took its second cycle (window mode with `dsp_packing`)",
    ("load",): "the awaited LOAD was between issue and retire",
    ("store",): "the awaited STORE was between issue and retire",
    ("alu",): "the awaited ALU instruction executed, or ALU worked for this vector layer",
    ("fetch",): "the awaited instruction had not been dispatched",
    ("latency",): "the awaited instruction drained through its pipeline, a token travelled, or a WAIT ran",
}
