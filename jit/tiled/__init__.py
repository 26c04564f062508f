"""Layer by layer through DRAM, in tiles as small as need be: the plan that every network fits."""
