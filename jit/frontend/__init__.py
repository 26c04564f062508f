"""The door for Relax modules: what of them Tilewright claims, and its integer graph."""
