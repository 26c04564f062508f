"""What to do about operators that LiteRT does not have, or not of that version."""

from __future__ import annotations

#: operators that stand for a part of a network that is compiled for an accelerator: Coral's, LiteRT's plugins', Arm's
#: (by Vela), NXP's
_COMPILED = ("edgetpu-custom-op", "DISPATCH_OP", "ethos-u", "NeutronGraph")


def way_out_of_foreign(said: str) -> str:
    """What goes behind LiteRT's words on a model that it does not load; nothing where they are of something else."""
    if any(kind in said for kind in _COMPILED):
        return "; it is compiled for another accelerator: give the file that it was compiled from"
    if "custom op" in said or "Flex" in said:
        return "; convert it with LiteRT's own operators alone (TFLITE_BUILTINS)"
    if "Didn't find op for builtin opcode" in said:
        return "; update ai-edge-litert, or convert the model with an older converter"
    return ""
