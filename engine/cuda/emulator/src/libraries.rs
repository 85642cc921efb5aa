//! Builds simulated `libcuda`, `libcublasLt`, `libnvrtc` and `libnvidia-ml`. With them a program runs without a GPU.
//!
//! ```text
//!   Driver, as it is --cudarc--> libcuda.so.1        devices, memory, streams, launches    of the emulator's kernels
//!                                libcublasLt.so.13   products in plain loops
//!                                libnvrtc.so.13      "compiles" the kernels that are already built
//!                    --NVML----> libnvidia-ml.so.1   a millijoule for each launch
//! ```
//!
//! They check the order and the arguments of calls against NVIDIA's documentation, not against a GPU. Work is done only
//! when the caller waits for it (or at once, if so configured). A call refuses whatever the real call refuses. A
//! mistake that would silently give wrong results ends the process with a message. `libraries/devices.cpp` lists the
//! settings.

use crate::library::{self, BuildError, CompilationUnit, CppCompiler, LockedFolder, at_path};
use crate::sources::{EMULATED_H, KernelSources};
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A library: its name for the loader, and its files.
struct SimulatedLibrary {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
}

/// The driver is first: the others are linked with it.
const ALL: [SimulatedLibrary; 4] = [
    SimulatedLibrary {
        name: "libcuda.so.1",
        files: &[
            ("devices.cpp", include_str!("../libraries/devices.cpp")),
            ("driver.cpp", include_str!("../libraries/driver.cpp")),
        ],
    },
    SimulatedLibrary {
        name: "libcublasLt.so.13",
        files: &[("cublaslt.cpp", include_str!("../libraries/cublaslt.cpp"))],
    },
    SimulatedLibrary { name: "libnvrtc.so.13", files: &[("nvrtc.cpp", include_str!("../libraries/nvrtc.cpp"))] },
    SimulatedLibrary { name: "libnvidia-ml.so.1", files: &[("nvml.cpp", include_str!("../libraries/nvml.cpp"))] },
];

/// Headers of the libraries' sources.
const HEADERS: [(&str, &str); 3] = [
    ("simulated.h", include_str!("../libraries/simulated.h")),
    ("devices.h", include_str!("../libraries/devices.h")),
    ("emulated.h", EMULATED_H),
];

/// Links the name without a version as well. The loader tries that name first, and a toolkit on this machine may have
/// it, too.
fn also_without_version(folder: &Path, name: &str) -> Result<(), BuildError> {
    let plain = folder.join(name.split_inclusive(".so").next().unwrap_or(name));
    match symlink(name, &plain) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => at_path(&plain, Err(error)),
        _ => Ok(()),
    }
}

/// Built libraries, and the kernels that they run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedLibraries {
    folder: PathBuf,
    kernels: PathBuf,
}

impl SimulatedLibraries {
    /// Builds the missing files. Processes may share the folder, also with
    /// [`EmulatorOptions::folder`](crate::EmulatorOptions::folder).
    ///
    /// # Errors
    /// [`BuildError`]: there is no compiler, or it rejects a source.
    pub fn build(folder: &Path) -> Result<Self, BuildError> {
        let kernels = library::build_library(folder, &KernelSources::device_kernels(), None)?;
        let compiler = CppCompiler::find(None)?;
        let _held = LockedFolder::new(folder)?;
        let beside = HEADERS.map(|(name, text)| (name.to_owned(), text));
        let unit = |(name, text): &(&'static str, &str)| CompilationUnit {
            name,
            text: (*text).into(),
            beside: beside.to_vec(),
            flags: &[],
        };
        let units = |library: &SimulatedLibrary| library.files.iter().map(unit).collect::<Vec<_>>();
        let texts = ALL.iter().flat_map(|library| library.files).chain(&HEADERS).map(|(_, text)| *text);
        let folder = folder.join(format!("simulated-{}", compiler.key(texts)));
        at_path(&folder, fs::create_dir_all(&folder))?;
        let driver = folder.join(ALL[0].name);
        for library in &ALL {
            let objects = compiler.build_objects(&folder, &units(library))?;
            let name = format!("-Wl,-soname,{}", library.name);
            let with = if library.name == ALL[0].name { Path::new("-ldl") } else { &driver };
            // The driver is found beside the others, or by its name if it is loaded already.
            let more = [Path::new(&name), with, Path::new("-Wl,-rpath,$ORIGIN"), Path::new("-pthread")];
            compiler.link(&folder.join(library.name), &objects, &more)?;
            also_without_version(&folder, library.name)?;
        }
        Ok(Self { folder, kernels })
    }

    /// Links the files into `folder` under the names of CUDA 12 alone, and returns the variables of
    /// [`environment_variables`](Self::environment_variables) for that folder.
    ///
    /// # Errors
    /// [`BuildError`]: the folder cannot be written.
    pub fn named_as_12(&self, folder: &Path) -> Result<[(&'static str, OsString); 3], BuildError> {
        for SimulatedLibrary { name, .. } in &ALL {
            let link = folder.join(name.replace(".so.13", ".so.12"));
            at_path(&link, symlink(self.folder.join(name), &link))?;
        }
        let mut variables = self.environment_variables();
        variables[0].1 = folder.into();
        Ok(variables)
    }

    /// The variables with which a process finds these libraries before others and keeps compiled kernels apart from
    /// real ones.
    pub fn environment_variables(&self) -> [(&'static str, OsString); 3] {
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
