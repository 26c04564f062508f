"""Random legal programs, the comparison of simulator and RTL on them, and what they have covered."""
