"""How Numba makes one piece of machine code of a kernel and all that it calls.

Left alone, Numba optimises every function by itself and with all that it calls, writes wrappers for Python, and makes
machine code of it, though only that of the outermost is used: of 107 seconds for the functions behind one network 35
went that way. Here a function that only compiled code calls is kept as it is, until the kernel is optimised once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from numba.core import codegen, compiler
from numba.core.registry import cpu_target


class _Detached:
    """The code generator of a piece: there is no machine code of it whose environment could be set."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)

    def set_env(self, name: str, env: Any) -> None:
        pass


class _Unoptimised(codegen.JITCodeLibrary):
    """Code that is taken as it comes: what optimises the whole does not need each function optimised first."""

    _linking_libraries: list[Any]

    def add_llvm_module(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        self._final_module.link_in(module)


class Piece(_Unoptimised):
    """The code of a function that only compiled code calls."""

    @property
    def codegen(self) -> Any:
        return _Detached(self._codegen)

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0


class Whole(_Unoptimised):
    """The code of a kernel, which Python calls, with all its pieces."""

    def finalize(self) -> None:
        found: dict[Any, None] = {}
        waiting = list(self._linking_libraries)
        while waiting:
            library = waiting.pop()
            if library not in found:
                found[library] = None
                if isinstance(library, Piece):
                    waiting += library._linking_libraries
        self._linking_libraries = list(found)
        super().finalize()


@contextlib.contextmanager
def _pieces() -> Iterator[None]:
    """What Numba compiles in here, its own helpers too, are pieces."""
    generator = cpu_target.target_context.codegen()
    previous = generator._library_class
    generator._library_class = Piece
    try:
        yield
    finally:
        generator._library_class = previous


class WholeCompiler(compiler.Compiler):
    """Compiles a kernel for Python."""

    def _compile_core(self) -> Any:
        state = self.state
        state.flags.no_cfunc_wrapper = True
        state.library = Whole(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        with _pieces():
            return super()._compile_core()


class PieceCompiler(compiler.Compiler):
    """Compiles a kernel for another one."""

    def _compile_core(self) -> Any:
        self.state.flags.no_cpython_wrapper = self.state.flags.no_cfunc_wrapper = True
        with _pieces():
            return super()._compile_core()
