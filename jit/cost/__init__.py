"""What a plan takes in cycles, and what no plan of a network can take less than."""
