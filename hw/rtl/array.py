"""The multiplier array: BATCH x BLOCK_OUT dot products of BLOCK_IN, dense or over the window."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value, signed

from tilewright.config import Config
from tilewright.hw.rtl.primitives import multiply, multiply_pair


def tree(terms: list[Value]) -> Value:
    """The sum of signed terms by pairs."""
    while len(terms) > 1:
        terms = [a + b for a, b in zip(terms[::2], terms[1::2])] + ([terms[-1]] if len(terms) % 2 else [])
    return terms[0]


class MultiplierArray(Elaboratable):
    """Operands in stages 6 and 7 of GEMM, sums in stage 11.

    push, first, unit (stage 6): unit enters the window, which ``first`` clears before. vector, window_6 (stage
    6): the dense operand. weights, emit_7, window_7 (stage 7). sums (stage 11): int32 in acc order (unit, batch,
    lane); in window mode the first unit counts.

    With dsp_packing two outputs share a multiplier and its operand. In window mode they have none in common:
    stage 7 multiplies for even lanes, and a cycle later, from a copy of the window, for odd lanes.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.push, self.first, self.window_6 = Signal(), Signal(), Signal()
        self.unit = Signal(8 * config.act_unit_bytes)
        self.vector = Signal(8 * config.act_unit_bytes * config.in_units)
        self.weights = Signal(8 * config.wgt_entry_bytes)
        self.emit_7, self.window_7 = Signal(), Signal()
        self.sums = Signal(32 * config.batch * config.block_out)

    def elaborate(self, platform: object) -> Module:
        """Window, operands, products, trees."""
        m = Module()
        c = self.config
        v = c.lanes
        self._window = [
            [[Signal(signed(8), name=f"window_{t}_{b}_{l}", reset_less=True) for l in range(v)] for b in range(c.batch)]
            for t in range(c.block_in)
        ]
        units = [self.unit[8 * k : 8 * k + 8].as_signed() for k in range(c.batch * v)]
        with m.If(self.push & self.window_6):
            for t, images in enumerate(self._window):
                for b, lanes in enumerate(images):
                    for l, value in enumerate(lanes):
                        if t == 0:
                            m.d.sync += value.eq(units[b * v + l])
                        else:
                            m.d.sync += value.eq(Mux(self.first, 0, self._window[t - 1][b][l]))
        # the dense operand: channel k of image b is unit k // V, lane k % V
        self._dense = [
            [Signal(signed(8), name=f"dense_{b}_{k}", reset_less=True) for k in range(c.block_in)] for b in range(c.batch)
        ]
        with m.If(self.push & ~self.window_6):
            for b, row in enumerate(self._dense):
                for k, value in enumerate(row):
                    at = 8 * ((k // v) * c.batch * v + b * v + k % v)
                    m.d.sync += value.eq(self.vector[at : at + 8])
        sums = self._packed(m) if c.dsp_packing else self._plain(m)
        order = [sums[b][j * v + l] for j in range(c.out_units) for b in range(c.batch) for l in range(v)]
        m.d.comb += self.sums.eq(Cat(*order))
        return m

    def _weight(self, o: int, k: int) -> Value:
        bits = self.config.weight_bits
        at = (o * self.config.block_in + k) * bits
        return self.weights[at : at + bits].as_signed()

    def _stage(self, m: Module, value: Value, bits: int, name: str) -> Signal:
        register = Signal(signed(bits), name=name, reset_less=True)
        m.d.sync += register.eq(value)
        return register

    def _plain(self, m: Module) -> list[list[Signal]]:
        """Stage 8: multiplier inputs; 9: products; 10: sums of four; 11: sums."""
        c = self.config
        result = []
        for b in range(c.batch):
            row = []
            for o in range(c.block_out):
                products = []
                for k in range(c.block_in):
                    x: Value = self._dense[b][k]
                    if o < c.lanes:
                        x = Mux(self.window_7, self._window[k][b][o], x)
                    operand = Signal(signed(8), name=f"x_{b}_{o}_{k}")
                    m.d.comb += operand.eq(x)
                    products.append(multiply(m, f"multiply_{b}_{o}_{k}", operand, self._weight(o, k)))
                partial = [
                    self._stage(m, tree(products[k : k + 4]), 18, f"partial_{b}_{o}_{k // 4}")
                    for k in range(0, c.block_in, 4)
                ]
                row.append(self._stage(m, tree(partial), 32, f"sum_{b}_{o}"))
            result.append(row)
        return result

    def _packed(self, m: Module) -> list[list[Signal]]:
        """Stage 8: products; 9: sums of four; 10: sums; 11: dense and even sums wait for the odd ones of the window."""
        c = self.config
        v = c.lanes
        second = Signal()  # stage 8 of a window emit: the odd lanes' turn
        m.d.sync += second.eq(self.emit_7 & self.window_7)
        windowed = [self.window_7]
        for stage in range(8, 11):
            later = Signal(name=f"window_{stage}", reset_less=True)
            m.d.sync += later.eq(windowed[-1])
            windowed.append(later)
        result = []
        for b in range(c.batch):
            row = []
            for o in range(0, c.block_out, 2):
                lows, highs = [], []
                for k in range(c.block_in):
                    x: Value = self._dense[b][k]
                    if o < v:
                        odd = self._stage(m, self._window[k][b][o + 1], 8, f"odd_{b}_{o}_{k}")
                        x = Mux(second, odd, Mux(self.window_7, self._window[k][b][o], x))
                    operand = Signal(signed(8), name=f"x_{b}_{o}_{k}")
                    m.d.comb += operand.eq(x)
                    w0, w1 = (
                        self._extended(m, self._weight(o + i, k), f"w_{b}_{o + i}_{k}") for i in range(2)
                    )
                    low, high, carry = multiply_pair(m, f"multiply_{b}_{o}_{k}", operand, w0, w1)
                    lows.append(low)
                    highs.append(high + carry)
                sums = []
                for i, products in enumerate((lows, highs)):
                    partial = [
                        self._stage(m, tree(products[k : k + 4]), 18, f"partial_{b}_{o + i}_{k // 4}")
                        for k in range(0, c.block_in, 4)
                    ]
                    sums.append((self._stage(m, tree(partial), 32, f"early_{b}_{o + i}"), tree(partial)))
                row.append(self._stage(m, sums[0][0], 32, f"sum_{b}_{o}"))
                # an odd window sum comes a cycle later than a dense one: its stage 10 is this stage's 11
                late = Mux(windowed[3], sums[1][1], sums[1][0])
                row.append(self._stage(m, late, 32, f"sum_{b}_{o + 1}"))
            result.append(row)
        return result

    def _extended(self, m: Module, weight: Value, name: str) -> Signal:
        signal = Signal(signed(8), name=name)
        m.d.comb += signal.eq(weight)
        return signal
