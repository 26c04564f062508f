"""The multiplier array: BATCH x BLOCK_OUT dot products of BLOCK_IN, dense or over the window."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value

from tilewright.config import Config
from tilewright.hw.rtl.functions import wire
from tilewright.hw.rtl.primitives import dot, dot_pair
from tilewright.hw.rtl.sequencer import delay


class MultiplierArray(Elaboratable):
    """Operands in stages 6 and 7 of GEMM, sums in stage 11.

    push, first, unit (stage 6): unit enters the window, which ``first`` clears before; with twin_6 ``second`` enters
    its second half, into which what leaves the first one goes else. vector, window_6 (stage 6): the dense operand.
    weights, emit_7, window_7 (stage 7; weights with dsp_packing in stage 6). sums (stage 11): int32 in acc order
    (unit, batch, lane); in window mode the first unit counts.

    With dsp_packing two outputs share a multiplier and its operand. In window mode they have none in common:
    stage 7 multiplies for even lanes, and a cycle later for odd lanes. Its sums are all less one (``less``).
    pair_7: the two are results of one lane; the second ones follow in the slot behind, with emit_7 and window_7 too.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.less = int(config.dsp_packing)
        self.push, self.first, self.window_6 = Signal(), Signal(), Signal()
        self.twin_6 = Signal()
        self.unit, self.second = Signal(8 * config.act_unit_bytes), Signal(8 * config.act_unit_bytes)
        self.vector = Signal(8 * config.act_unit_bytes * config.in_units)
        self.weights = Signal(8 * config.wgt_entry_bytes)
        self.emit_7, self.window_7, self.pair_7 = Signal(), Signal(), Signal()
        self.sums = Signal(32 * config.batch * config.block_out)

    def elaborate(self, platform: object) -> Module:
        """Window and dense operand, then a dot product per output and image."""
        m = Module()
        c = self.config
        v, size = c.lanes, 8 * c.block_in
        # the window by lane, newest tap lowest: what lane l multiplies with its row of the weights
        window = [[Signal(size, name=f"window_{b}_{l}", reset_less=True) for l in range(v)] for b in range(c.batch)]
        with m.If(self.push & self.window_6):
            for b, lanes in enumerate(window):
                m.d.sync += [taps.eq(self._pushed(b, l, taps, ~self.first)) for l, taps in enumerate(lanes)]
        dense = [Signal(size, name=f"dense_{b}", reset_less=True) for b in range(c.batch)]
        with m.If(self.push & ~self.window_6):
            for b, vector in enumerate(dense):
                m.d.sync += vector.eq(self._vector(b))
        row_of_sums = self._packed if c.dsp_packing else self._plain
        sums = [row_of_sums(m, b, dense[b], window[b]) for b in range(c.batch)]
        order = [sums[b][j * v + l] for j in range(c.out_units) for b in range(c.batch) for l in range(v)]
        m.d.comb += self.sums.eq(Cat(*order))
        return m

    def _pushed(self, b: int, l: int, taps: Signal, keep: Value) -> Value:
        """A lane's window with the unit in it, or both units, before that cleared or kept."""
        at, half = 8 * (b * self.config.lanes + l), len(taps) // 2
        older = Mux(keep, taps[: len(taps) - 8], 0)
        if not self.config.dsp_packing:
            return Cat(self.unit[at : at + 8], older)
        middle = Mux(self.twin_6, self.second[at : at + 8], older[half - 8 : half])
        return Cat(self.unit[at : at + 8], older[: half - 8], middle, older[half:])

    def _vector(self, b: int) -> Value:
        """The dense operand: channel k of image b is unit k // V, lane k % V."""
        c, v = self.config, self.config.lanes
        places = [8 * ((k // v) * c.batch * v + b * v + k % v) for k in range(c.block_in)]
        return Cat(*[self.vector[at : at + 8] for at in places])

    def _weights(self, o: int) -> Value:
        bits = self.config.block_in * self.config.weight_bits
        return self.weights[o * bits : (o + 1) * bits]

    def _plain(self, m: Module, b: int, dense: Signal, window: list[Signal]) -> list[Signal]:
        """Stage 8: multiplier inputs; 9: products; 10: sums of four; 11: sums."""
        c = self.config
        sums = []
        for o in range(c.block_out):
            x = Mux(self.window_7, window[o], dense) if o < c.lanes else dense
            sums.append(dot(m, f"dot_{b}_{o}", c.block_in, c.weight_bits, x, self._weights(o)))
        return sums

    def _packed(self, m: Module, b: int, dense: Signal, window: list[Signal]) -> list[Signal]:
        """Stage 7: pairs of weights joined; 8: sums of two products; 9, 10: sums; 11: dense and even sums have waited
        for the odd ones.

        Where an operand may come from the window, a register of stage 7 holds what is multiplied there.
        """
        c = self.config
        second_7 = Signal(name=f"second_{b}_7")  # stage 7 of a window emit has the odd lanes' turn
        # next in stage 7 of a window emit: the odd lanes
        second = wire(m, f"second_{b}", self.emit_7 & self.window_7 & ~second_7)
        m.d.sync += second_7.eq(second)
        # two bits choose: the window with the unit in it, cleared or kept; the dense operand; the odd lane's window
        other = wire(m, f"other_{b}", second | ~self.window_6)
        taken = wire(m, f"taken_{b}", second | (self.window_6 & ~self.first))
        window_10 = delay(m, self.window_7, 3, f"window_{b}_from_7")[3]
        firsts, seconds = delay(m, self.pair_7, 4, f"pair_{b}_from_7")[3:]  # stage 10 of a pair's first and second slot
        sums: list[Signal] = []
        for o in range(0, c.block_out, 2):
            x: Value = dense
            turns = (Const(0), Const(0), Const(0))
            if o < c.lanes:
                x = Signal(len(dense), name=f"operand_{b}_{o}", reset_less=True)
                turns = (window_10 & ~seconds, firsts, seconds)
                pushed = self._pushed(b, o, window[o], taken)
                with m.If(self.push | second):
                    m.d.sync += x.eq(Mux(other, Mux(taken, window[o + 1], self._vector(b)), pushed))
            sums += dot_pair(
                m, f"dot_{b}_{o}", c.block_in, c.weight_bits, x, self._weights(o), self._weights(o + 1), *turns
            )
        return sums
