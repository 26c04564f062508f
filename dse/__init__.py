"""The design-space explorer: which accelerator for these networks on this board, and why."""
