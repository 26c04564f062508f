"""What LiteRT's kernels take without looking, and the check that refuses it before they see it."""
