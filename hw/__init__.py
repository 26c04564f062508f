"""The hardware: `rtl` is the design, `verilated` runs it, `hls` is the same as C++, `boards` builds bitstreams."""
