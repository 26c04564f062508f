"""Relax modules: what Tilewright claims of them, its integer graph, and the module that runs it."""
