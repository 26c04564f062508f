"""What the neighbours of a point would change: each parameter doubled and halved, by the analytical models.

This is what an engineer asks of a point on the front: would a larger buffer help, what would a narrower bus save? The
answer is the change of every metric, or the named reason why the neighbour cannot be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.config import Config
from tilewright.dse.evaluate import Evaluator, cost
from tilewright.dse.options import CompilerOptions
from tilewright.errors import TilewrightError

#: parameters asked about, in the order of a data path
DOUBLED = (
    "block_in", "block_out", "batch", "weight_bits", "act_bytes", "act_banks", "wgt_bytes", "acc_bytes", "acc_banks",
    "prm_entries", "uop_gemm_bytes", "uop_alu_bytes", "axi_bits", "axi_ports", "burst_beats", "outstanding",
    "queue_depth", "fetch_beats", "cores",
)  # fmt: skip
NOTHING = 1e-3  #: share of a metric below which a change is not worth a mention
#: parameters that the latency model does not see, but for what they do to the width of instructions
UNSEEN = ("act_banks", "queue_depth", "fetch_beats", "uop_alu_bytes", "uop_gemm_bytes")


def neighbours(config: Config) -> Iterator[tuple[str, Any]]:
    """(parameter, value) one step from ``config``: halves, doubles, and the switch of DSP packing."""
    for name in DOUBLED:
        value = getattr(config, name)
        yield from ((name, changed) for changed in (value // 2, value * 2) if changed)
    yield "dsp_packing", not config.dsp_packing


def what_if(
    evaluator: Evaluator, config: Config, options: CompilerOptions | None = None
) -> list[dict[str, Any]]:  # fmt: skip
    """One mapping per neighbour of a Config that runs every network: ``parameter``, ``from``, ``to``, and either

    ``change``: per metric its value less the Config's own, and ``relative``, the same as shares of the Config's own;
    ``over`` says why the neighbour exceeds the board, if it does. Or ``reason``: why the neighbour cannot be at all.
    """
    own = _metrics(evaluator, config, options)
    found = []
    for name, value in neighbours(config):
        entry: dict[str, Any] = {"parameter": name, "from": getattr(config, name), "to": value}
        try:
            changed = evaluator.clocked(config.replace(**{name: value}))
            then = _metrics(evaluator, changed, options)
        except TilewrightError as error:
            entry["reason"] = str(error)
        else:
            entry["change"] = {metric: round(then[metric] - own[metric], 4) for metric in own}
            entry["relative"] = {m: round(then[m] / own[m] - 1, 5) for m in own if own[m]}
            if (over := evaluator.unfit(changed)) is not None:
                entry["over"] = over
            if name in UNSEEN and not entry["change"]["latency"]:
                entry["unseen"] = True
        found.append(entry)
    return found


def _metrics(evaluator: Evaluator, config: Config, options: CompilerOptions | None) -> Mapping[str, float]:
    layers = evaluator.layers(config, options)
    cycles = {name: estimate.cycles for name, estimate in layers.items()}
    spent = evaluator.spent(config, layers, options)
    return evaluator.metrics(config, cycles, spent, evaluator.intervals(config, cycles, layers))


def advice(entries: Sequence[Mapping[str, Any]], objective: str) -> dict[str, Any]:
    """What :func:`what_if` amounts to, of the neighbours that fit the board; changes below 0.1 % count for nothing.

    ``step``: the neighbour that gains most in ``objective`` (None if none gains); ``free``: neighbours that lose
    nothing in any metric and gain in one, so that the point is larger or narrower than it needs to be.
    """
    possible = [e for e in entries if "change" in e and "over" not in e]
    costs = [_costs(entry) for entry in possible]
    gains = {k: -found.get(objective, 0.0) for k, found in enumerate(costs)}
    best = max(gains, key=gains.__getitem__, default=None)
    free = [
        {name: e[name] for name in ("parameter", "from", "to", "change")}
        for e, found in zip(possible, costs, strict=True)
        if not e.get("unseen") and all(c <= 0 for c in found.values()) and any(c < 0 for c in found.values())
    ]
    return {"step": possible[best] if best is not None and gains[best] > 0 else None, "free": free}


def _costs(entry: Mapping[str, Any]) -> dict[str, float]:
    """Changes of a neighbour as costs, those that round to nothing left at 0."""
    relative = entry.get("relative", {})
    return {m: cost(m, value) if abs(relative.get(m, 1)) >= NOTHING else 0.0 for m, value in entry["change"].items()}
