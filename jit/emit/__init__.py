"""From a schedule to the instructions of a program: tokens, micro-ops, constants, and the tensors' places in DRAM."""
