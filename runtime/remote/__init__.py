"""A device on another machine: a small authenticated server on the board, and its counterpart on a PC.

``frames`` carries messages, ``auth`` proves both sides the token, ``server`` listens, ``session`` serves one client,
``client`` is the :class:`~tilewright.runtime.device.Device` behind ``pynq://HOST``. ``docs/serving.md`` describes the
protocol. Nothing received is executed or unpickled: messages are JSON with plain bytes beside it.
"""
