"""Energy of an inference on the accelerator: counted actions times published energies per action."""
