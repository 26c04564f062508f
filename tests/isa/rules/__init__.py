"""Cases of the verifier's rules, a file to each family; importing this package fills the table."""

from tests.isa.rules import encoding, engine, fields, races, uninitialised
from tests.isa.rules.cases import CASES, PACKED, Case

__all__ = ["CASES", "PACKED", "Case", "encoding", "engine", "fields", "races", "uninitialised"]
