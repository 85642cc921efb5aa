//! Products in plain loops. They stand in for the GPU's library of products (cuBLASLt), which cannot be emulated.
//!
//! A sum has eight parts, each in the order of the inner index, joined as a tree: it depends on `inner` alone. Operands
//! are checked against their buffers, so a wrong size is an error, not a read from another buffer.

use crate::EmulatorBuffer;
use half::bf16;
use hopeval_cuda::runtime::{ElementType, FusedFunction, MatrixProduct};

/// Parts of a sum.
const PARTS: usize = 8;

/// Computes a product, or returns the fault found.
pub(crate) fn multiply_matrices(product: &MatrixProduct<'_, EmulatorBuffer>) -> Result<(), String> {
    let MatrixProduct { rows, inner, out, first, .. } = *product;
    if rows == 0 || inner == 0 || out == 0 || inner % PARTS != 0 || out % PARTS != 0 {
        return Err(format!("a product of {rows} x {inner} and {inner} x {out}"));
    }
    if product.residual.is_some() && product.fused != FusedFunction::Nothing {
        return Err("a product with a residual and a function".into());
    }
    if ![product.element, ElementType::F32].contains(&product.output_element) {
        return Err("a product of f32 with results in bf16".into());
    }
    let x = read_numbers("x", product.x, product.element, 0, rows * inner)?;
    let weight = read_numbers("weight", product.weight, product.element, first * inner, out * inner)?;
    let given = |name, buffer, count| match buffer {
        Some(buffer) => read_numbers(name, buffer, product.output_element, 0, count),
        None => Ok(vec![0.0; count]),
    };
    let bias = given("bias", product.bias, out)?;
    let residual = given("residual", product.residual, rows * out)?;
    let mut results = Vec::with_capacity(rows * out);
    for (x, residual) in x.chunks_exact(inner).zip(residual.chunks_exact(out)) {
        for ((weight, bias), residual) in weight.chunks_exact(inner).zip(&bias).zip(residual) {
            results.push(apply_fused(product.fused, product.scale * dot_product(x, weight) + bias) + residual);
        }
    }
    let bytes = to_bytes(&results, product.output_element);
    // A longer buffer was written by a wider product; the numbers beyond this one stay.
    if bytes.len() > product.output.len() {
        return Err(format!("a product of {} bytes into a buffer of {}", bytes.len(), product.output.len()));
    }
    product.output.write(&bytes);
    Ok(())
}

fn dot_product(x: &[f32], y: &[f32]) -> f32 {
    let mut parts = [0.0; PARTS];
    for (x, y) in x.as_chunks::<PARTS>().0.iter().zip(y.as_chunks::<PARTS>().0) {
        for i in 0..PARTS {
            parts[i] += x[i] * y[i];
        }
    }
    let [a, b, c, d, e, f, g, h] = parts;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

fn apply_fused(function: FusedFunction, x: f32) -> f32 {
    match function {
        FusedFunction::Nothing => x,
        FusedFunction::Relu => x.max(0.0),
        FusedFunction::GeluTanh => 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh()),
    }
}

/// `count` numbers of a buffer, after `skipped`.
fn read_numbers(
    name: &str,
    buffer: &EmulatorBuffer,
    element: ElementType,
    skipped: usize,
    count: usize,
) -> Result<Vec<f32>, String> {
    let size = element.size();
    let end = (skipped + count) * size;
    if end > buffer.len() {
        return Err(format!("a product reads {end} bytes of {name}, which has {}", buffer.len()));
    }
    let mut bytes = vec![0; end];
    buffer.read(&mut bytes);
    let bytes = &bytes[skipped * size..];
    Ok(match element {
        ElementType::F32 => bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect(),
        ElementType::Bf16 => bytes.as_chunks().0.iter().map(|bytes| bf16::from_ne_bytes(*bytes).to_f32()).collect(),
    })
}

fn to_bytes(numbers: &[f32], element: ElementType) -> Vec<u8> {
    match element {
        ElementType::F32 => numbers.iter().flat_map(|x| x.to_ne_bytes()).collect(),
        ElementType::Bf16 => numbers.iter().flat_map(|x| bf16::from_f32(*x).to_ne_bytes()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryBudget;

    #[test]
    fn a_product_of_the_rows_asked_for_with_bias_and_residual() {
        let memory = MemoryBudget::with_limit(u64::MAX);
        let of = |numbers: &[f32]| {
            let buffer = memory.allocate(numbers.len() * 4).unwrap();
            buffer.write(&to_bytes(numbers, ElementType::F32));
            buffer
        };
        let weight =
            of(&[[9.0; 8]; 1].into_iter().chain((0..8).map(|row| [row as f32; 8])).flatten().collect::<Vec<_>>());
        let (x, bias, residual, output) = (of(&[0.5; 16]), of(&[1.0; 8]), of(&[100.0; 16]), of(&[0.0; 16]));
        let product = MatrixProduct {
            rows: 2,
            inner: 8,
            out: 8,
            element: ElementType::F32,
            x: &x,
            weight: &weight,
            first: 1,
            scale: 2.0,
            bias: Some(&bias),
            fused: FusedFunction::Nothing,
            residual: Some(&residual),
            output_element: ElementType::F32,
            output: &output,
        };
        multiply_matrices(&product).unwrap();
        let found = read_numbers("output", &output, ElementType::F32, 8, 8).unwrap();
        assert_eq!(found, (0..8).map(|row| 8.0 * row as f32 + 101.0).collect::<Vec<_>>());
        let longer = of(&[7.0; 18]);
        multiply_matrices(&MatrixProduct { output: &longer, ..product }).unwrap();
        let there = read_numbers("output", &longer, ElementType::F32, 0, 18).unwrap();
        assert_eq!((&there[8..16], &there[16..]), (&found[..], &[7.0; 2][..]));
        let shorter = of(&[7.0; 15]);
        let message = multiply_matrices(&MatrixProduct { output: &shorter, ..product }).unwrap_err();
        assert_eq!(message, "a product of 64 bytes into a buffer of 60");
        let message = multiply_matrices(&MatrixProduct { first: 2, ..product }).unwrap_err();
        assert_eq!(message, "a product reads 320 bytes of weight, which has 288");
    }
}
