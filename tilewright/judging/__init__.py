"""Whether what a compiled network gives otherwise than the reference is within what the compiler states of it."""
