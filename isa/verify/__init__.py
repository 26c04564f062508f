"""The parts of the program verifier, one file per idea; :mod:`tilewright.isa.verifier` puts them together.

- ``errors``: the rules by name, and the error that names instruction, rule, address and culprit
- ``tokens``: token counts, and the vector clocks that say what has retired before what issues
- ``tiles``: limits that fields alone decide: segments, extents, wrap regions, alignment
- ``affine``: exact sets of the addresses that affine loops visit
- ``uops``: what the micro-op memories hold when an instruction runs
- ``operands``: from micro-ops and loops to the units that an instruction reads and writes
- ``state``: last readers and writers of every unit: uninitialised reads, races, bank owners
- ``distances``: issue-cycle distances within ALU, and between window emits
"""
