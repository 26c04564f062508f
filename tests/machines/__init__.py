"""What a board loads, on the machines that boards have: run ``make test-board``, or ``python -m tests.machines``."""
