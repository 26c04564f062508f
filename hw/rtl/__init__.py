"""The accelerator as hardware: Amaranth modules generated from a Config and the ISA declaration."""
