"""The accelerator as hardware: Amaranth modules generated from a Config and the ISA declaration.

Modules are bare ``Elaboratable``s: an Amaranth ``Component`` saves no line, and members of its signature cannot be
``reset_less``, as 25 of the signals between modules are.
"""
