"""Tasks and loads in the order in which they run, and a place in the memories for all that they touch."""
