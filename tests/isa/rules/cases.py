"""The table of cases: each builds a program that breaks one rule, or its legal twin."""

from __future__ import annotations

from collections.abc import Callable

from tests.isa.build import TINY
from tilewright.config import Config
from tilewright.isa.program import Program
from tilewright.isa.verifier import Rule

PACKED = Config()  #: with dsp_packing
WIDE_OUT = TINY.replace(block_out=8)  #: out_units = 2
WIDE_IN = TINY.replace(block_in=8)  #: in_units = 2
ACC_BANK = TINY.acc_bank_units
ACT_BANK = TINY.act_bank_units

Case = Callable[[bool], Program]
CASES: list[tuple[Rule, str, Case]] = []
JointCase = Callable[[bool], list[Program]]
JOINT: list[tuple[Rule, str, JointCase]] = []  #: likewise, of programs that run at the same time


def case(rule: Rule) -> Callable[[Case], Case]:
    """Enters a function in the table: ``build(legal)``, minimal, legal or breaking ``rule`` and no other."""

    def register(build: Case) -> Case:
        CASES.append((rule, build.__name__, build))
        return build

    return register


def joint(rule: Rule) -> Callable[[JointCase], JointCase]:
    """Enters a function in the table of programs that run at the same time."""

    def register(build: JointCase) -> JointCase:
        JOINT.append((rule, build.__name__, build))
        return build

    return register
