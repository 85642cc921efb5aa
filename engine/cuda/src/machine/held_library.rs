//! A library that is looked for until it is found, and then stays loaded.
//!
//! To load and unload libcublasLt, of hundreds of megabytes, takes a good part of a second. `cudarc` loads a library
//! for good at its first call into it, but unloads it again after a look whether it is there.

use libloading::Library;
use std::sync::OnceLock;

/// A library of CUDA.
pub(super) struct HeldLibrary {
    /// `cublasLt` of `libcublasLt.so.13`.
    name: &'static str,
    held: OnceLock<Library>,
}

impl HeldLibrary {
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, held: OnceLock::new() }
    }

    /// True if the loader finds it. `cudarc` tries the same files in the same order, so it calls this very library.
    pub(super) fn is_there(&self) -> bool {
        if self.held.get().is_some() {
            return true;
        }
        // SAFETY: loading a library of CUDA runs its initialisers, as in all of its clients.
        let load = |file| unsafe { Library::new(file) }.ok();
        let found = cudarc::get_lib_name_candidates(self.name).into_iter().find_map(load);
        found.is_some_and(|library| {
            // Of two threads that load it at once, one keeps it, and the other's is only counted down.
            let _ = self.held.set(library);
            true
        })
    }
}
