"""Bitstreams for Zynq-7000 without Vivado: Yosys, nextpnr-xilinx and Project X-Ray's tools. Experimental."""
