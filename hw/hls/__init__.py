"""The accelerator in Vitis HLS C++ (``kernels/``), its generated header, and its native build.

Each engine is a free-running kernel: one call is one instruction, taken from a command stream; twelve token streams and
four retire streams connect the kernels. The memories lie outside, one RAM port per bank and slice: the verifier
guarantees that a bank never has two readers or two writers at once, so the top module combines requests without
arbitration. With two memory ports each kernel that moves data has two AXI masters (``gmem``, ``gmem1``); those of the
first port meet at HP0, those of the second at HP1.

Kernels leave out what differs between tool versions: structs on streams and buses, names of constants in pragmas,
``mode=``, ``type=`` and ``storage_type=`` in pragmas, classes for manual bursts. The reason for every II, partition and
dependence pragma stands beside it.
"""
