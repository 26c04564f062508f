"""The prose of the ISA reference page: what each instruction does, in the terms of the declaration's fields."""

from __future__ import annotations

from tilewright.isa.spec import Opcode

INTRODUCTION = """\
A program is a straight line of instructions for four engines, LOAD, GEMM, ALU and STORE. Each engine has a command
queue and runs its instructions in order; the engines run at once, ordered by tokens only. Instructions are *tasks*:
GEMM, ALU, REQUANTIZE and RESCALE run a list of *micro-ops* from the engine's micro-op memory in two affine loops.

Everything below is generated from the declaration in `isa/spec.py` by `python -m tilewright.isa.reference_page`.
When each instruction issues and retires is in `docs/timing.md`.
"""

UNITS = """\
`lanes` = min(BLOCK_IN, BLOCK_OUT). act and acc are addressed in **units** of BATCH x lanes elements, everywhere:
instructions, micro-ops, banks. A dense GEMM operand spans `in_units` = BLOCK_IN / lanes consecutive units; a dense
GEMM result and an ALU vector span `out_units` = BLOCK_OUT / lanes units, of acc or of act. Spans start at a
multiple of their length. Channel c of a vector is unit c // lanes, lane c % lanes. Window mode works on single
units. One of the two spans is 1, and both are where the blocks are equal.

wgt and prm are addressed in whole entries, DRAM in AXI beats. In DRAM and in memory a unit is `[batch][lane]`; a
wgt entry is `[BLOCK_OUT][BLOCK_IN]` weights, row-major, 4- and 2-bit weights packed little-endian, low bits first;
a prm entry is BLOCK_OUT times (bias, multiplier, offset, shift) as int32.

The bank of a unit is `address // act_bank_units` (`acc_bank_units` for acc). Every bank does one read and one write
(of a unit or of an aligned span) a cycle, for one reading and one writing engine at a time. wgt, prm and the
micro-op memories are one bank each.

An act operand is an **offset** into the instruction's wrap region: address = `wrap_base` + (offset if offset <
`wrap_size` else offset - `wrap_size`). So rows of a layer can live in a ring.
"""

TOKENS = """\
Every ordered pair of engines has a token queue (12 in all). An instruction's `pop` mask makes it wait, before it
issues, for one token from each marked engine; its `push` mask sends one token to each marked engine when it
retires. A mask has a bit for each of the three *other* engines, in engine order:

| engine | bit 0 | bit 1 | bit 2 |
|---|---|---|---|
"""

LOOPS = """\
GEMM, ALU, REQUANTIZE and RESCALE run

    for o in range(outer):
        for i in range(inner):
            for u in uops[uop_begin : uop_begin + uop_count]:
                address of x = u.x + x + o * x_outer + i * x_inner    # each operand x of dst, src, wgt, prm

one micro-op a cycle, or one every two cycles with `pace` = 1. Nothing wraps but act offsets (see above).
"""

SEMANTICS: dict[Opcode, str] = {
    Opcode.LOAD: """\
For r in rows, c in cols: `memory[sram + r * sram_row + c * sram_col]` = the next entry of row r. Row r starts at
beat `offset + r * stride` of the segment and is contiguous. For ACT, the sum is an offset into the wrap region;
other memories ignore the wrap fields. ACC8 reads int8 units and widens them to int32. Entries are written in order.
Micro-ops come from constant segments; where a beat holds several, `sram`, `cols` and (if rows > 1) `sram_row` are
whole beats and `sram_col` is 1.
""",
    Opcode.FILL: """\
Writes `value` to all elements of the units that a LOAD with the same fields would write. Memory ACT or ACC.
""",
    Opcode.STORE: """\
The reverse of LOAD, from act: row r of the tile goes to beat `offset + r * stride` of an output or scratch segment,
contiguously. Tokens are pushed after the last write response, so a STORE -> LOAD token orders a read of what was
written.
""",
    Opcode.GEMM: """\
*Dense* (`window` = 0): `acc[d][b, o] = (accumulate ? acc[d][b, o] : 0) + sum_k act[s][b, k] * wgt[w][o, k]`, in
int32, wrapping. Accumulation to one address in successive cycles is exact.

*Window* (`window` = 1): a shift register of BLOCK_IN units starts as zeros with each instruction. Each micro-op
pushes `act[s]`: `window[t] = window[t-1]` for t >= 1, then `window[0] = act[s]`. If the micro-op's `dst` field is
not all ones it then *emits*: for lane c and image b, `v = sum_t window[t][b, c] * wgt[w][c][t]`, and `acc[d][b, c]
= (accumulate ? acc[d][b, c] : 0) + v`. The all-ones test is on the field, before base and loops are added. A
micro-op that only pushes uses neither `dst` nor `wgt`. With `dsp_packing` an emit takes the multipliers for two
cycles: emits of one instruction are at least two cycles apart, and with `pace` = 0 a window instruction takes one
cycle more, for the second half of its last emit.
""",
    Opcode.ALU: """\
`acc[d] = acc[d] OP operand`, elementwise, int32. The operand is `imm` if `use_imm`, else `acc[s]`. A function that
does not depend on `acc[d]`, or on the operand, does not read it. With two acc operands (`use_imm` = 0, a function of
both) and `pace` = 0, the two lie in different banks.

With x = `acc[d]` and y the operand; exact, and only then taken modulo 2^32. `signed(v, n)` is the low n bits of v as a
signed number; `shift_right` by a negative count shifts left.
""",
    Opcode.REQUANTIZE: """\
`act[d] = clamp((((acc[s] + bias) * multiplier + half + offset + nudge) >> shift) + zero_point, lo, hi)`, per channel,
with bias, multiplier, offset and shift from `prm[p]`; `isa/arithmetic.py` is the exact definition. `half` is 2^(shift -
1), or 0 for shift 0. The rounding mode says what the nudge is, given whether `acc[s] + bias` is negative, and what
becomes of ties. With CONSTANT the instruction reads neither acc nor prm and writes clamp(`zero_point`) everywhere.
""",
    Opcode.RESCALE: """\
`r = (((act[s] << 20) + bias) * multiplier + half + offset + nudge) >> shift`, per channel, unclamped, wrapped to int32,
with the rounding modes of REQUANTIZE, CONSTANT excepted; then, with x = `acc[d]` and y = r, by `combine`. WRITE does
not read `acc[d]`.
""",
    Opcode.WAIT: """\
Nothing, for `cycles` cycles, on `engine`. Carries tokens where an instruction has too few bits, and keeps
distances.
""",
}

LEGALITY = """\
`tilewright verify` (`tilewright.isa.verifier.verify`) decides every rule exactly. The compiler runs it on all that
it emits, the runtime on all that it loads. Each error names the instruction, the rule, the address or limit, and
the other instruction.

*Order.* Instruction A happens before B if they run on the same engine and A comes first, or if a chain of such
pairs and of tokens (the k-th push of a queue to its k-th pop) leads from A to B. A retires before its tokens can be
popped. "Ordered" means this; idle time never orders anything.

Operands that an instruction does not use (see above) are not read: `src` of an ALU with `use_imm`, `src` and `prm`
of REQUANTIZE with CONSTANT, `dst` and `wgt` of a push, `acc[d]` where a micro-op does not accumulate. Within one
instruction, an accumulation may follow the write it adds to.

Because program order is a valid execution, a legal program cannot deadlock, whatever the queue depths and timing.

| rule | what must hold |
|---|---|
"""

ASSEMBLY = """\
`tilewright asm` and `tilewright disasm` convert between program files and text; text from disasm gives the
identical file back. A line holds one directive or instruction; `;` starts a comment (but not in a `.meta` line).

    .config tiny                                  ; a preset, a .toml file, or { lines of TOML }
    .segment k constant size=64 {                 ; name, kind, bytes; data only in a block
        .uop_gemm dst=0 src=1 wgt=0 accumulate=1  ; one micro-op
        .hex 00ff1c                               ; bytes
        .i8 -1 127                                ; numbers
        .i32 100000
        .zero 12                                  ; so many zero bytes
    }
    .segment x input size=4096 repeat_stride=4096
    .meta note {"any": "JSON"}
    load act cols=4 sram_col=1 wrap_size=64 segment=x push(gemm)
    wait gemm cycles=3 pop(load) trace

An instruction is its name in lower case; then, for `load` and `fill`, the memory, for `alu` the function, for
`wait` the engine; then `field=value` in any order. A field left out is 0, or 1 if it is a count. Enum values are
written by name, segments by name or number. `.config` comes first, segments before instructions.
"""
