"""``native/contract.h``: what C takes from Python, the register map and the versions of file formats.

``python -m tilewright.runtime.contract`` writes it; a test says when that is due.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

from tilewright.isa.container import FORMAT_VERSION as PROGRAM_FORMAT
from tilewright.isa.registers import GLOBAL, ID_VALUE, SEGMENT_BASE, SEGMENT_SPACING, Control, Status
from tilewright.runtime.artifact import FORMAT_VERSION as ARTIFACT_FORMAT

HEADER = Path(__file__).parent / "native" / "contract.h"


def contract_header() -> str:
    """The text of the header."""

    def bits(prefix: str, values: type[IntEnum]) -> str:
        return ", ".join(f"{prefix}_{value.name} = {value.value}" for value in values)

    registers = "".join(f"  REGISTER_{r.name} = {r.offset:#05x},\n" for r in GLOBAL)
    return f"""/* Made by python -m tilewright.runtime.contract. */
#ifndef TILEWRIGHT_CONTRACT_H
#define TILEWRIGHT_CONTRACT_H

enum {{ ARTIFACT_FORMAT = {ARTIFACT_FORMAT}, PROGRAM_FORMAT = {PROGRAM_FORMAT} }};

#define ID_VALUE UINT32_C({ID_VALUE:#x})

enum {{ /* byte offsets */
{registers}  SEGMENT_BASE = {SEGMENT_BASE:#05x}, /* address in two halves, limit in beats, stride in bytes */
  SEGMENT_SPACING = {SEGMENT_SPACING:#x}
}};

enum {{ {bits("CONTROL", Control)} }};
enum {{ {bits("STATUS", Status)} }};

#endif
"""


if __name__ == "__main__":
    HEADER.write_text(contract_header())
