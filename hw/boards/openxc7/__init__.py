"""Bitstreams for Zynq-7000 without Vivado: Yosys, nextpnr and Project X-Ray's tools. Experimental."""
