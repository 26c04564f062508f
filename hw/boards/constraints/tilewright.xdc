# The design uses no pin of the PL: DRAM and control go through the PS, so there is nothing to place and no I/O
# to time. The one clock is made, with its period, by the constraints of the PS core; all of Tilewright runs on it.
# A smaller file loads faster through the FPGA manager.
set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]
