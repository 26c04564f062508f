"""Static timing of a mapped design: cells have delays, every net the same one. A measure, not a promise of a clock."""
