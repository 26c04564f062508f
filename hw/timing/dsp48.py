"""Delays of a DSP48 slice by pin and way, and which of them a configuration has.

``XC7`` is Project X-Ray's SDF for the speed grade -1, ``zynq7/timings/DSP_L.sdf`` of github.com/f4pga/prjxray-db, the
slow corner, rounded to 0.01 ns. A way is in the entry's name: ``added`` has USE_DPORT_TRUE, ``multiplied``
USE_DPORT_FALSE and USE_MULT_MULTIPLY, ``direct`` USE_MULT_NONE or no such word; all have NO_PATDET.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ByPin = Mapping[str, float]


@dataclass(frozen=True)
class SliceDelays:
    """ns by pin, or by the register that a path leaves; by way first where there are several."""

    setup: ByPin  #: SETUP of an input with a register of its own: DSP48E1_AREG_1_A_INPUT_DIRECT
    control: ByPin  #: SETUP of clock enables and resets: CEP of DSP48E1_PREG_1
    to_sum: ByPin  #: SETUP of the pre-adder's register: A of DSP48E1_ADREG_1_AREG_0_A_INPUT_DIRECT
    to_product: Mapping[str, ByPin]  #: SETUP of register M: A of DSP48E1_AREG_0_A_INPUT_DIRECT_MREG_1_...
    to_result: Mapping[str, ByPin]  #: SETUP of register P: C of DSP48E1_CREG_0_PREG_1_...
    through: Mapping[str, ByPin]  #: IOPATH to P without register: A of DSP48E1_ADREG_0_AREG_0_..._PREG_0_...
    launch: Mapping[str, ByPin]  #: IOPATH CLK P, by the last register before: DSP48E1_MREG_1_PREG_0
    result_cq: float  #: IOPATH CLK P of DSP48E1_PREG_1
    cascade: float  #: how much later PCOUT is than P, where no register stands before it
    cascade_through: ByPin  #: IOPATH to ACOUT or BCOUT: A of DSP48E1_ACASCREG_0_A_INPUT_DIRECT
    cascade_cq: ByPin  #: IOPATH CLK ACOUT of DSP48E1_ACASCREG_1_AREG_1


XC7 = SliceDelays(
    setup={"A": 0.36, "ACIN": 0.32, "B": 0.45, "BCIN": 0.35, "C": 0.23, "D": 0.41, "INMODE": 0.45, "OPMODE": 0.45,
           "ALUMODE": 0.25, "CARRYIN": 0.30, "CARRYINSEL": 0.21},
    control={"CEA1": 0.50, "CEA2": 0.50, "RSTA": 0.51, "CEB1": 0.51, "CEB2": 0.51, "RSTB": 0.54, "CEC": 0.41,
             "RSTC": 0.08, "CED": 0.51, "CEAD": 0.43, "RSTD": 0.59, "CEM": 0.27, "RSTM": 0.27, "CEP": 0.52,
             "RSTP": 0.35, "CEINMODE": 0.60, "RSTINMODE": 0.69, "CECTRL": 0.42, "RSTCTRL": 0.47, "CEALUMODE": 0.41,
             "RSTALUMODE": 0.41, "CECARRYIN": 0.67, "RSTALLCARRYIN": 0.29},
    to_sum={"A": 1.76, "ACIN": 1.56, "D": 1.63, "INMODE": 2.09},
    to_product={
        "added": {"A": 3.29, "ACIN": 3.09, "D": 3.16, "INMODE": 3.37},
        "multiplied": {"A": 1.93, "ACIN": 1.73, "B": 1.74, "BCIN": 1.50, "INMODE": 2.01},
    },
    to_result={
        "added": {"A": 5.08, "ACIN": 4.88, "D": 4.95, "INMODE": 5.17},
        "multiplied": {"A": 3.72, "ACIN": 3.52, "B": 3.54, "BCIN": 3.29, "INMODE": 3.81},
        "direct": {"A": 1.96, "ACIN": 1.76, "B": 1.94, "BCIN": 1.69, "C": 1.70, "PCIN": 1.40, "OPMODE": 2.21,
                   "ALUMODE": 1.98, "CARRYIN": 1.30, "CARRYINSEL": 1.79, "CARRYCASCIN": 1.03, "MULTSIGNIN": 1.40},
    },
    through={
        "added": {"A": 5.20, "ACIN": 5.00, "D": 5.07, "INMODE": 5.28},
        "multiplied": {"A": 3.84, "ACIN": 3.64, "B": 3.66, "BCIN": 3.41, "INMODE": 3.92},
        "direct": {"A": 2.08, "ACIN": 1.87, "B": 2.06, "BCIN": 1.81, "C": 1.82, "PCIN": 1.52, "OPMODE": 2.33,
                   "ALUMODE": 2.10, "CARRYIN": 1.42, "CARRYINSEL": 1.91, "CARRYCASCIN": 1.15, "MULTSIGNIN": 1.52},
    },
    launch={
        "added": {"AREG": 5.37, "DREG": 5.32, "INMODEREG": 5.47, "ADREG": 3.68},
        "multiplied": {"AREG": 4.01, "BREG": 3.81, "INMODEREG": 4.11},
        "direct": {"AREG": 2.22, "BREG": 2.19, "CREG": 2.29, "OPMODEREG": 2.23, "ALUMODEREG": 2.05, "CARRYINREG": 1.76,
                   "CARRYINSELREG": 1.93, "MREG": 2.31},
    },
    result_cq=0.43, cascade=0.195,
    cascade_through={"A": 0.72, "ACIN": 0.52, "B": 0.74, "BCIN": 0.49},
    cascade_cq={"ACOUT": 0.86, "BCOUT": 0.83},
)  # fmt: skip


def coarse(setup: float, control: float, product: float, multiplied: float, direct: float, m_cq: float,
           p_cq: float) -> SliceDelays:  # fmt: skip
    """Delays of a slice from the few that are known. Each of these stands for all pins and registers of its way.

    The pre-adder adds the same share as in :data:`XC7`.
    """
    pre_added = XC7.to_result["added"]["A"] / XC7.to_result["multiplied"]["A"]
    ways = {"added": round(pre_added * multiplied, 2), "multiplied": multiplied, "direct": direct}
    to_product = {"added": round(product + ways["added"] - multiplied, 2), "multiplied": product}
    by_way = {way: dict.fromkeys(XC7.to_result[way], ns) for way, ns in ways.items()}
    launch = {way: dict.fromkeys(XC7.launch[way], ns) for way, ns in ways.items()}
    return SliceDelays(
        dict.fromkeys(XC7.setup, setup), dict.fromkeys(XC7.control, control), dict.fromkeys(XC7.to_sum, direct),
        {way: dict.fromkeys(XC7.to_product[way], ns) for way, ns in to_product.items()},
        by_way, by_way, {**launch, "direct": {**launch["direct"], "MREG": m_cq}}, p_cq, 0.0,
        dict.fromkeys(XC7.cascade_through, p_cq), dict.fromkeys(XC7.cascade_cq, p_cq),
    )  # fmt: skip


@dataclass
class Ways:
    """What a configuration has: ``ends``, setup by input; ``through``, ns from input to P; ``starts``, ns to P."""

    ends: dict[str, float] = field(default_factory=dict)
    through: dict[str, float] = field(default_factory=dict)
    starts: float | None = None  #: None: no register stands before P


def ways(parameters: Mapping[str, str], inputs: frozenset[str], delays: SliceDelays) -> Ways:
    """A path ends at the first register that it meets: an input's, the pre-adder's, the multiplier's, P."""
    on = {name for name in parameters if is_on(parameters, name)}
    multiplies = parameters.get("USE_MULT") != "NONE"
    adds = "USE_DPORT" in on or "AD" in (parameters.get("AMULTSEL"), parameters.get("BMULTSEL"))
    found = Ways()
    for pin in inputs:
        port = pin[0] if pin in ("ACIN", "BCIN") else pin
        if pin.startswith(("CE", "RST")):
            found.ends[pin] = delays.control[pin]
        elif port == "D" and not adds:
            continue
        elif f"{port}REG" in on:
            found.ends[pin] = delays.setup[pin]
        elif multiplies and adds and port in ("A", "D", "INMODE"):
            _past_adder("added", "ADREG" in on, pin, on, delays, found)
        elif multiplies and port in ("A", "B", "INMODE"):
            _past_adder("multiplied", False, pin, on, delays, found)
        elif "PREG" in on:
            found.ends[pin] = delays.to_result["direct"][pin]
        else:
            found.through[pin] = delays.through["direct"][pin]
    found.starts = _starts(multiplies, adds, on, delays)
    return found


def _past_adder(way: str, kept: bool, pin: str, on: set[str], delays: SliceDelays, found: Ways) -> None:
    """An operand of the multiplier; ``kept``: the pre-adder has a register."""
    if kept:
        found.ends[pin] = delays.to_sum[pin]
    elif "MREG" in on:
        found.ends[pin] = delays.to_product[way][pin]
    elif "PREG" in on:
        found.ends[pin] = delays.to_result[way][pin]
    else:
        found.through[pin] = delays.through[way][pin]


def _starts(multiplies: bool, adds: bool, on: set[str], delays: SliceDelays) -> float | None:
    """ns from the clock to P: of the latest register from which nothing stands between."""
    if "PREG" in on:
        return delays.result_cq
    beside = {"CREG", "OPMODEREG", "ALUMODEREG", "CARRYINREG", "CARRYINSELREG"}
    last = {name: delays.launch["direct"][name] for name in beside & on}
    if not multiplies:
        last |= {name: delays.launch["direct"][name] for name in {"AREG", "BREG"} & on}
    elif "MREG" in on:
        last["MREG"] = delays.launch["direct"]["MREG"]
    else:
        last |= {name: delays.launch["multiplied"][name] for name in ({"BREG"} if adds else {"AREG", "BREG"}) & on}
        if adds:
            before = {"ADREG"} if "ADREG" in on else {"AREG", "DREG"}
            last |= {name: delays.launch["added"][name] for name in before & on}
    return max(last.values(), default=None)


def is_on(parameters: Mapping[str, str], name: str) -> bool:
    """Whether a parameter, text or bits, is neither absent nor zero."""
    return str(parameters.get(name, "0")).strip("0") not in ("", "FALSE")
