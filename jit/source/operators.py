"""Every operator of TFLite, ONNX and Relax of which something is known beforehand: one row each.

A new operator is a row here, and a rule where its arithmetic is new (docs/architecture.md). Those in no row fall back
to their interpreter.
"""

from __future__ import annotations

from typing import Any

from tilewright.jit.source.operator_row import UNKNOWN, OperatorRow


def _op(family: str, tflite: str, onnx: str = "", relax: str = "", **more: Any) -> OperatorRow:
    return OperatorRow(family=family, tflite=tflite, onnx=onnx, relax=relax, **more)


def _function(
    tflite: str, onnx: str = "", relax: str = "", operands: int = 1, rule: str = "tables:table", **more: Any
) -> OperatorRow:
    """A function of single elements, by a table of all its values."""
    return _op("table", tflite, onnx, relax, elementwise=operands, rule=rule, **more)


OPERATORS: tuple[OperatorRow, ...] = (
    # -- functions of single elements
    _function("ABS", "Abs", "abs"),
    _function("ELU", "Elu"),
    _function("EXP", "Exp", "exp"),
    _function("GELU", "Gelu", "nn.gelu nn.gelu_tanh"),
    _function("HARD_SWISH", "HardSwish"),
    _function("LEAKY_RELU", "LeakyRelu", "nn.leakyrelu"),
    _function("LOG", "Log", "log"),
    _function("LOGISTIC", "Sigmoid", "sigmoid", scores=True),
    _function("NEG", "Neg", "negative"),
    _function("RELU_0_TO_1"),
    _function("RSQRT", "", "rsqrt"),
    _function("SQRT", "Sqrt", "sqrt"),
    _function("TANH", "Tanh", "tanh"),
    _function("CEIL", "Ceil", "ceil", rule=""),
    _function("COS", "Cos", "cos", rule=""),
    _function("FLOOR", "Floor", "floor", rule=""),
    _function("ROUND", "Round", "round", rule=""),
    _function("SIGN", "Sign", "sign", rule=""),
    _function("SIN", "Sin", "sin", rule=""),
    _function("SQUARE", rule=""),
    _function("LOGICAL_NOT", "Not", rule=""),
    _function("", "Cosh", "cosh"),
    _function("", "Erf", "erf"),
    _function("", "Sinh", "sinh"),
    _function("", "Softplus", "nn.softplus"),
    _function("", "Swish", "nn.silu"),
    _function("", "FastGelu QuickGelu"),
    _function("", "Acos Acosh Asin Asinh Atan Atanh BatchNormalization Celu HardSigmoid Mish Reciprocal"),
    _function("", "Selu Shrink Softsign Tan ThresholdedRelu"),
    _function("", "QLinearLeakyRelu(x sx zx sy zy) QLinearSigmoid(x sx zx sy zy)"),
    _op("cast", "CAST", "Cast", elementwise=1, masks="passes"),
    # -- element by element, of two tensors and more
    _op("sum", "ADD", "Add", "add", elementwise=2, rule="pairwise:add", real="real_rules:add", integers=True,
        masks="meets"),
    _op("sum", "SUB", "Sub", "subtract", elementwise=2, rule="pairwise:add", real="real_rules:subtract", integers=True,
        masks="meets"),
    _op("product", "MUL", "Mul", "multiply", elementwise=2, rule="pairwise:multiply", real="real_rules:multiply",
        integers=True),
    _op("sum", "MAXIMUM", "Max", "maximum", elementwise=2, rule="pairwise:extreme", real="real_rules:extreme",
        integers=True, masks="passes"),
    _op("sum", "MINIMUM", "Min", "minimum", elementwise=2, rule="pairwise:extreme", real="real_rules:extreme",
        integers=True, masks="meets"),
    _op("sum", "", "Sum", elementwise=2, real="real_rules:add"),
    _op("sum", "", "Mean", elementwise=2, real="real_rules:mean"),
    _op("sum", "", "QLinearAdd(x sx zx o so zo sy zy)", elementwise=2, int8="quantised:qlinear_add"),
    _op("product", "", "QLinearMul(x sx zx o so zo sy zy)", elementwise=2, int8="quantised:qlinear_mul"),
    _op("slopes/table", "PRELU", "PRelu", elementwise=2, rule="pairwise:prelu"),
    _function("DIV", "Div", "divide", operands=2),
    _function("FLOOR_DIV FLOOR_MOD SQUARED_DIFFERENCE", operands=2),
    _function("POW", "Pow", "power", operands=2, rule=""),
    _function("", "Mod Xor", operands=2),
    _function("LOGICAL_AND", "And", operands=2, rule=""),
    _function("LOGICAL_OR", "Or", operands=2, rule=""),
    _function("ADD_N ATAN2 NOT_EQUAL", operands=2, rule=""),
    _function("EQUAL", "Equal", "equal", operands=2, rule="", integers=True),
    _function("GREATER", "Greater", "greater", operands=2, rule="", integers=True),
    _function("GREATER_EQUAL", "GreaterOrEqual", "greater_equal", operands=2, rule="", integers=True),
    _function("LESS", "Less", "less", operands=2, rule="", integers=True),
    _function("LESS_EQUAL", "LessOrEqual", "less_equal", operands=2, rule="", integers=True),
    _function("SELECT_V2", "Where", "where", operands=2, rule="", integers=True, masks="meets"),
    _op("", "SELECT", masks="meets"),
    # -- ranges and scales
    _op("clamp", "RELU", "Relu", "nn.relu", elementwise=1, rule="rules:activation"),
    _op("clamp", "RELU6 RELU_N1_TO_1", "Clip", "clip", elementwise=1, rule="rules:activation", masks="passes"),
    _op("quantisation", "QUANTIZE", "QuantizeLinear(x sy zy)", "quantize", elementwise=1, rule="rules:quantize",
        batch="first/quantisation", quantised=True),
    _op("quantisation", "DEQUANTIZE", "DequantizeLinear(x sx zx)", "dequantize", elementwise=1,
        batch="first/quantisation", quantised=True),
    _op("", "", "DynamicQuantizeLinear QAttention QEmbedLayerNormalization", quantised=True),
    # -- products of weights
    _op("convolution", "CONV_2D(x w b)", "Conv(x w b)", "nn.conv1d nn.conv2d", rule="weighted:conv_2d",
        real="real_rules:conv", layout="image", macs="convolution", float_sum=True),
    _op("depthwise", "DEPTHWISE_CONV_2D(x w b)", rule="weighted:depthwise_conv_2d", batch="first", macs="depthwise"),
    _op("", "CONV_3D(x w b)", macs="volume"),
    _op("convolution", "", "FusedConv(x w b)", real="real_rules:conv", layout="image", macs="convolution"),
    _op("convolution", "", "QLinearConv(x sx zx w sw zw sy zy b)", int8="quantised:qlinear_conv", layout="image",
        macs="convolution"),
    _op("convolution", "", "ConvInteger(x w zx zw)", sums="integer:conv_integer", layout="image", macs="convolution"),
    _op("transposed", "TRANSPOSE_CONV(shape w x b)", "ConvTranspose(x w b)", "nn.conv2d_transpose",
        rule="resample:transpose_conv", real="real_rules:conv_transpose", layout="image",
        macs="transposed/transposed_in_first", float_sum=True),
    _op("products", "FULLY_CONNECTED(x w b)", rule="rules:any_fully_connected", batch="rows", macs="rows"),
    _op("convolution", "", "Gemm(x w b)", real="real_rules:gemm", batch="product", macs="matrices", float_sum=True),
    _op("convolution", "", "FusedGemm(x w b)", real="real_rules:gemm", macs="matrices", float_sum=True),
    _op("products/convolution", "BATCH_MATMUL(x w)", "MatMul(x w)", "matmul", rule="matmul:batch_matmul",
        real="real_rules:gemm", batch="stacks/product", layout="matrix", macs="matrices", float_sum=True),
    _op("convolution", "", "FusedMatMul(x w)", macs="matrices", float_sum=True),
    _op("products", "", "QLinearMatMul(x sx zx w sw zw sy zy)", int8="quantised:qlinear_matmul", batch="product",
        layout="matrix", macs="matrices"),
    _op("convolution", "", "QGemm(x sx zx w sw zw b sy zy)", int8="quantised:qgemm", sums="integer:float_gemm",
        batch="product", macs="matrices", quantised=True),
    _op("convolution", "", "MatMulInteger(x w zx zw)", sums="integer:matmul_integer", batch="product", macs="matrices"),
    _op("", "", "DynamicQuantizeMatMul(x w) MatMulIntegerToFloat(x w)", macs="matrices", quantised=True),
    _op("blocks", "", "MatMulNBits(x w)", macs="matrices"),
    _op("blocks", "", "MatMulBnb4 GatherBlockQuantized(x indices)"),
    # -- recurrent layers
    _op("svdf", "SVDF(x w*2 b state)", rule="svdf:svdf", macs="recurrent"),
    _op("recurrent", "UNIDIRECTIONAL_SEQUENCE_LSTM(x w*16)", rule="lstm:lstm", macs="recurrent"),
    _op("recurrent", "LSTM(x w*16) BIDIRECTIONAL_SEQUENCE_LSTM(x w*34) UNIDIRECTIONAL_SEQUENCE_RNN(x w*2)",
        "LSTM(x w*2) GRU(x w*2) RNN(x w*2)", macs="recurrent", float_sum=True),
    _op("recurrent", "RNN BIDIRECTIONAL_SEQUENCE_RNN"),
    _op("", "", "DynamicQuantizeLSTM(x w*2)", macs="recurrent", quantised=True),
    # -- over parts of a tensor
    _op("window", "MAX_POOL_2D", "MaxPool", "nn.max_pool1d nn.max_pool2d", rule="rules:max_pool_2d",
        int8="quantised:max_pool", layout="image"),
    _op("average", "AVERAGE_POOL_2D", "AveragePool", "nn.avg_pool1d nn.avg_pool2d", rule="rules:average_pool_2d",
        real="real_rules:average_pool", layout="image", float_sum=True),
    _op("average", "", "QLinearAveragePool(x sx zx sy zy)", int8="quantised:qlinear_average_pool", layout="image"),
    _op("average", "", "GlobalAveragePool", real="real_rules:total", layout="image", float_sum=True),
    _op("average", "", "QLinearGlobalAveragePool(x sx zx sy zy)", int8="quantised:qlinear_global_average_pool",
        layout="image"),
    _op("extreme", "", "GlobalMaxPool", layout="image"),
    _op("average", "MEAN", "ReduceMean", "mean", rule="reduce:mean", real="real_rules:total", batch="axes",
        layout="alike", float_sum=True),
    _op("average", "SUM", "ReduceSum", "sum", rule="reduce:total", real="real_rules:total", batch="axes",
        layout="alike", float_sum=True, integers=True),
    _op("extreme", "REDUCE_MAX", "ReduceMax", "max", rule="reduce:greatest", batch="axes", layout="alike"),
    _op("extreme", "REDUCE_MIN", "ReduceMin", "min", rule="reduce:least", batch="axes", layout="alike"),
    _op("choice", "ARG_MAX", "ArgMax", batch="axes/"),
    _op("choice", "NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5", "NonMaxSuppression"),
    _op("choice", "TOPK_V2", "TopK"),
    _op("", "ARG_MIN CUMSUM", batch="axes"),
    _op("", "", "CumSum", float_sum=True),
    _op("softmax", "SOFTMAX", "Softmax", "nn.softmax", rule="rules:softmax", batch="last/axis", layout="matrix", axis=1,
        float_sum=True, scores=True),
    _op("softmax", "LOG_SOFTMAX", "LogSoftmax", "nn.log_softmax", batch="last/axis", axis=1, float_sum=True),
    _op("softmax", "", "QLinearSoftmax", int8="quantised:qlinear_softmax", layout="matrix"),
    _op("", "", "Hardmax", batch="axis", axis=1),
    _op("", "L2_NORMALIZATION", "LpNormalization", batch="last/", float_sum=True),
    _op("", "", "LayerNormalization", "nn.layer_norm", float_sum=True),
    _op("", "",
        "Einsum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare LpPool GlobalLpPool LRN GridSample "
        "SimplifiedLayerNormalization InstanceNormalization GroupNorm GroupNormalization MeanVarianceNormalization "
        "Attention MultiHeadAttention", float_sum=True),
    # -- elements at other places, or in another form
    _op("view", "RESHAPE(x shape)", "Reshape", "reshape", rule="rules:reshape", batch="first/reshape"),
    _op("view", "SQUEEZE", "Squeeze", "squeeze", rule="rules:reshape", batch="squeeze/axes"),
    _op("view", "EXPAND_DIMS", "Unsqueeze", "expand_dims", rule="rules:reshape", batch="expand/axes"),
    _op("view", "", "Flatten", "flatten", batch="flatten"),
    _op("view", "", "Identity", elementwise=1),
    _op("view", "", "Dropout", layout="alike"),
    _op("transpose", "TRANSPOSE", "Transpose", "permute_dims", rule="moves:transpose", batch="transpose"),
    _op("move", "SLICE(x begin size)", "Slice", "strided_slice", rule="moves:take", says="along any axes",
        batch="slice_/axes"),
    _op("move", "STRIDED_SLICE(x begin end step)", rule="moves:take", says="along any axes", batch="strided_slice"),
    _op("move", "SPLIT(axis x)", "Split", "split", rule="moves:take", says="along any axis", batch="split/axis"),
    _op("move", "SPLIT_V(x sizes axis)", rule="moves:take", says="along any axis", batch="split"),
    _op("move", "GATHER(x indices)", "Gather(x indices)", "take", rule="moves:take",
        says="by constant indices along any axis", batch="gather/axis"),
    _op("move", "TILE", "Tile", rule="moves:take", says="along any axes", batch="tile"),
    _op("move", "BROADCAST_TO(x shape)", "Expand", "broadcast_to", rule="moves:take", says="along any axes",
        batch="broadcast/"),
    _op("move", "REVERSE_V2", rule="moves:take", says="along any axes", batch="axes"),
    _op("move", "MIRROR_PAD", rule="moves:take", says="by resampling", batch="pad"),
    _op("move", "PACK", rule="moves:pack", batch="concatenation"),
    _op("move", "UNPACK", rule="moves:take", says="along any axis", batch="unpack"),
    _op("block", "DEPTH_TO_SPACE", "DepthToSpace", rule="moves:take",
        says="a transposed convolution that chooses channels", layout="image"),
    _op("block", "SPACE_TO_DEPTH", "SpaceToDepth", rule="moves:take", says="as a convolution", layout="image"),
    _op("joined", "SPACE_TO_BATCH_ND", batch="deal"),
    _op("joined", "BATCH_TO_SPACE_ND", batch="first"),
    _op("resample", "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR", "Resize", "image.resize2d", rule="resample:resize",
        int8="resize:truncated", real="real_rules:resize_linear", batch="first/resize", float_sum=True),
    _op("pad", "PAD PADV2", "Pad", "nn.pad", rule="rules:pad", int8="quantised:pad", real="real_rules:pad",
        batch="pad"),
    _op("concatenation", "CONCATENATION", "Concat", "concat", rule="rules:concatenation", int8="quantised:concat",
        real="real_rules:concat", batch="concatenation"),
    _op("concatenation", "", "QLinearConcat(sy zy x s z)", int8="quantised:qlinear_concat", batch="concatenation"),
    _op("gather", "EMBEDDING_LOOKUP(indices x)", "GatherElements(x indices)"),
    _op("gather", "GATHER_ND", "GatherND"),
    _op("", "", "EmbedLayerNormalization(indices indices2 table position table2)"),
    # -- what the interpreters keep
    _op("shape", "SHAPE", "Shape", "shape_of shape_to_tensor"),
    _op("constant", "", "Constant"),
    _op("control", "WHILE IF CALL", "If Loop Scan"),
    _op("variable", "READ_VARIABLE ASSIGN_VARIABLE"),
    _op("handle", "VAR_HANDLE HASHTABLE"),
    _op("initial", "CALL_ONCE"),
    _op("custom", "CUSTOM"),
    _op("random", "RANDOM_STANDARD_NORMAL RANDOM_UNIFORM MULTINOMIAL",
        "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"),
)  # fmt: skip

TFLITE = {row.name: row for each in OPERATORS for row in each.named("tflite")}
ONNX = {row.name: row for each in OPERATORS for row in each.named("onnx")}
#: by names of Relax the rows of ONNX
RELAX = {name: next(row.named("onnx"), row) for row in OPERATORS for name in row.relax.split()}


def tflite_row(kind: str) -> OperatorRow:
    """The row of a builtin operator."""
    return TFLITE.get(kind, UNKNOWN)


def onnx_row(kind: str) -> OperatorRow:
    """The row of an operator of ONNX, or of ONNX Runtime's own."""
    return ONNX.get(kind, UNKNOWN)


def relax_row(name: str) -> OperatorRow:
    """The row of an operator of Relax by its name, ``relax.`` ahead of it or not."""
    return RELAX.get(name.removeprefix("relax."), UNKNOWN)


def any_row(kind: str) -> OperatorRow:
    """The row of an operator by its name in either format."""
    return ONNX.get(kind) or tflite_row(kind)
