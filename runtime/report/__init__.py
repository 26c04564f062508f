"""What a run took, where, and why: as data, as text, as a page and as a trace."""
