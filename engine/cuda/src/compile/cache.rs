//! Machine code on disk: a file for each family, architecture, version of the compiler and text of the sources.
//!
//! The version is NVRTC's own report, "13.0": a later patch release finds the code of an earlier one. The driver, which
//! NVRTC consults during compilation, is not in the key either. The code found is the code run, and the numerics class
//! contains its digest. To force a new compilation, remove the folder.
//!
//! A file holds its key, a digest of key and code, and the code; it is written under another name and renamed. A torn
//! or damaged file, or one under another's name, is compiled anew and replaced. Code from earlier sources, other
//! options or another version of the compiler is never read: it has another key, and so another name.

use super::{CompileError, Compiler, nvrtc_options};
use crate::kernels::{FAMILIES, HEADERS, KernelFamily};
use crate::machine::{GpuArchitecture, LibraryVersion};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use std::{fs, io, panic, process, thread};

/// Begins every key: raised when the files' layout changes.
const LAYOUT: &[u8] = b"hopeval machine code 1";

/// Bytes of a key, and of a digest.
const DIGEST: usize = 32;

/// The machine code of all families, in their order. Each is read from `folder` if it is there whole; the others are
/// compiled, each in a thread of its own, and stored there.
///
/// # Errors
/// As [`Compiler::compile_family`].
pub fn load_families(
    compiler: &Compiler,
    folder: Option<&Path>,
    architecture: GpuArchitecture,
) -> Result<Vec<Vec<u8>>, CompileError> {
    let file = |family| folder.map(|folder| CodeFile::new(folder, family, architecture, compiler.version()));
    let files = FAMILIES.each_ref().map(file);
    let found = files.each_ref().map(|file| file.as_ref().and_then(CodeFile::read_code));
    let lacking = found.iter().filter(|cubin| cubin.is_none()).count();
    if lacking == 0 {
        return Ok(found.into_iter().flatten().collect());
    }
    let (begun, nvrtc) = (Instant::now(), compiler.version());
    tracing::info!("compiling kernels for {architecture} by NVRTC {nvrtc}: {lacking} of {} files", FAMILIES.len());
    let all = thread::scope(|scope| {
        let families = FAMILIES.iter().zip(&files).zip(found);
        let threads = families.map(|((family, file), found)| {
            scope.spawn(move || {
                found.map_or_else(|| compile_and_store(compiler, family, architecture, file.as_ref()), Ok)
            })
        });
        // All threads start before the first join.
        let threads = threads.collect::<Vec<_>>();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))).collect()
    });
    tracing::info!("compiled kernels in {:.1?}", begun.elapsed());
    all
}

/// The machine code of a family: from `folder` if it is there whole, else compiled and stored there. An unwritable
/// folder is a warning, not an error.
///
/// # Errors
/// As [`Compiler::compile_family`].
pub fn load_family(
    compiler: &Compiler,
    folder: Option<&Path>,
    family: &KernelFamily,
    architecture: GpuArchitecture,
) -> Result<Vec<u8>, CompileError> {
    let file = folder.map(|folder| CodeFile::new(folder, family, architecture, compiler.version()));
    match file.as_ref().and_then(CodeFile::read_code) {
        Some(cubin) => Ok(cubin),
        None => compile_and_store(compiler, family, architecture, file.as_ref()),
    }
}

fn compile_and_store(
    compiler: &Compiler,
    family: &KernelFamily,
    architecture: GpuArchitecture,
    file: Option<&CodeFile>,
) -> Result<Vec<u8>, CompileError> {
    let begun = Instant::now();
    let cubin = compiler.compile_family(family, architecture)?.cubin;
    tracing::debug!("compiled {}.cu for {architecture} in {:.1?}", family.name, begun.elapsed());
    if let Some(file) = file
        && let Err(error) = file.write_code(&cubin)
    {
        tracing::warn!("machine code is not kept: {}: {error}", file.path.display());
    }
    Ok(cubin)
}

/// The file of a family's machine code on disk.
struct CodeFile {
    path: PathBuf,
    key: blake3::Hash,
}

/// The hash of everything that the machine code depends on, each part after its length.
fn code_key(family: &KernelFamily, architecture: GpuArchitecture, compiler: LibraryVersion) -> blake3::Hash {
    let (target, compiler) = (nvrtc_options(architecture), compiler.to_string());
    let own = [LAYOUT, family.name.as_bytes(), family.text.as_bytes(), compiler.as_bytes()];
    let headers = HEADERS.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]);
    let mut hasher = blake3::Hasher::new();
    for part in own.into_iter().chain(target.iter().map(String::as_bytes)).chain(headers) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize()
}

/// Includes the key, so that a file is valid only under its own name.
fn code_digest(key: &blake3::Hash, cubin: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key.as_bytes()).update(cubin);
    hasher.finalize()
}

impl CodeFile {
    fn new(folder: &Path, family: &KernelFamily, architecture: GpuArchitecture, compiler: LibraryVersion) -> Self {
        let key = code_key(family, architecture, compiler);
        Self { path: folder.join(format!("{}-{architecture}-{}.cubin", family.name, &key.to_hex()[..32])), key }
    }

    fn read_code(&self) -> Option<Vec<u8>> {
        let mut bytes = fs::read(&self.path).ok()?;
        let (head, cubin) = bytes.split_at_checked(2 * DIGEST)?;
        let whole =
            head[..DIGEST] == *self.key.as_bytes() && head[DIGEST..] == *code_digest(&self.key, cubin).as_bytes();
        whole.then(|| bytes.split_off(2 * DIGEST))
    }

    fn write_code(&self, cubin: &[u8]) -> io::Result<()> {
        static TURN: AtomicU64 = AtomicU64::new(0);
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let beside = self.path.with_extension(format!("{}-{turn}.partial", process::id()));
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let content = [self.key.as_bytes(), code_digest(&self.key, cubin).as_bytes(), cubin].concat();
        let written = fs::write(&beside, content).and_then(|()| fs::rename(&beside, &self.path));
        if written.is_err() {
            drop(fs::remove_file(&beside));
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const SM_90: GpuArchitecture = GpuArchitecture::new(9, 0);
    const NVRTC: LibraryVersion = LibraryVersion::new(13, 0);

    #[test]
    fn everything_that_changes_the_code_changes_the_key() {
        let other = KernelFamily { text: "// other", ..FAMILIES[0] };
        let renamed = KernelFamily { name: "renamed", ..FAMILIES[0] };
        let keys = [
            code_key(&FAMILIES[0], SM_90, NVRTC),
            code_key(&FAMILIES[1], SM_90, NVRTC),
            code_key(&other, SM_90, NVRTC),
            code_key(&renamed, SM_90, NVRTC),
            code_key(&FAMILIES[0], GpuArchitecture::new(8, 9), NVRTC),
            code_key(&FAMILIES[0], SM_90, LibraryVersion::new(13, 1)),
        ];
        let different: BTreeSet<[u8; DIGEST]> = keys.iter().map(|key| *key.as_bytes()).collect();
        assert_eq!(different.len(), keys.len());
    }

    #[test]
    fn a_file_is_read_as_it_was_written_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let file = CodeFile::new(&folder.path().join("a"), &FAMILIES[0], SM_90, NVRTC);
        let cubin: Vec<u8> = (0..=255).collect();
        assert_eq!(file.read_code(), None, "there is none");
        file.write_code(&cubin).unwrap();
        assert_eq!(file.read_code(), Some(cubin.clone()));

        let whole = fs::read(&file.path).unwrap();
        for cut in [0, 1, 31, 32, 63, 64, 65, whole.len() - 1] {
            fs::write(&file.path, &whole[..cut]).unwrap();
            assert_eq!(file.read_code(), None, "cut at {cut}");
        }
        for at in [0, 40, 64, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&file.path, damaged).unwrap();
            assert_eq!(file.read_code(), None, "damaged at {at}");
        }
        let foreign = CodeFile { path: file.path.clone(), key: code_key(&FAMILIES[1], SM_90, NVRTC) };
        foreign.write_code(&cubin).unwrap();
        assert_eq!(file.read_code(), None, "another's, under this name");
        let left = fs::read_dir(file.path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing is left beside it");
    }
}
