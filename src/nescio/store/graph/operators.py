"""The operators that a kept network may call, and checks for those that check too little.

A file comes from anywhere, so that an operator is on the list only if its code for CPUs refuses
sizes that do not go together, or a check here does: PyTorch's kernels otherwise read and write past
the end of memory. None of them writes on its arguments, looks at raw memory or touches a file. Left
out for their missing checks are those of backward passes, `native_group_norm`, `grid_sampler_2d`,
`_embedding_bag`, `col2im`, `_cdist_forward`, packed sequences, and resizing with scales.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from nescio.errors import NescioError

# a name alone is its overload `default`
NAMES = """
    abs acos acosh asin asinh atan atan2 atanh ceil cos cosh elu celu selu gelu silu mish erf erfc
    exp exp2 expm1 floor hardtanh hardsigmoid hardswish relu relu6 leaky_relu prelu softplus
    log_sigmoid threshold glu sigmoid tanh log log10 log1p log2 neg reciprocal round rsqrt sqrt
    square sign sin sinh tan trunc isinf isnan isfinite logical_and logical_not logical_or
    logical_xor bitwise_not bitwise_and.Scalar bitwise_and.Tensor bitwise_or.Scalar
    bitwise_or.Tensor bitwise_xor.Scalar bitwise_xor.Tensor maximum minimum max.other min.other
    clamp clamp.Tensor clamp_min clamp_max add.Scalar add.Tensor sub.Scalar sub.Tensor rsub.Scalar
    rsub.Tensor mul.Scalar mul.Tensor div.Scalar div.Tensor pow.Scalar pow.Tensor_Scalar
    pow.Tensor_Tensor eq.Scalar eq.Tensor ne.Scalar ne.Tensor ge.Scalar ge.Tensor gt.Scalar
    gt.Tensor le.Scalar le.Tensor lt.Scalar lt.Tensor where.self where.ScalarSelf where.ScalarOther
    where.Scalar masked_fill.Scalar masked_fill.Tensor lerp.Scalar lerp.Tensor addcmul

    div.Scalar_mode div.Tensor_mode floor_divide floor_divide.Scalar remainder.Scalar
    remainder.Tensor fmod.Scalar fmod.Tensor

    amax amin any any.dim any.dims all all.dim all.dims argmax argmin max max.dim min min.dim mean
    mean.dim sum sum.dim_IntList prod prod.dim_int cumsum std std.dim std.correction var var.dim
    var.correction norm.Scalar norm.ScalarOpt_dim linalg_vector_norm linalg_norm logsumexp
    softmax.int _softmax log_softmax.int _log_softmax sort topk

    linear mm bmm mv dot vdot addmm baddbmm matmul einsum bilinear cosine_similarity
    pairwise_distance cdist scaled_dot_product_attention conv1d conv2d conv3d conv1d.padding
    conv2d.padding conv3d.padding conv_transpose1d conv_transpose2d.input conv_transpose3d.input
    convolution batch_norm _native_batch_norm_legit_no_training layer_norm native_layer_norm
    group_norm instance_norm rms_norm max_pool1d max_pool2d max_pool3d max_pool2d_with_indices
    max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d lstm.input gru.input rnn_tanh.input
    rnn_relu.input dropout feature_dropout upsample_nearest1d.vec upsample_nearest2d.vec
    upsample_linear1d.vec upsample_bilinear2d.vec upsample_bicubic2d.vec pixel_shuffle
    pixel_unshuffle channel_shuffle pad constant_pad_nd reflection_pad1d reflection_pad2d
    replication_pad1d replication_pad2d

    view _unsafe_view view_as reshape flatten.using_ints unflatten.int contiguous clone alias detach
    lift_fresh_copy to.dtype to.dtype_layout to.device to.other _to_copy type_as copy permute
    transpose.int movedim.int movedim.intlist t numpy_T squeeze squeeze.dim squeeze.dims unsqueeze
    expand expand_as repeat tile flip roll select.int slice.Tensor narrow diagonal tril triu chunk
    split.Tensor split_with_sizes unbind.int stack cat select_scatter slice_scatter fill.Scalar
    embedding index.Tensor index_select index_put gather take_along_dim scatter.src scatter.value
    scatter_add one_hot

    zeros ones full eye eye.m zeros_like ones_like full_like new_zeros new_ones new_full
    scalar_tensor arange arange.start arange.start_step sym_size.int sym_numel
"""
ALLOWED = frozenset(name if "." in name else f"{name}.default" for name in NAMES.split())


def guarded(call: OpOverload) -> Callable[..., Any]:
    """An operator, after the checks that it lacks."""
    if (check := CHECKS.get(str(call))) is None:
        return call
    names = [argument.name for argument in call._schema.arguments]

    def checked_call(*args: Any, **kwargs: Any) -> Any:
        if not check({**dict(zip(names, args, strict=False)), **kwargs}):
            raise NescioError(
                f"{call} in a graph is given tensors or numbers that do not go together"
            )
        return call(*args, **kwargs)

    return checked_call


def _norm_fits(args: Mapping[str, Any]) -> bool:
    """Whether BatchNorm has four vectors with a number for each channel."""
    x, mean = args["input"], args["running_mean"]
    vectors = [
        mean,
        args["running_var"],
        *(optional for name in ("weight", "bias") if (optional := args[name]) is not None),
    ]
    return (
        _are_tensors([x, *vectors])
        and x.dim() >= 2
        and all(vector.shape == x.shape[1:2] and vector.dtype == mean.dtype for vector in vectors)
    )


def _only_looks(args: Mapping[str, Any]) -> bool:
    """Whether BatchNorm and its like leave the running statistics alone."""
    training = args.get("training") or args.get("use_input_stats")
    return not training or (args["running_mean"] is None and args["running_var"] is None)


def _attention_fits(args: Mapping[str, Any]) -> bool:
    """Whether there are as many values as keys, of the queries' width, and a mask for them."""
    query, key, value, mask = args["query"], args["key"], args["value"], args.get("attn_mask")
    if (
        not _are_tensors([query, key, value])
        or query.dim() < 2
        or key.shape[:-1] != value.shape[:-1]
    ):
        return False
    if (*query.shape[:-2], query.shape[-1]) != (*key.shape[:-2], key.shape[-1]):
        return False
    return mask is None or (
        _are_tensors([mask]) and _spreads(mask.shape, (*query.shape[:-1], key.shape[-2]))
    )


def _spreads(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether a tensor can be repeated to a shape."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(size in (1, other) for size, other in pairs)


def _recurrent_fits(gates: int) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a recurrent network's weights are of its size, which its code takes on trust."""

    def fits(args: Mapping[str, Any]) -> bool:
        x, params, layers = args["input"], args["params"], args["num_layers"]
        states = [args["hx"]] if gates < 4 else args["hx"]  # an LSTM has two
        if not _are_tensors([x, *states, *params]) or len(states) != (1 if gates < 4 else 2):
            return False
        if x.dim() != 3 or states[0].dim() != 3 or not 0 < layers <= len(params):
            return False
        ways, size = 1 + args["bidirectional"], states[0].shape[2]
        expected: list[tuple[int, ...]] = [
            (layers * ways, x.shape[0 if args["batch_first"] else 1], size)
        ] * len(states)
        for layer in range(layers):
            width, biases = size * ways if layer else x.shape[2], 2 * args["has_biases"]
            expected += [
                (gates * size, width),
                (gates * size, size),
                *[(gates * size,)] * biases,
            ] * ways
        tensors = [*states, *params]
        alike = all(tensor.dtype == x.dtype for tensor in tensors) and min(*x.shape, size) > 0
        return alike and [tuple(tensor.shape) for tensor in tensors] == expected

    return fits


def _divides(args: Mapping[str, Any]) -> bool:
    """Whether a division is none of integers by -1, which crashes at the smallest of them."""
    kinds = [torch.as_tensor(args[name]) for name in ("self", "other")]
    return any(kind.is_floating_point() for kind in kinds) or not bool((kinds[1] == -1).any())


def _pads(args: Mapping[str, Any]) -> bool:
    """Whether only a constant pad is negative: others would leave memory uninitialised."""
    return args.get("mode", "constant") == "constant" or min(args["pad"], default=0) >= 0


def _are_tensors(values: Sequence[Any]) -> bool:
    return all(isinstance(value, Tensor) for value in values)


CHECKS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "aten.div.Scalar_mode": _divides,
    "aten.div.Tensor_mode": _divides,
    "aten._native_batch_norm_legit_no_training.default": _norm_fits,
    "aten.pad.default": _pads,
    "aten.batch_norm.default": _only_looks,
    "aten.instance_norm.default": _only_looks,
    "aten.scaled_dot_product_attention.default": _attention_fits,
    "aten.lstm.input": _recurrent_fits(4),
    "aten.gru.input": _recurrent_fits(3),
    "aten.rnn_tanh.input": _recurrent_fits(1),
    "aten.rnn_relu.input": _recurrent_fits(1),
}
