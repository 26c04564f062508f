"""Cases of the verifier's rules, a file to each family; importing this package fills the table."""

from tests.isa.rules import doorbells, encoding, engine, fields, races, uninitialised
from tests.isa.rules.cases import CASES, JOINT, PACKED, Case, JointCase

__all__ = [
    "CASES",
    "JOINT",
    "PACKED",
    "Case",
    "JointCase",
    "doorbells",
    "encoding",
    "engine",
    "fields",
    "races",
    "uninitialised",
]
