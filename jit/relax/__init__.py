"""The door for Relax modules: what of them Tilewright claims, its integer graph, and the module that runs it."""
