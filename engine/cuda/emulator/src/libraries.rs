//! Builds simulated `libcuda`, `libcublasLt`, `libnvrtc` and `libnvidia-ml`, by which a program runs with devices that are none.
//!
//! ```text
//!   Driver, as it is --cudarc--> libcuda.so.1        devices, memory, streams, launches    of the emulator's kernels
//!                                libcublasLt.so.13   products in plain loops
//!                                libnvrtc.so.13      "compiles" what is built already
//!                    --NVML----> libnvidia-ml.so.1   a millijoule for each launch
//! ```
//!
//! They prove the order and the arguments of calls against a reading of NVIDIA's documentation, not against a GPU: work is done only
//! when it is waited for (or at once, if so set), what a call refuses is refused, and what would be wrong silently ends the process with a message.
//! What can be set is listed in `libraries/devices.cpp`.

use crate::library::{self, BuildError, Compiler, Held, Unit, at};
use crate::sources::{EMULATED_H, Sources};
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A library: its name for the loader, and its files.
struct Simulated {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
}

/// The driver is first: the others are linked with it.
const ALL: [Simulated; 4] = [
    Simulated {
        name: "libcuda.so.1",
        files: &[
            ("devices.cpp", include_str!("../libraries/devices.cpp")),
            ("driver.cpp", include_str!("../libraries/driver.cpp")),
        ],
    },
    Simulated { name: "libcublasLt.so.13", files: &[("cublaslt.cpp", include_str!("../libraries/cublaslt.cpp"))] },
    Simulated { name: "libnvrtc.so.13", files: &[("nvrtc.cpp", include_str!("../libraries/nvrtc.cpp"))] },
    Simulated { name: "libnvidia-ml.so.1", files: &[("nvml.cpp", include_str!("../libraries/nvml.cpp"))] },
];

/// What they include.
const HEADERS: [(&str, &str); 3] = [
    ("simulated.h", include_str!("../libraries/simulated.h")),
    ("devices.h", include_str!("../libraries/devices.h")),
    ("emulated.h", EMULATED_H),
];

/// The loader is asked for the name without a version first, which a toolkit on this machine may have, too.
fn also_without_version(folder: &Path, name: &str) -> Result<(), BuildError> {
    let plain = folder.join(name.split_inclusive(".so").next().unwrap_or(name));
    match symlink(name, &plain) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => at(&plain, Err(error)),
        _ => Ok(()),
    }
}

/// Libraries that are built, and the kernels that they run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Libraries {
    folder: PathBuf,
    kernels: PathBuf,
}

impl Libraries {
    /// Builds what is not built yet; processes may share the folder, also with [`Options::folder`](crate::Options::folder).
    ///
    /// # Errors
    /// [`BuildError`]: no compiler, or sources that it does not take.
    pub fn build(folder: &Path) -> Result<Self, BuildError> {
        let kernels = library::build(folder, &Sources::kernels(), false)?;
        let compiler = Compiler::find(false)?;
        let _held = Held::new(folder)?;
        let beside = HEADERS.map(|(name, text)| (name.to_owned(), text));
        let unit = |(name, text): &(&'static str, &str)| Unit { name, text: (*text).into(), beside: beside.to_vec() };
        let units = |library: &Simulated| library.files.iter().map(unit).collect::<Vec<_>>();
        let texts = ALL.iter().flat_map(|library| library.files).chain(&HEADERS).map(|(_, text)| *text);
        let folder = folder.join(format!("simulated-{}", compiler.key(texts)));
        at(&folder, fs::create_dir_all(&folder))?;
        let driver = folder.join(ALL[0].name);
        for library in &ALL {
            let objects = compiler.objects(&folder, &units(library))?;
            let name = format!("-Wl,-soname,{}", library.name);
            let with = if library.name == ALL[0].name { Path::new("-ldl") } else { &driver };
            // The driver is found beside the others, and at once by its name where it is loaded already.
            let more = [Path::new(&name), with, Path::new("-Wl,-rpath,$ORIGIN"), Path::new("-pthread")];
            compiler.link(&folder.join(library.name), &objects, &more)?;
            also_without_version(&folder, library.name)?;
        }
        Ok(Self { folder, kernels })
    }

    /// What a process needs to find them before others, with compiled kernels kept apart from real ones.
    pub fn environment(&self) -> [(&'static str, OsString); 3] {
        let mut path = self.folder.clone().into_os_string();
        if let Some(others) = std::env::var_os("LD_LIBRARY_PATH").filter(|others| !others.is_empty()) {
            path.push(":");
            path.push(others);
        }
        let kept = self.folder.join("kept").into_os_string();
        [
            ("LD_LIBRARY_PATH", path),
            ("SIMULATED_CUDA_KERNELS", self.kernels.clone().into_os_string()),
            ("XDG_CACHE_HOME", kept),
        ]
    }
}
