"""Configurations as text, for the full command line and for the one that needs nothing but NumPy."""

from __future__ import annotations

from tilewright.config import KIB, PRESETS, Config, load_config


def listing() -> str:
    """The presets with their main parameters, a line each."""
    heads = ("preset", "batch x in x out", "weights", "act", "wgt", "acc", "AXI", "clock", "DSPs")
    rows = [heads, *(_summary(name, config) for name, config in PRESETS.items())]
    widths = [max(len(row[k]) for row in rows) for k in range(len(heads))]
    return "".join("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() + "\n" for row in rows)


def shown(name: str) -> str:
    """A preset or a ``.toml`` file as TOML, every parameter."""
    config = load_config(name)
    return f"# fingerprint {config.fingerprint}\n{config.to_toml()}"


def _summary(name: str, c: Config) -> tuple[str, ...]:
    return (
        name,
        f"{c.batch}x{c.block_in}x{c.block_out}",
        f"int{c.weight_bits}",
        *(f"{size // KIB} KiB" for size in (c.act_bytes, c.wgt_bytes, c.acc_bytes)),
        f"{c.axi_bits} bit",
        f"{c.clock_mhz} MHz",
        "packed" if c.dsp_packing else "single",
    )
