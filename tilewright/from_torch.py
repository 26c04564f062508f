"""PyTorch modules as quantised ONNX models: exported, quantised by PT2E where they are not yet, written as QDQ.

``torch`` is optional (``pip install 'tilewright[torch]'``).
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from tilewright.jit.source.pytorch import TorchError, is_quantised, program_to_onnx, quiet, require_torch
from tilewright.jit.source.torch_padding import state_padding
from tilewright.runtime.interpreters import first_line

_BY_FILE = "write it with torch.export.save and quantise that .pt2 file with `tilewright quantize`"


class FewExamples(UserWarning):
    """A module was quantised with the ranges of a single input."""


def module_to_onnx(module: Any, example: Any = None) -> bytes:
    """A ``torch.nn.Module`` or ``ExportedProgram`` as a quantised ONNX model of batch 1.

    ``example``: a tensor or array of N inputs stacked on the first axis, or a sequence of those for a module of
    several; the ranges of a float module's activations are those that all N show. A module that PT2E has quantised is
    taken as it is, as is an ``ExportedProgram`` (without ``example``). Raises TorchError.
    """
    what = type(module).__name__
    torch = sys.modules.get("torch")  # it has made the module
    if torch is None or not isinstance(module, (torch.nn.Module, torch.export.ExportedProgram)):
        raise TorchError(
            f"{what}: neither a path nor a torch.nn.Module; compile takes a model file or a PyTorch module"
        )
    require_torch(what)
    if isinstance(module, torch.export.ExportedProgram):
        content = program_to_onnx(module, what)  # what else is wrong, it says
        if not is_quantised(module):
            raise TorchError(f"{what}: not quantised: nothing in it is PT2E's; {_BY_FILE}")
        return content
    tensors = _tensors(what, example)
    first = tuple(x[:1] for x in tensors)
    with quiet():
        try:
            own = module if isinstance(module, torch.fx.GraphModule) else copy.deepcopy(module).eval()
            program = torch.export.export(own, first)
        except Exception as error:  # export raises kinds of many modules
            raise TorchError(f"{what}: PyTorch cannot export it: {first_line(error)}") from error
        if by_range := not is_quantised(program):
            try:
                quantised = torch.export.export(_quantised(_with_padding(program, first), tensors), first)
            except Exception as error:  # as do quantisers
                raise TorchError(
                    f"{what}: PT2E's XNNPACKQuantizer cannot quantise it ({first_line(error)}); {_BY_FILE}"
                ) from error
            if not is_quantised(quantised):
                raise TorchError(f"{what}: not quantised: PT2E's XNNPACKQuantizer takes nothing in it; {_BY_FILE}")
            program = quantised
    if by_range and first[0].shape[0] == tensors[0].shape[0]:
        warnings.warn(f"{what}: quantised with the ranges of a single input; give more", FewExamples, stacklevel=3)
    return program_to_onnx(program, what)


def _tensors(what: str, example: Any) -> tuple[Any, ...]:
    import numpy as np
    import torch

    if example is None:
        raise TorchError(f"{what}: needs example inputs: tilewright.compile(module, example)")
    several = isinstance(example, Sequence) and not isinstance(example, (torch.Tensor, np.ndarray))
    tensors = tuple(torch.as_tensor(x) for x in (example if several else [example]))
    counts = {x.shape[0] if x.ndim else 0 for x in tensors}
    if len(counts) != 1 or 0 in counts:
        raise TorchError(f"{what}: the examples hold {sorted(counts)} inputs; stack as many of each on the first axis")
    return tensors


def _with_padding(program: Any, first: tuple[Any, ...]) -> Any:
    """The module of a float program, all paddings of which are numbers."""
    import torch

    module = program.module()
    return torch.export.export(module, first).module() if state_padding(module) else module


def _quantised(module: Any, tensors: tuple[Any, ...]) -> Any:
    """By PT2E: weights int8 by channel; activations uint8, between which ONNX Runtime has integer convolutions."""
    import torch
    from torchao.quantization.pt2e import HistogramObserver, PerChannelMinMaxObserver
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import QuantizationConfig, QuantizationSpec
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer

    activation = QuantizationSpec(
        dtype=torch.uint8, quant_min=0, quant_max=255, qscheme=torch.per_tensor_affine,
        observer_or_fake_quant_ctr=HistogramObserver.with_args(eps=2**-12),
    )  # fmt: skip
    weight = QuantizationSpec(
        dtype=torch.int8, quant_min=-127, quant_max=127, qscheme=torch.per_channel_symmetric, ch_axis=0,
        observer_or_fake_quant_ctr=PerChannelMinMaxObserver.with_args(eps=2**-12),
    )  # fmt: skip
    config = QuantizationConfig(activation, activation, weight, None)
    prepared = prepare_pt2e(module, XNNPACKQuantizer().set_global(config))
    with torch.no_grad():
        for k in range(tensors[0].shape[0]):
            prepared(*(x[k : k + 1] for x in tensors))
    return convert_pt2e(prepared)
