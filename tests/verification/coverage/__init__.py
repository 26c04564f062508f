"""Functional coverage of the accelerator: what runs must have shown, and what a run has shown."""
