//! Writes the tensors of `torch.save` files as safetensors, one number after the other. Neither file is ever in
//! memory whole.
//!
//! Treatment of a tensor:
//! - f32, f16 and bf16 are written unchanged, f64 as f32. Other types are no weights: they are left out and reported.
//! - A tensor that is not contiguous is written in row-major order.
//! - Tensors that are the same view of one storage are *tied*. The first in the file's order (state dicts list
//!   embeddings before heads) is written. The others are left out and reported, because loaders tie them by
//!   `config.json`. If `tie_word_embeddings` is false there, every name is written.
//! - Other views of a shared storage are each written in full.

use super::archive::TorchArchive;
use super::pickle::{StorageElement, TensorReference};
use super::{ImportReport, SkippedEntry, TiedTensor};
use crate::CheckpointError;
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes collected before each write.
const CHUNK: usize = 1 << 20;

/// Maximum size of the written file, in sizes of the one read: views of one storage are each written in full.
const MOST_GROWTH: usize = 4;

/// A tensor to be written.
struct PlannedTensor {
    name: String,
    element: StorageElement,
    shape: Vec<usize>,
    stride: Vec<usize>,
    /// Begins at the tensor's first number.
    bytes: Bytes,
}

/// Writes the tensors of `from` to the safetensors file `to`. Returns the written names.
pub(super) fn convert_file(
    from: &Path,
    to: &Path,
    tied: bool,
    report: &mut ImportReport,
) -> Result<Vec<String>, CheckpointError> {
    let archive = TorchArchive::open(from)?;
    let planned = plan_tensors(from, &archive, tied, report)?;
    report.bytes +=
        write_file(to, &planned).map_err(|source| CheckpointError::Write { path: to.to_owned(), source })?;
    report.tensors += planned.len();
    Ok(planned.into_iter().map(|planned| planned.name).collect())
}

fn plan_tensors(
    from: &Path,
    archive: &TorchArchive,
    tied: bool,
    report: &mut ImportReport,
) -> Result<Vec<PlannedTensor>, CheckpointError> {
    let mut planned = Vec::new();
    let mut seen = HashMap::new();
    let mut names = HashSet::new();
    let leave_out = |name: &str, why: String| SkippedEntry { file: from.to_owned(), name: name.to_owned(), why };
    for (name, tensor) in &archive.tensors {
        if !names.insert(name) {
            let reason = format!("two tensors are called {name}");
            return Err(CheckpointError::Format { path: from.to_owned(), reason });
        }
        if !matches!(
            tensor.element,
            StorageElement::F64 | StorageElement::F32 | StorageElement::F16 | StorageElement::Bf16
        ) {
            report.skipped.push(leave_out(name, format!("{} is no type of weights", tensor.element.name())));
            continue;
        }
        let view = (&tensor.storage.key[..], tensor.storage.view, tensor.offset, &tensor.shape[..], &tensor.stride[..]);
        if tied && tensor.shape.iter().all(|&n| n > 0) {
            if let Some(&first) = seen.get(&view) {
                report.tied.push(TiedTensor { name: name.clone(), same_as: String::clone(first) });
                continue;
            }
            seen.insert(view, name);
        }
        if tensor.element == StorageElement::F64 {
            report.narrowed.push(name.clone());
        }
        planned.push(locate_tensor(from, name, tensor, archive)?);
    }
    check_growth(from, archive, &planned)?;
    report.skipped.extend(archive.others.iter().map(|name| leave_out(name, "no tensor".to_owned())));
    // Wide numbers first, to align all of them; then by name, to be independent of the dict's order.
    planned.sort_by(|a, b| stored_type(b.element).1.cmp(&stored_type(a.element).1).then_with(|| a.name.cmp(&b.name)));
    Ok(planned)
}

/// Refuses a file whose tensors are so many views of few bytes that they would fill the disk.
fn check_growth(from: &Path, archive: &TorchArchive, planned: &[PlannedTensor]) -> Result<(), CheckpointError> {
    let limit = archive.length.saturating_mul(MOST_GROWTH).max(CHUNK);
    let sizes = planned.iter().map(|tensor| tensor.shape.iter().product::<usize>() * stored_type(tensor.element).1);
    let total = sizes.fold(0_usize, usize::saturating_add);
    if total <= limit {
        return Ok(());
    }
    let (count, length) = (planned.len(), archive.length);
    let reason = format!(
        "its {count} tensors have {total} bytes, the file has {length}: they show the same numbers again and again; \
         at most {limit} bytes are written\nhint: save the weights with `torch.save` after cloning each tensor"
    );
    Err(CheckpointError::Format { path: from.to_owned(), reason })
}

/// Checks a tensor against its storage.
fn locate_tensor(
    from: &Path,
    name: &str,
    tensor: &TensorReference,
    archive: &TorchArchive,
) -> Result<PlannedTensor, CheckpointError> {
    let format =
        |reason: String| CheckpointError::Format { path: from.to_owned(), reason: format!("tensor {name}: {reason}") };
    let bytes = archive.storage_bytes(name, tensor)?;
    let width = tensor.element.size();
    let sizes = |sizes: &[u64]| sizes.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<Vec<usize>>>();
    let checked = || {
        let (shape, stride) = (sizes(&tensor.shape)?, sizes(&tensor.stride)?);
        let offset = usize::try_from(tensor.offset).ok()?.checked_mul(width)?;
        let numbers = shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n))?;
        let mut last = 0_usize;
        if numbers > 0 {
            for (&n, &step) in shape.iter().zip(&stride) {
                last = last.checked_add((n - 1).checked_mul(step)?)?;
            }
        }
        let end = if numbers == 0 { offset } else { last.checked_add(1)?.checked_mul(width)?.checked_add(offset)? };
        Some((shape, stride, offset, numbers, end))
    };
    let (shape, stride, offset, numbers, end) = checked()
        .ok_or_else(|| format(format!("shape {:?} with strides {:?} is too large", tensor.shape, tensor.stride)))?;
    if end > bytes.len() {
        return Err(format(format!(
            "shape {shape:?}, strides {stride:?} and offset {} need {end} bytes; its storage has {}",
            tensor.offset,
            bytes.len()
        )));
    }
    if numbers > bytes.len() / width {
        return Err(format(format!("shape {shape:?} shows {numbers} numbers of a storage of {}", bytes.len() / width)));
    }
    Ok(PlannedTensor { name: name.to_owned(), element: tensor.element, shape, stride, bytes: bytes.slice(offset..end) })
}

/// The type's name in safetensors, and its size there in bytes.
fn stored_type(element: StorageElement) -> (&'static str, usize) {
    match element {
        StorageElement::F16 => ("F16", 2),
        StorageElement::Bf16 => ("BF16", 2),
        _ => ("F32", 4),
    }
}

/// Writes header and tensors. Returns the size of the file in bytes.
fn write_file(path: &Path, planned: &[PlannedTensor]) -> std::io::Result<u64> {
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".to_owned(), serde_json::json!({"format": "pt"}));
    let mut end = 0;
    for tensor in planned {
        let (dtype, width) = stored_type(tensor.element);
        let start = end;
        end += tensor.shape.iter().product::<usize>() * width;
        let about = serde_json::json!({"dtype": dtype, "shape": tensor.shape, "data_offsets": [start, end]});
        header.insert(tensor.name.clone(), about);
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut out = BufWriter::with_capacity(CHUNK, File::create(path)?);
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for tensor in planned {
        write_tensor(&mut out, tensor)?;
    }
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
    Ok((8 + header.len() + end) as u64)
}

fn write_tensor(out: &mut impl Write, tensor: &PlannedTensor) -> std::io::Result<()> {
    let width = tensor.element.size();
    let numbers = tensor.shape.iter().product::<usize>();
    if tensor.is_contiguous() {
        return write_numbers(out, tensor.element, &tensor.bytes[..numbers * width]);
    }
    let mut index = vec![0; tensor.shape.len()];
    let mut chunk = Vec::with_capacity(CHUNK);
    for _ in 0..numbers {
        let at = index.iter().zip(&tensor.stride).map(|(i, step)| i * step).sum::<usize>() * width;
        chunk.extend_from_slice(&tensor.bytes[at..at + width]);
        if chunk.len() + width > CHUNK {
            write_numbers(out, tensor.element, &chunk)?;
            chunk.clear();
        }
        for (i, n) in index.iter_mut().zip(&tensor.shape).rev() {
            *i += 1;
            if *i < *n {
                break;
            }
            *i = 0;
        }
    }
    write_numbers(out, tensor.element, &chunk)
}

/// Writes adjacent numbers: f64 rounded to f32, all others unchanged.
fn write_numbers(out: &mut impl Write, element: StorageElement, bytes: &[u8]) -> std::io::Result<()> {
    if element != StorageElement::F64 {
        return out.write_all(bytes);
    }
    for number in bytes.as_chunks::<8>().0 {
        out.write_all(&(f64::from_le_bytes(*number) as f32).to_le_bytes())?;
    }
    Ok(())
}

impl PlannedTensor {
    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.shape.iter().zip(&self.stride).rev().all(|(&n, &step)| {
            let fits = n <= 1 || step == expected;
            expected *= n;
            fits
        })
    }
}

/// The name of a converted shard: `pytorch_model-00001-of-00002.bin` becomes `model-00001-of-00002.safetensors`.
pub(super) fn converted_name(file: &Path) -> PathBuf {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = stem.strip_prefix("pytorch_").map_or(stem.as_str(), |rest| rest);
    PathBuf::from(format!("{stem}.safetensors"))
}
