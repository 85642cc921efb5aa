//! Products with weights: the library's epilogue does as much as it can, a kernel behind it the rest.

use crate::kernels::{Kernel, ROW, activation_code, kernel_size};
use crate::runtime::{ElementType, FusedFunction, KernelArgument, KernelLaunch, MatrixProduct, Runtime};
use crate::tensor::from_bytes;
use crate::{Cuda, Tensor, WeightMatrix, WeightVector};
use KernelArgument::{Buffer, F32, Null, U32};
use hopeval_device::{Activation, DeviceError, Epilogue, PendingRead};
use std::sync::Arc;

/// Sides of the tiles of `product.cu`, and its threads.
const SIDE: usize = 32;
const THREADS: u32 = 256;

/// The part of an epilogue inside the product.
struct SplitEpilogue<'a, B> {
    bias: Option<&'a B>,
    fused: FusedFunction,
    residual: Option<&'a B>,
    /// The part left for `finish`, if any.
    rest: Option<RemainingEpilogue<'a, B>>,
}

/// `activation(x + bias) + residual`.
struct RemainingEpilogue<'a, B> {
    bias: Option<&'a B>,
    activation: Activation,
    residual: Option<&'a B>,
}

/// See [`hopeval_device::Device::linear`].
pub(crate) fn linear<R: Runtime>(
    cuda: &Cuda<R>,
    x: &Tensor<R::Buffer>,
    weight: &WeightMatrix<R::Buffer>,
    epilogue: Epilogue<'_, Cuda<R>>,
) -> Result<Tensor<R::Buffer>, DeviceError> {
    assert!(x.columns == weight.columns && x.columns > 0, "inner sizes of a product; this is a bug");
    assert!(epilogue.bias.is_none_or(|bias| bias.len == weight.rows), "a bias for each output; this is a bug");
    let (rows, out) = (x.rows, weight.rows);
    let converted = (cuda.convert_tensor(x)?, epilogue.residual.map(|r| cuda.convert_tensor(r)).transpose()?.flatten());
    let x = converted.0.as_ref().unwrap_or(x);
    let residual = converted.1.as_ref().or(epilogue.residual);
    if let Some(residual) = residual {
        assert_eq!((residual.rows, residual.columns), (rows, out), "shape of a residual; this is a bug");
    }
    let output = cuda.new_tensor(rows, out)?;
    if rows == 0 || out == 0 {
        return Ok(output);
    }
    let residual = residual.map(|residual| &residual.buffer);
    let aligned = is_aligned(x.columns, out);
    let split = split_epilogue(cuda.element, aligned, epilogue.bias, epilogue.activation, residual);
    let product = MatrixProduct {
        rows,
        inner: x.columns,
        out,
        element: cuda.element,
        x: &x.buffer,
        weight: &weight.buffer,
        first: 0,
        scale: epilogue.scale,
        bias: split.bias,
        fused: split.fused,
        residual: split.residual,
        output_element: cuda.element,
        output: &output.buffer,
    };
    multiply_matrices(cuda, &product)?;
    if let Some(rest) = split.rest {
        let arguments = [
            Buffer(&output.buffer),
            rest.bias.map_or(Null, Buffer),
            rest.residual.map_or(Null, Buffer),
            U32(kernel_size(out)),
            U32(activation_code(rest.activation)),
        ];
        cuda.launch_blocks(cuda.typed_kernel("activation", ["finish_f32", "finish_bf16"]), rows, ROW, &arguments)?;
    }
    Ok(output)
}

/// See [`hopeval_device::Device::project`]: the padded product in `f32`, read, and the bias added on the host. With
/// `later` it is on its way to pinned memory at the return; results that are read at once may be large, and need none.
pub(crate) fn project<R: Runtime>(
    cuda: &Cuda<R>,
    x: &Tensor<R::Buffer>,
    weight: &WeightMatrix<R::Buffer>,
    bias: Option<&WeightVector<R::Buffer>>,
    scale: f32,
    later: bool,
) -> Result<PendingRead<Vec<f32>>, DeviceError> {
    assert!(x.columns == weight.columns && x.columns > 0, "inner sizes of a product; this is a bug");
    assert!(bias.is_none_or(|bias| bias.len == weight.rows), "a bias for each output; this is a bug");
    let (rows, out, padded) = (x.rows, weight.rows, weight.padded_rows());
    if rows == 0 || out == 0 {
        return Ok(PendingRead::ready(Vec::new()));
    }
    let converted = cuda.convert_tensor(x)?;
    let x = converted.as_ref().unwrap_or(x);
    let output = cuda.runtime.allocate(rows * padded * ElementType::F32.size())?;
    let product = MatrixProduct {
        rows,
        inner: x.columns,
        out: padded,
        element: cuda.element,
        x: &x.buffer,
        weight: &weight.buffer,
        first: 0,
        scale,
        bias: None,
        fused: FusedFunction::Nothing,
        residual: None,
        output_element: ElementType::F32,
        output: &output,
    };
    multiply_matrices(cuda, &product)?;
    let count = rows * padded * ElementType::F32.size();
    let bytes = if later {
        cuda.runtime.request_bytes(&output, count)?
    } else {
        let mut bytes = vec![0; count];
        cuda.runtime.download(&output, &mut bytes)?;
        PendingRead::ready(bytes)
    };
    let bias = bias.map(|bias| Arc::clone(&bias.numbers));
    Ok(bytes.map(move |bytes| {
        let numbers = from_bytes(&bytes, ElementType::F32);
        let of_bias = |column: usize| bias.as_ref().map_or(0.0, |bias| bias[column]);
        let add = |row: &[f32]| (0..out).map(|column| row[column] + of_bias(column)).collect::<Vec<_>>();
        numbers.chunks_exact(padded).flat_map(add).collect()
    }))
}

/// True if the library of products takes these sizes.
fn is_aligned(inner: usize, out: usize) -> bool {
    inner.is_multiple_of(8) && out.is_multiple_of(8)
}

/// Multiplies by the library, or by `product.cu` for other sizes; there the product must have no bias or residual.
pub(crate) fn multiply_matrices<R: Runtime>(
    cuda: &Cuda<R>,
    product: &MatrixProduct<'_, R::Buffer>,
) -> Result<(), DeviceError> {
    if is_aligned(product.inner, product.out) {
        return cuda.runtime.multiply_matrices(product);
    }
    assert!(product.bias.is_none() && product.residual.is_none(), "a bare product; this is a bug");
    let kernel = match (product.element, product.output_element) {
        (ElementType::F32, _) => "product_f32",
        (ElementType::Bf16, ElementType::Bf16) => "product_bf16",
        (ElementType::Bf16, ElementType::F32) => "product_bf16_f32",
    };
    let arguments = [
        Buffer(product.output),
        Buffer(product.x),
        Buffer(product.weight),
        U32(kernel_size(product.first)),
        U32(kernel_size(product.rows)),
        U32(kernel_size(product.inner)),
        U32(kernel_size(product.out)),
        F32(product.scale),
    ];
    let kernel = Kernel::named("product", kernel);
    let grid = (kernel_size(product.out.div_ceil(SIDE)), kernel_size(product.rows.div_ceil(SIDE)));
    cuda.runtime.launch(KernelLaunch { kernel, grid, threads: THREADS, shared: 0 }, &arguments)
}

/// Divides an epilogue: what the library fuses, and the rest. A bias is always fused if the sizes allow a product of
/// the library. In `f32` only relu is fused: a library's GELU may be an approximation.
fn split_epilogue<'a, B>(
    element: ElementType,
    aligned: bool,
    bias: Option<&'a WeightVector<B>>,
    activation: Activation,
    residual: Option<&'a B>,
) -> SplitEpilogue<'a, B> {
    let rest_of = |bias: Option<&'a B>, activation, residual: Option<&'a B>| {
        let rest = RemainingEpilogue { bias, activation, residual };
        (bias.is_some() || residual.is_some() || activation != Activation::Identity).then_some(rest)
    };
    if !aligned {
        let rest = rest_of(bias.map(|bias| &bias.exact), activation, residual);
        return SplitEpilogue { bias: None, fused: FusedFunction::Nothing, residual: None, rest };
    }
    let (fused, activation) = match activation {
        Activation::Identity => (FusedFunction::Nothing, activation),
        Activation::Relu => (FusedFunction::Relu, Activation::Identity),
        Activation::GeluTanh if element == ElementType::Bf16 => (FusedFunction::GeluTanh, Activation::Identity),
        _ => (FusedFunction::Nothing, activation),
    };
    let is_bare = fused == FusedFunction::Nothing && activation == Activation::Identity;
    // A residual is added behind the activation.
    let (within, behind) = if is_bare { (residual, None) } else { (None, residual) };
    let bias = bias.map(|bias| bias.rounded.as_ref().unwrap_or(&bias.exact));
    SplitEpilogue { bias, fused, residual: within, rest: rest_of(None, activation, behind) }
}
