//! The two formats of `torch.save`: a zip archive (PyTorch 1.6 and later), and a sequence of pickles followed by
//! storages (before 1.6).
//!
//! ```text
//!   zip      NAME/data.pkl, NAME/data/KEY (stored, not compressed), NAME/byteorder
//!   legacy   magic | protocol | system | state dict | keys | for each key: numbers (u64), bytes  (| : one pickle each)
//! ```

use super::pickle::{Pickle, PickleError, PickleValue, StorageElement, StorageReference, TensorReference};
use crate::{CheckpointError, mapped};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The number at the start of a legacy file: `0x1950a86a20f9469cfc6c`.
const LEGACY_MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// Maximum number of entries of a state dict; the largest shards have a few thousand.
const MOST_ENTRIES: usize = 500_000;

/// Maximum length of an entry's name in bytes.
const MOST_NAME: usize = 512;

/// A file of `torch.save`, mapped.
#[derive(Debug)]
pub(super) struct TorchArchive {
    path: PathBuf,
    /// Length of the file in bytes.
    pub(super) length: usize,
    /// Tensors in the file's order.
    pub(super) tensors: Vec<(String, TensorReference)>,
    /// Names of the entries other than tensors.
    pub(super) others: Vec<String>,
    storages: BTreeMap<String, Bytes>,
}

impl TorchArchive {
    /// Opens either format.
    ///
    /// # Errors
    /// [`CheckpointError::Format`], [`CheckpointError::Global`].
    pub(super) fn open(path: &Path) -> Result<Self, CheckpointError> {
        let bytes = mapped::map_file(path)?;
        let format = |reason: String| CheckpointError::Format { path: path.to_owned(), reason };
        let refused = |refused| match refused {
            PickleError::Global(global) => CheckpointError::Global { path: path.to_owned(), global },
            PickleError::Format(reason) => format(reason),
        };
        let (pickle, storages) = if bytes.starts_with(b"PK") {
            let (pickle, storages) = read_zip(&bytes).map_err(format)?;
            (Pickle::read(&pickle).map_err(refused)?, storages)
        } else if bytes.starts_with(b"version https://git-lfs") {
            return Err(format("a Git LFS pointer, not the file; fetch it with git lfs pull".to_owned()));
        } else {
            read_legacy(&bytes).map_err(refused)?
        };
        let (tensors, others) = state_dict(&pickle).map_err(format)?;
        Ok(Self { path: path.to_owned(), length: bytes.len(), tensors, others, storages })
    }

    /// The bytes of a tensor's storage, beginning at the tensor's view of it.
    ///
    /// # Errors
    /// [`CheckpointError::Format`] if the file lacks them.
    pub(super) fn storage_bytes(&self, name: &str, tensor: &TensorReference) -> Result<Bytes, CheckpointError> {
        let StorageReference { key, view, .. } = &tensor.storage;
        let format = |reason: String| CheckpointError::Format { path: self.path.clone(), reason };
        let Some(bytes) = self.storages.get(&**key) else {
            return Err(format(format!("tensor {name}: its storage {key:?} is not in the file")));
        };
        let Some((offset, size)) = *view else { return Ok(bytes.clone()) };
        let width = tensor.element.size() as u64;
        let range = offset.checked_add(size).and_then(|end| {
            Some(usize::try_from(offset.checked_mul(width)?).ok()?..usize::try_from(end.checked_mul(width)?).ok()?)
        });
        match range {
            Some(range) if range.end <= bytes.len() => Ok(bytes.slice(range)),
            _ => Err(format(format!(
                "tensor {name}: numbers {offset} to {offset} + {size} of storage {key:?}, which has {} bytes",
                bytes.len()
            ))),
        }
    }
}

/// The tensors of a state dict, and the names of its other entries.
#[expect(clippy::type_complexity, reason = "two lists, named where they are used")]
fn state_dict(pickle: &Pickle) -> Result<(Vec<(String, TensorReference)>, Vec<String>), String> {
    let PickleValue::Dict(entries) = pickle.get(pickle.root) else {
        return Err("not a state dict: the file holds no dict of tensors".to_owned());
    };
    if entries.len() > MOST_ENTRIES {
        return Err(format!("a state dict of {} entries; at most {MOST_ENTRIES} are read", entries.len()));
    }
    let (mut tensors, mut others) = (Vec::new(), Vec::new());
    for &(key, value) in entries {
        match (pickle.get(key), pickle.get(value)) {
            (PickleValue::Text(name), _) if name.len() > MOST_NAME => {
                return Err(format!("an entry whose name has {} bytes; at most {MOST_NAME} are read", name.len()));
            }
            (PickleValue::Text(name), PickleValue::Tensor(tensor)) => tensors.push((name.clone(), tensor.clone())),
            (PickleValue::Text(name), _) => others.push(name.clone()),
            (_, _) => others.push("an entry whose name is no text".to_owned()),
        }
    }
    if tensors.is_empty() {
        let found = others.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(format!("not a state dict: no tensor in its dict of {} entries ({found})", others.len()));
    }
    Ok((tensors, others))
}

/// `data.pkl` and the storages by key.
fn read_zip(bytes: &Bytes) -> Result<(Bytes, BTreeMap<String, Bytes>), String> {
    let mut archive =
        zip::ZipArchive::new(Cursor::new(bytes)).map_err(|source| format!("not a whole zip archive: {source}"))?;
    let mut entries = BTreeMap::new();
    let (mut summed, mut ranges) = (BTreeMap::new(), Vec::new());
    for index in 0..archive.len() {
        let entry =
            archive.by_index_raw(index).map_err(|source| format!("entry {index} of the zip archive: {source}"))?;
        if entry.is_dir() {
            continue;
        }
        let name = entry.name().to_owned();
        if entry.compression() != zip::CompressionMethod::Stored {
            return Err(format!("{name} is compressed; torch.save stores its entries as they are"));
        }
        let range = entry.data_start().and_then(|start| {
            let start = usize::try_from(start).ok()?;
            Some(start..start.checked_add(usize::try_from(entry.size()).ok()?)?)
        });
        // `set_crc32_options(False)` of PyTorch writes 0 instead of sums.
        if entry.crc32() != 0 {
            summed.insert(name.clone(), index);
        }
        match range {
            Some(range) if range.end <= bytes.len() => {
                ranges.push((range.clone(), name.clone()));
                entries.insert(name, bytes.slice(range))
            }
            _ => return Err(format!("{name} ends beyond the file")),
        };
    }
    refuse_overlaps(&ranges)?;
    let found = entries.keys().find(|name| *name == "data.pkl" || name.ends_with("/data.pkl"));
    let Some(prefix) = found.and_then(|name| name.strip_suffix("data.pkl")).map(str::to_owned) else {
        return Err("no data.pkl in the zip archive: not written by torch.save".to_owned());
    };
    if let Some(order) = entries.get(&format!("{prefix}byteorder"))
        && order.as_ref() != b"little"
    {
        return Err(format!("its byte order is {:?}; only little is read", String::from_utf8_lossy(order)));
    }
    let pickle = entries.get(&format!("{prefix}data.pkl")).cloned().unwrap_or_default();
    let data = format!("{prefix}data/");
    let used = |name: &str| name.starts_with(&data) || name == format!("{prefix}data.pkl");
    for (name, index) in summed.into_iter().filter(|(name, _)| used(name)) {
        // The crate compares the sum when it has read the last byte.
        let read = archive.by_index(index).map_err(std::io::Error::from);
        read.and_then(|mut entry| std::io::copy(&mut entry, &mut std::io::sink())).map_err(|source| {
            format!("{name} is damaged ({source}): its bytes are not those of its CRC-32\nhint: fetch the file again")
        })?;
    }
    let storages = entries.into_iter().filter_map(|(name, bytes)| Some((name.strip_prefix(&data)?.to_owned(), bytes)));
    Ok((pickle, storages.collect()))
}

/// `torch.save` writes each byte of the file for one entry. Entries that share bytes could name any number of tensors.
fn refuse_overlaps(ranges: &[(Range<usize>, String)]) -> Result<(), String> {
    let mut ranges: Vec<_> = ranges.iter().filter(|(range, _)| !range.is_empty()).collect();
    ranges.sort_by_key(|(range, _)| range.start);
    match ranges.windows(2).find(|pair| pair[1].0.start < pair[0].0.end) {
        Some(pair) => Err(format!("{} and {} of the zip archive share bytes", pair[0].1, pair[1].1)),
        None => Ok(()),
    }
}

/// The state dict's pickle and the storages by key.
fn read_legacy(bytes: &Bytes) -> Result<(Pickle, BTreeMap<String, Bytes>), PickleError> {
    let format = |reason: String| PickleError::Format(reason);
    let mut at = 0;
    let mut next = || {
        let pickle = Pickle::read(&bytes[at..])?;
        at += pickle.length;
        Ok::<_, PickleError>(pickle)
    };
    let magic = next().map_err(|refused| match refused {
        // A pickle that asks for code to be run is reported as such; any other is a file of another kind.
        PickleError::Global(global) if is_name(&global) => PickleError::Global(global),
        _ => format("neither a zip archive nor a pickle: not written by torch.save".to_owned()),
    })?;
    if *magic.get(magic.root) != PickleValue::Big(LEGACY_MAGIC.to_vec()) {
        return Err(format("a pickle that torch.save did not write".to_owned()));
    }
    let protocol = next()?;
    if *protocol.get(protocol.root) != PickleValue::Int(1001) {
        return Err(format(format!("legacy protocol {:?}; 1001 is known", protocol.get(protocol.root))));
    }
    let system = next()?;
    if !little_endian(&system) {
        return Err(format("written on a big-endian machine; only little-endian files are read".to_owned()));
    }
    let state = next()?;
    let keys = next()?;
    let storages = legacy_storages(bytes, at, &keys, &state)?;
    Ok((state, storages))
}

/// The storages by key. `keys` lists them; they begin at `at`, each after its number of elements.
fn legacy_storages(
    bytes: &Bytes,
    mut at: usize,
    keys: &Pickle,
    state: &Pickle,
) -> Result<BTreeMap<String, Bytes>, PickleError> {
    let format = |reason: String| PickleError::Format(reason);
    let PickleValue::List(items) = keys.get(keys.root) else {
        return Err(format("no list of storages after the state dict".to_owned()));
    };
    let elements = storage_elements(state);
    let mut storages = BTreeMap::new();
    for &item in items {
        let PickleValue::Text(key) = keys.get(item) else {
            return Err(format("a storage whose key is no text".to_owned()));
        };
        let Some(element) = elements.get(key) else {
            return Err(format(format!("storage {key:?} is used by no tensor, so its size is not known")));
        };
        let range = bytes.get(at..).and_then(|rest| rest.first_chunk()).and_then(|count| {
            let length = usize::try_from(u64::from_le_bytes(*count)).ok()?.checked_mul(element.size())?;
            Some(at + 8..(at + 8).checked_add(length)?)
        });
        match range {
            Some(range) if range.end <= bytes.len() => {
                at = range.end;
                storages.insert(key.clone(), bytes.slice(range));
            }
            _ => {
                return Err(format(format!("truncated: storage {key:?} ends beyond the file's {} bytes", bytes.len())));
            }
        }
    }
    Ok(storages)
}

/// True if this can be `module.name`, rather than two lines of any text.
fn is_name(global: &str) -> bool {
    global.contains('.')
        && global
            .split('.')
            .all(|part| !part.is_empty() && !part.contains(|c: char| !(c.is_alphanumeric() || c == '_')))
}

fn little_endian(system: &Pickle) -> bool {
    let PickleValue::Dict(entries) = system.get(system.root) else { return true };
    !entries.iter().any(|&(key, value)| {
        *system.get(key) == PickleValue::Text("little_endian".to_owned())
            && *system.get(value) == PickleValue::Bool(false)
    })
}

/// The element type of each storage in a state dict.
fn storage_elements(state: &Pickle) -> BTreeMap<String, StorageElement> {
    state
        .values()
        .filter_map(|value| match value {
            PickleValue::Storage(StorageReference { key, element: Some(element), .. }) => {
                Some((key.to_string(), *element))
            }
            _ => None,
        })
        .collect()
}
