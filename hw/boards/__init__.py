"""Bitstreams for boards: board data, Vivado and Vitis HLS scripts, checks of their reports, overlay packaging."""
