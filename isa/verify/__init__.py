"""The parts of the program verifier, one file per idea; :mod:`tilewright.isa.verifier` puts them together.

- ``errors``: the rules by name, and the error that names instruction, rule, address and culprit
- ``tokens``: counts of tokens and of doorbells between cores, and the vector clocks
  that say what has retired before what issues
- ``tiles``: limits that fields alone decide: segments, extents, wrap regions, alignment
- ``affine``: exact sets of the addresses that affine loops visit
- ``regions``: from what an instruction touches (:mod:`tilewright.isa.effects`) to checked sets of units
- ``state``: last readers and writers of every unit: uninitialised reads, races, bank owners
- ``distances``: issue-cycle distances within ALU, and between window emits
"""
