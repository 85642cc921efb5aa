//! Machine code on disk: a file for each family, architecture, compiler and text of the sources.
//!
//! A file is its key, a digest of key and code, and the code; it is written beside its place and renamed. A file that is
//! torn, damaged, or stands under another's name is compiled anew and replaced. Nothing is ever read that an earlier text of
//! the sources, other options or another compiler made: they have other keys, and so other names.

use super::{CompileError, Compiler, options};
use crate::kernels::{Family, HEADERS};
use crate::machine::{Architecture, Version};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use std::{fs, io, process};

/// Begins every key: raised when the files' layout changes.
const LAYOUT: &[u8] = b"hopeval machine code 1";

/// Bytes of a key, and of a digest.
const DIGEST: usize = 32;

/// The machine code of a family: from `folder` if it is there whole, else compiled and put there. A folder that cannot be
/// written is a warning, not an error.
///
/// # Errors
/// As [`Compiler::compile`].
pub fn kept(
    compiler: &Compiler,
    folder: Option<&Path>,
    family: &Family,
    architecture: Architecture,
) -> Result<Vec<u8>, CompileError> {
    let Some(folder) = folder else { return Ok(compiler.compile(family, architecture)?.cubin) };
    let key = key(family, architecture, compiler.version());
    let place = folder.join(format!("{}-{architecture}-{}.cubin", family.name, &key.to_hex()[..32]));
    if let Some(cubin) = read(&place, &key) {
        return Ok(cubin);
    }
    let begun = Instant::now();
    let cubin = compiler.compile(family, architecture)?.cubin;
    tracing::info!("compiled {}.cu for {architecture} in {:.1?}", family.name, begun.elapsed());
    if let Err(error) = write(&place, &key, &cubin) {
        tracing::warn!("machine code is not kept: {}: {error}", place.display());
    }
    Ok(cubin)
}

/// Of everything that the machine code depends on, each part with its length before it.
fn key(family: &Family, architecture: Architecture, compiler: Version) -> blake3::Hash {
    let (target, compiler) = (options(architecture), compiler.to_string());
    let own = [LAYOUT, family.name.as_bytes(), family.text.as_bytes(), compiler.as_bytes()];
    let headers = HEADERS.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]);
    let mut hasher = blake3::Hasher::new();
    for part in own.into_iter().chain(target.iter().map(String::as_bytes)).chain(headers) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize()
}

/// Of the key, too, so that a file is whole under its own name only.
fn digest(key: &blake3::Hash, cubin: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key.as_bytes()).update(cubin);
    hasher.finalize()
}

fn read(place: &Path, key: &blake3::Hash) -> Option<Vec<u8>> {
    let mut bytes = fs::read(place).ok()?;
    let (head, cubin) = bytes.split_at_checked(2 * DIGEST)?;
    let whole = head[..DIGEST] == *key.as_bytes() && head[DIGEST..] == *digest(key, cubin).as_bytes();
    whole.then(|| bytes.split_off(2 * DIGEST))
}

fn write(place: &Path, key: &blake3::Hash, cubin: &[u8]) -> io::Result<()> {
    static TURN: AtomicU64 = AtomicU64::new(0);
    let turn = TURN.fetch_add(1, Ordering::Relaxed);
    let beside = place.with_extension(format!("{}-{turn}.partial", process::id()));
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    let content = [key.as_bytes(), digest(key, cubin).as_bytes(), cubin].concat();
    let written = fs::write(&beside, content).and_then(|()| fs::rename(&beside, place));
    if written.is_err() {
        drop(fs::remove_file(&beside));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::FAMILIES;
    use std::collections::BTreeSet;

    const SM_90: Architecture = Architecture::new(9, 0);
    const NVRTC: Version = Version::new(13, 0);

    #[test]
    fn everything_that_changes_the_code_changes_the_key() {
        let other = Family { text: "// other", ..FAMILIES[0] };
        let renamed = Family { name: "renamed", ..FAMILIES[0] };
        let keys = [
            key(&FAMILIES[0], SM_90, NVRTC),
            key(&FAMILIES[1], SM_90, NVRTC),
            key(&other, SM_90, NVRTC),
            key(&renamed, SM_90, NVRTC),
            key(&FAMILIES[0], Architecture::new(8, 9), NVRTC),
            key(&FAMILIES[0], SM_90, Version::new(13, 1)),
        ];
        let different: BTreeSet<[u8; DIGEST]> = keys.iter().map(|key| *key.as_bytes()).collect();
        assert_eq!(different.len(), keys.len());
    }

    #[test]
    fn a_file_is_read_as_it_was_written_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a/family.cubin");
        let key = key(&FAMILIES[0], SM_90, NVRTC);
        let cubin: Vec<u8> = (0..=255).collect();
        assert_eq!(read(&place, &key), None, "there is none");
        write(&place, &key, &cubin).unwrap();
        assert_eq!(read(&place, &key), Some(cubin.clone()));

        let whole = fs::read(&place).unwrap();
        for cut in [0, 1, 31, 32, 63, 64, 65, whole.len() - 1] {
            fs::write(&place, &whole[..cut]).unwrap();
            assert_eq!(read(&place, &key), None, "cut at {cut}");
        }
        for at in [0, 40, 64, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&place, damaged).unwrap();
            assert_eq!(read(&place, &key), None, "damaged at {at}");
        }
        let foreign = self::key(&FAMILIES[1], SM_90, NVRTC);
        write(&place, &foreign, &cubin).unwrap();
        assert_eq!(read(&place, &key), None, "another's, under this name");
        let left = fs::read_dir(place.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing is left beside it");
    }
}
