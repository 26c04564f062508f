"""A device on another machine: a small server on the board, and its counterpart on a PC.

``frames`` carries messages, ``server`` listens, ``session`` serves one client, ``client`` is the
:class:`~tilewright.runtime.device.Device` behind ``pynq://HOST``. Who may reach the port may run programs: it listens
on this machine alone, and SSH brings others there. Nothing received is executed or unpickled: messages are JSON with
plain bytes beside it, their *payload*.

1. The server greets with ``{"tilewright": 2}``, or with ``{"error": "full"}`` if no connection is free.
2. The client answers with a purpose and the seconds that it would ``wait``.
3. While another client has the device the server says ``{"waiting": WHO}`` every second, in the end its device, Config
   and limits, or an error.
4. For the purpose ``job``, requests ``{"do": NAME, ...}``, each with one reply in order, ``{"ok": true, ...}`` or
   ``{"error": KIND, "message": ...}``; of kind ``fault`` with code, instruction and layer. Writes and launches are sent
   without waiting for their replies.

=============  =================================================================================================
``have``       ``program``: its SHA-256
``program``    payload: a program container; verified, if it does not share memory with others
``allocate``   ``program``, ``inferences``
``write``      ``handle``, ``segment``, ``first``, ``rows``, ``offset``; payload: ``rows`` rows, one per inference
``launch``     ``handle``, ``inferences``
``wait``       ``handle``; ``{"progress": N}`` comes before the reply
``share``      ``handles`` of programs that share memory, by core; verified together
``together``   ``handles``, ``inferences``: each program on a core of its own; ``{"progress": N}`` before the reply
``read``       ``handle``, ``segment``, ``first``, ``rows``, ``offset``, ``size``; payload in the reply
``counters``   ``handle``; payload in the reply: events as dispatch, issue, retire in int64
``release``    ``handle``
``bye``        the reply comes when the device is free for others
=============  =================================================================================================
"""
