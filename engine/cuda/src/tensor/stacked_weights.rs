//! Brings weights from the form of their file into the device's: converted, transposed, stacked, by all threads.
//!
//! A matrix that has the device's form already is not copied. Numbers that keep their type are moved as bytes. A
//! transposition goes tile by tile: a tile's lines are read whole, converted, and written from the first-level cache.

use super::WeightMatrix;
use crate::runtime::ElementType;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use hopeval_device::{DeviceError, Dtype, HostTensor, WeightLayout};
use rayon::prelude::*;
use std::borrow::Cow;

/// Numbers that a thread converts at once. As many are not worth a second thread.
const STEP: usize = 1 << 16;

/// Rows and columns of a tile.
const TILE: usize = 64;

/// Bytes of weights, stacked along *out*, in the device's element.
pub(crate) struct StackedWeights<'a> {
    /// Followed by zeros up to a whole number of [`WeightMatrix::PAD`] rows.
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// Stacks `parts` and converts them.
pub(crate) fn stack_weights(
    parts: &[HostTensor],
    layout: WeightLayout,
    element: ElementType,
) -> Result<StackedWeights<'_>, DeviceError> {
    let (rows, columns) = stacked_shape(parts, layout)?;
    let padded = rows.next_multiple_of(WeightMatrix::<()>::PAD);
    if let [part] = parts
        && layout == WeightLayout::OutIn
        && padded == rows
        && is_stored_as(part, element)
    {
        return Ok(StackedWeights { bytes: Cow::Borrowed(&part.bytes), rows, columns });
    }
    let mut bytes = vec![0; padded * columns * element.size()];
    let mut rest = &mut bytes[..];
    for part in parts {
        let (own, behind) = rest.split_at_mut(part.len() * element.size());
        write_part(part, layout, element, own);
        rest = behind;
    }
    Ok(StackedWeights { bytes: Cow::Owned(bytes), rows, columns })
}

/// Rows and columns of the stack, with every part checked.
fn stacked_shape(parts: &[HostTensor], layout: WeightLayout) -> Result<(usize, usize), DeviceError> {
    let mut stacked = (0, 0);
    for part in parts {
        let (first, second) = part.matrix_shape()?;
        let (rows, columns) = match layout {
            WeightLayout::OutIn => (first, second),
            WeightLayout::InOut => (second, first),
        };
        if stacked.0 > 0 && stacked.1 != columns {
            let reason = format!("expected {} inputs like {}, found {columns}", stacked.1, parts[0].name);
            return Err(DeviceError::Weight { name: part.name.to_string(), reason });
        }
        if part.bytes.len() != part.len() * part.dtype.size() {
            let (wanted, found) = (part.len() * part.dtype.size(), part.bytes.len());
            let reason = format!("expected {wanted} bytes for shape {:?}, found {found}", part.shape);
            return Err(DeviceError::Weight { name: part.name.to_string(), reason });
        }
        stacked = (stacked.0 + rows, columns);
    }
    Ok(stacked)
}

fn is_stored_as(part: &HostTensor, element: ElementType) -> bool {
    matches!((part.dtype, element), (Dtype::F32, ElementType::F32) | (Dtype::Bf16, ElementType::Bf16))
}

/// Writes all numbers of a part to `into`.
fn write_part(part: &HostTensor, layout: WeightLayout, element: ElementType, into: &mut [u8]) {
    match (part.dtype, element) {
        (Dtype::F32, ElementType::F32) => {
            write_numbers::<4, 4>(part, layout, into, |from, to| to.copy_from_slice(from))
        }
        (Dtype::Bf16, ElementType::Bf16) => {
            write_numbers::<2, 2>(part, layout, into, |from, to| to.copy_from_slice(from));
        }
        (Dtype::F32, ElementType::Bf16) => write_numbers::<4, 2>(part, layout, into, |from, to| {
            convert_line(from, to, |x| bf16::from_f32(f32::from_le_bytes(x)).to_le_bytes());
        }),
        (Dtype::Bf16, ElementType::F32) => write_numbers::<2, 4>(part, layout, into, |from, to| {
            convert_line(from, to, |x| bf16::from_le_bytes(x).to_f32().to_le_bytes());
        }),
        (Dtype::F16, ElementType::F32) => write_numbers::<2, 4>(part, layout, into, |from, to| {
            convert_halves(from, to, f32::to_le_bytes);
        }),
        (Dtype::F16, ElementType::Bf16) => write_numbers::<2, 2>(part, layout, into, |from, to| {
            convert_halves(from, to, |x| bf16::from_f32(x).to_le_bytes());
        }),
    }
}

/// Converts number by number.
fn convert_line<From: Copy, To>(from: &[From], into: &mut [To], convert: impl Fn(From) -> To) {
    for (to, x) in into.iter_mut().zip(from) {
        *to = convert(*x);
    }
}

/// The same for `f16`, which processors convert several at once.
fn convert_halves<To>(from: &[[u8; 2]], into: &mut [To], convert: impl Fn(f32) -> To) {
    let (mut halves, mut numbers) = ([f16::ZERO; TILE], [0.0; TILE]);
    for (from, into) in from.chunks(TILE).zip(into.chunks_mut(TILE)) {
        let (halves, numbers) = (&mut halves[..from.len()], &mut numbers[..from.len()]);
        convert_line(from, halves, f16::from_le_bytes);
        halves.convert_to_f32_slice(numbers);
        convert_line(numbers, into, &convert);
    }
}

/// Writes numbers of `FROM` bytes that become `TO` bytes; `convert` does so for a line of them.
fn write_numbers<const FROM: usize, const TO: usize>(
    part: &HostTensor,
    layout: WeightLayout,
    into: &mut [u8],
    convert: impl Fn(&[[u8; FROM]], &mut [[u8; TO]]) + Sync,
) {
    let (from, into) = (part.bytes.as_chunks::<FROM>().0, into.as_chunks_mut::<TO>().0);
    match layout {
        WeightLayout::OutIn => convert_numbers(from, into, convert),
        WeightLayout::InOut => transpose_numbers(from, part.shape[1], into, convert),
    }
}

/// Converts numbers in their order.
fn convert_numbers<From: Sync, To: Send>(from: &[From], into: &mut [To], convert: impl Fn(&[From], &mut [To]) + Sync) {
    match from.len() <= STEP {
        true => convert(from, into),
        false => from.par_chunks(STEP).zip(into.par_chunks_mut(STEP)).for_each(|(from, into)| convert(from, into)),
    }
}

/// Converts a matrix `[columns, rows]` to one of `[rows, columns]`.
fn transpose_numbers<const FROM: usize, const TO: usize>(
    from: &[[u8; FROM]],
    rows: usize,
    into: &mut [[u8; TO]],
    convert: impl Fn(&[[u8; FROM]], &mut [[u8; TO]]) + Sync,
) {
    if from.is_empty() {
        return;
    }
    let columns = from.len() / rows;
    into.par_chunks_mut(TILE * columns).enumerate().for_each(|(band, into)| {
        let height = into.len() / columns;
        let mut tile = [[[0; TO]; TILE]; TILE];
        for left in (0..columns).step_by(TILE) {
            let width = TILE.min(columns - left);
            for (column, line) in tile[..width].iter_mut().enumerate() {
                let begin = (left + column) * rows + band * TILE;
                convert(&from[begin..begin + height], &mut line[..height]);
            }
            for (row, line) in into.chunks_exact_mut(columns).enumerate() {
                for (to, column) in line[left..left + width].iter_mut().zip(&tile) {
                    *to = column[row];
                }
            }
        }
    });
}

/// Numbers in the device's element.
pub(crate) fn to_bytes(numbers: &[f32], element: ElementType) -> Vec<u8> {
    let mut bytes = vec![0; numbers.len() * element.size()];
    match element {
        ElementType::F32 => convert_numbers(numbers, bytes.as_chunks_mut::<4>().0, |from, to| {
            convert_line(from, to, f32::to_le_bytes);
        }),
        ElementType::Bf16 => convert_numbers(numbers, bytes.as_chunks_mut::<2>().0, |from, to| {
            convert_line(from, to, |x| bf16::from_f32(x).to_le_bytes());
        }),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of `[rows, columns]` with numbers that all types round otherwise, at an odd address.
    fn part(dtype: Dtype, rows: usize, columns: usize) -> HostTensor {
        let numbers = (0..rows * columns).map(|n| ((n * 7919) % 65_521) as f32 / 317.0 - 103.3);
        let bytes = numbers.flat_map(|x| match dtype {
            Dtype::F32 => x.to_le_bytes().to_vec(),
            Dtype::F16 => f16::from_f32(x).to_le_bytes().to_vec(),
            Dtype::Bf16 => bf16::from_f32(x).to_le_bytes().to_vec(),
        });
        let bytes: Vec<u8> = [0].into_iter().chain(bytes).collect();
        let bytes = bytes::Bytes::from(bytes).slice(1..);
        HostTensor { name: "weight".into(), dtype, shape: vec![rows, columns], bytes }
    }

    /// Number by number, by way of `f32`.
    fn plainly(parts: &[HostTensor], layout: WeightLayout, element: ElementType) -> Vec<u8> {
        let (mut bytes, mut rows, mut inputs) = (Vec::new(), 0, 0);
        for part in parts {
            let (numbers, columns) = (part.to_f32(), part.shape[1]);
            let (outs, ins) = match layout {
                WeightLayout::OutIn => (part.shape[0], part.shape[1]),
                WeightLayout::InOut => (part.shape[1], part.shape[0]),
            };
            for (out, into) in (0..outs).flat_map(|out| (0..ins).map(move |into| (out, into))) {
                let x = match layout {
                    WeightLayout::OutIn => numbers[out * columns + into],
                    WeightLayout::InOut => numbers[into * columns + out],
                };
                match element {
                    ElementType::F32 => bytes.extend(x.to_le_bytes()),
                    ElementType::Bf16 => bytes.extend(bf16::from_f32(x).to_le_bytes()),
                }
            }
            (rows, inputs) = (rows + outs, ins);
        }
        bytes.resize(rows.next_multiple_of(8) * inputs * element.size(), 0);
        bytes
    }

    #[test]
    fn tiles_and_threads_give_what_single_numbers_give() {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            for element in [ElementType::F32, ElementType::Bf16] {
                for (a, b) in [(0, 3), (1, 1), (1, 200), (200, 1), (63, 65), (64, 128), (129, 70), (331, 517)] {
                    for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
                        // The second part has another number of outputs.
                        let second = match layout {
                            WeightLayout::OutIn => part(dtype, a + 9, b),
                            WeightLayout::InOut => part(dtype, a, b + 9),
                        };
                        let parts = [part(dtype, a, b), second];
                        for parts in [&parts[..1], &parts] {
                            let stacked = stack_weights(parts, layout, element).expect("one shape");
                            let case = format!("{dtype:?} to {element:?}, {layout:?}, {a} x {b}, {}", parts.len());
                            assert!(stacked.bytes == plainly(parts, layout, element), "{case}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn only_a_matrix_in_the_devices_form_is_borrowed() {
        let borrowed = |parts: &[HostTensor], layout, element| {
            matches!(stack_weights(parts, layout, element).expect("one shape").bytes, Cow::Borrowed(_))
        };
        let (out_in, in_out) = (WeightLayout::OutIn, WeightLayout::InOut);
        let (bf16, f32) = (ElementType::Bf16, ElementType::F32);
        assert!(borrowed(&[part(Dtype::Bf16, 16, 3)], out_in, bf16));
        assert!(borrowed(&[part(Dtype::F32, 8, 5)], out_in, f32));
        assert!(!borrowed(&[part(Dtype::Bf16, 17, 3)], out_in, bf16), "rows without zeros behind them");
        assert!(!borrowed(&[part(Dtype::Bf16, 16, 16)], in_out, bf16), "transposed");
        assert!(!borrowed(&[part(Dtype::F16, 16, 3)], out_in, bf16), "converted");
        assert!(!borrowed(&[part(Dtype::Bf16, 16, 3), part(Dtype::Bf16, 8, 3)], out_in, bf16), "stacked");
    }

    #[test]
    fn many_numbers_are_rounded_like_few() {
        let numbers: Vec<f32> = (0..STEP + 77).map(|n| n as f32 * 0.37 - 9000.1).collect();
        let singly = |element| numbers.chunks(1000).flat_map(move |some| to_bytes(some, element)).collect::<Vec<_>>();
        for element in [ElementType::F32, ElementType::Bf16] {
            assert!(to_bytes(&numbers, element) == singly(element), "{element:?}");
        }
        assert_eq!(to_bytes(&[1.0, -2.5], ElementType::Bf16), [0x80, 0x3F, 0x20, 0xC0]);
    }

    #[test]
    fn parts_that_do_not_fit_are_named() {
        let wrong = |parts: &[HostTensor]| match stack_weights(parts, WeightLayout::OutIn, ElementType::Bf16) {
            Err(DeviceError::Weight { name, reason }) => format!("{name}: {reason}"),
            _ => panic!("accepted"),
        };
        let (one, other) = (part(Dtype::F32, 8, 3), part(Dtype::F32, 8, 4));
        assert_eq!(wrong(&[one.clone(), other]), "weight: expected 3 inputs like weight, found 4");
        let cut = HostTensor { bytes: one.bytes.slice(1..), ..one };
        assert_eq!(wrong(&[cut]), "weight: expected 96 bytes for shape [8, 3], found 95");
    }
}
