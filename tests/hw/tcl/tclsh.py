"""A Tcl shell where there is no ``tclsh``: Python's own interpreter of Tcl, from tkinter. No display is needed."""

from __future__ import annotations

import os
import sys
import tkinter


def main(script: str, arguments: list[str]) -> None:
    """Source a script as tclsh does; tkinter leaves out ``exit``, so it is put back."""
    interpreter = tkinter.Tcl()

    def leave(code: str = "0") -> None:
        interpreter.eval("flush stdout; flush stderr")
        os._exit(int(code))

    interpreter.createcommand("exit", leave)
    interpreter.call("set", "argv0", script)
    interpreter.call("set", "argv", tuple(arguments))
    interpreter.call("set", "argc", len(arguments))
    interpreter.call("source", script)
    leave()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
