"""The Verilated design: generated Verilog, compiled to a library, inside the DRAM model of the timing contract."""
