//! The heading of a safetensors file: its length in eight bytes, and JSON with the type, shape and place of every
//! tensor.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::Metadata;

use super::error::{VectorError, file_error};
use super::tensor::{NumberType, TensorPlace, TensorRows};
use crate::input::InputError;
use crate::value::quoted;

/// The most bytes of the JSON: about 100,000 tensors.
const LONGEST: u64 = 16 << 20;
/// The most names of tensors in a message.
const MOST_NAMES: usize = 20;

/// Opens the tensor `name` of the file, or the only one.
pub(super) fn open(path: &Path, name: Option<&str>) -> Result<TensorRows, VectorError> {
    let failed = |source| InputError::Open { path: path.to_owned(), source };
    let wrong = |field: &str, found: String, allowed: &str| file_error(path, field, found, allowed);
    let mut file = File::open(path).map_err(failed)?;
    let end = file.metadata().map_err(failed)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(failed)?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST.min(end.saturating_sub(8)) {
        let found = format!("a heading of {length} bytes in a file of {end}");
        return Err(wrong("", found, "at most 16777216 bytes, all of them in the file"));
    }
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text).map_err(failed)?;
    let metadata: Metadata = serde_json::from_slice(&text).map_err(|error| {
        wrong("", format!("a damaged heading ({error})"), "JSON with the type, shape and place of each tensor")
    })?;
    let tensors = metadata.tensors();
    let start = 8 + length;
    // Metadata is only read if the tensors follow each other without a gap.
    let described = tensors.values().map(|tensor| tensor.data_offsets.1 as u64).max().unwrap_or(0);
    if end - start != described {
        let found = format!("{} bytes behind the heading", end - start);
        return Err(wrong("", found, &format!("{described}, as the heading says")));
    }
    let mut names: Vec<&str> = tensors.keys().map(String::as_str).collect();
    names.sort_unstable();
    let listed = || {
        let listed = names.iter().take(MOST_NAMES).map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        if names.len() > MOST_NAMES { format!("{listed}, and others") } else { listed }
    };
    let name = match (name, &names[..]) {
        (Some(name), _) => name,
        (None, [name]) => name,
        (None, []) => return Err(wrong("", "no tensor".to_owned(), "a tensor of vectors")),
        (None, names) => {
            let allowed = format!("one tensor, or its name as `tensor`: {}", listed());
            return Err(wrong("", format!("{} tensors", names.len()), &allowed));
        }
    };
    let tensor = tensors.get(name).ok_or_else(|| {
        let allowed = if names.is_empty() { "a file with tensors".to_owned() } else { listed() };
        wrong("", format!("no tensor {}", quoted(name)), &allowed)
    })?;
    let numbers = match tensor.dtype {
        Dtype::F16 => NumberType::F16,
        Dtype::BF16 => NumberType::Bf16,
        Dtype::F32 => NumberType::F32,
        Dtype::F64 => NumberType::F64,
        other => return Err(wrong(&format!("{name}.dtype"), format!("{other:?}"), "F16, BF16, F32 and F64")),
    };
    let place = TensorPlace {
        numbers,
        shape: tensor.shape.iter().map(|&size| size as u64).collect(),
        shape_field: format!("{name}.shape"),
        start: start + tensor.data_offsets.0 as u64,
        end: start + tensor.data_offsets.1 as u64,
    };
    TensorRows::new(path, file, &place)
}
