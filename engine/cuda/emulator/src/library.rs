//! Builds the kernels into a shared library with the machine's C++ compiler, keeps it, and calls it.
//!
//! Every file is compiled to an object of its own. Its name is a hash of all inputs (texts, the compiler's version,
//! flags), so a changed kernel compiles alone. Files are written under another name and then renamed, so a file under
//! its final name is complete. A lock on the folder keeps two processes from doing the same work.
//!
//! Flags allow the host's instructions as long as they cannot change a bit (no contraction of products and sums, no
//! fast math). Results are therefore those of any other host, except for its libm.

use crate::sanitizer::Sanitizer;
use crate::sources::{EMULATED_H, EMULATOR_CPP, EMULATOR_H, KernelSources};
use std::collections::HashMap;
use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A failure to build or load the library.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The compiler does not start.
    #[error("no C++ compiler: {} does not run; hint: install g++, or name one in CXX", compiler.display())]
    NoCompiler {
        /// The compiler.
        compiler: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It rejects a file.
    #[error("{file} does not compile:\n{output}")]
    Compile {
        /// The file.
        file: String,
        /// The compiler's messages.
        output: String,
    },
    /// A file of the folder.
    #[error("{}", path.display())]
    File {
        /// The file's path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The library does not load.
    #[error("{} does not load", path.display())]
    Load {
        /// The library's path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: libloading::Error,
    },
    /// Sanitizers must be loaded when the process starts.
    #[error("the sanitizer's library was not loaded at the process's start; hint: LD_PRELOAD={}", library.display())]
    NotPreloaded {
        /// The sanitizer's library.
        library: PathBuf,
    },
}

/// The parameters of a launch, as `LaunchParameters` in `emulated.h` declares them.
#[repr(C)]
pub(crate) struct LaunchParameters {
    pub(crate) grid: [u32; 2],
    pub(crate) threads: u32,
    pub(crate) shared: u32,
    pub(crate) order: u32,
    pub(crate) arguments: u32,
    pub(crate) kinds: *const u8,
    pub(crate) seed: u64,
    pub(crate) first: [u32; 2],
}

/// An argument of a kernel, in memory so that its address can be taken.
#[repr(C)]
pub(crate) union ArgumentValue {
    pub(crate) address: *mut u8,
    pub(crate) word: u32,
    pub(crate) number: f32,
}

type KernelEntry = unsafe extern "C" fn(*const LaunchParameters, *const *mut c_void, *mut c_char, usize) -> c_int;

/// Kernels, ready to launch.
#[derive(Debug)]
pub(crate) struct KernelLibrary {
    entries: HashMap<String, KernelEntry>,
    // Last: the entries are within it.
    _loaded: libloading::Library,
}

/// The compiler in `CXX`, or the machine's default one.
pub(crate) fn compiler_path() -> PathBuf {
    std::env::var_os("CXX").unwrap_or_else(|| OsString::from("c++")).into()
}

/// A compiler process without the sanitizers of this process.
fn compiler_command(compiler: &Path) -> Command {
    let mut command = Command::new(compiler);
    command.env_remove("LD_PRELOAD");
    command
}

fn compiler_flags(sanitizer: Option<Sanitizer>) -> Vec<&'static str> {
    let mut flags = vec![
        "-std=c++17",
        "-fPIC",
        "-fvisibility=hidden",
        "-fno-strict-aliasing",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-DHOPEVAL_EMULATED",
        "-w",
    ];
    flags.extend(sanitizer.map_or(["-O2"].as_slice(), Sanitizer::compiler_flags));
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        flags.extend(["-mavx2", "-mfma"]);
    }
    flags
}

pub(crate) fn at_path<T>(path: &Path, result: io::Result<T>) -> Result<T, BuildError> {
    result.map_err(|source| BuildError::File { path: path.into(), source })
}

/// A compiler: its program and flags.
pub(crate) struct CppCompiler {
    program: PathBuf,
    version: Vec<u8>,
    flags: Vec<&'static str>,
}

/// A file to compile, with the other files that it includes.
pub(crate) struct CompilationUnit<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: String,
    pub(crate) beside: Vec<(String, &'a str)>,
    /// Flags behind those of all units.
    pub(crate) flags: &'a [&'a str],
}

/// A folder of build results, locked against other writers as long as this lives.
pub(crate) struct LockedFolder {
    _lock: File,
}

impl LockedFolder {
    pub(crate) fn new(folder: &Path) -> Result<Self, BuildError> {
        at_path(folder, fs::create_dir_all(folder))?;
        let path = folder.join("lock");
        let lock = at_path(&path, File::create(&path))?;
        at_path(&path, lock.lock())?;
        Ok(Self { _lock: lock })
    }
}

impl CppCompiler {
    pub(crate) fn find(sanitizer: Option<Sanitizer>) -> Result<Self, BuildError> {
        let program = compiler_path();
        match compiler_command(&program).arg("--version").output() {
            Ok(answer) => Ok(Self { program, version: answer.stdout, flags: compiler_flags(sanitizer) }),
            Err(source) => Err(BuildError::NoCompiler { compiler: program, source }),
        }
    }

    /// A name for the result of compiling these texts.
    pub(crate) fn key<'a>(&self, texts: impl Iterator<Item = &'a str>) -> String {
        let mut hasher = blake3::Hasher::new();
        let flags = self.flags.iter().copied();
        for text in flags.chain(texts) {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.update(self.program.as_os_str().as_encoded_bytes());
        hasher.update(&self.version);
        hasher.finalize().to_hex()[..24].to_owned()
    }

    fn run_compiler(&self, file: &str, arguments: &[&Path]) -> Result<(), BuildError> {
        match compiler_command(&self.program).args(&self.flags).args(arguments).output() {
            Ok(done) if done.status.success() => Ok(()),
            Ok(done) => Err(BuildError::Compile {
                file: file.into(),
                output: String::from_utf8_lossy(&done.stderr).into_owned(),
            }),
            Err(source) => Err(BuildError::NoCompiler { compiler: self.program.clone(), source }),
        }
    }

    /// The object of a unit; compiled if it does not exist yet.
    fn build_object(&self, folder: &Path, unit: &CompilationUnit<'_>) -> Result<PathBuf, BuildError> {
        let texts =
            unit.beside.iter().flat_map(|(name, text)| [name.as_str(), *text]).chain(unit.flags.iter().copied());
        let folder = folder.join(self.key([unit.name, unit.text.as_str()].into_iter().chain(texts)));
        let object = folder.join("object.o");
        if object.exists() {
            return Ok(object);
        }
        at_path(&folder, fs::create_dir_all(&folder))?;
        let source = folder.join(unit.name);
        for (path, text) in unit.beside.iter().map(|(name, text)| (folder.join(name), *text)) {
            at_path(&path, fs::write(&path, text))?;
        }
        at_path(&source, fs::write(&source, &unit.text))?;
        let partial = folder.join("partial.o");
        let flags = unit.flags.iter().map(Path::new);
        let files = [Path::new("-c"), &source, Path::new("-o"), &partial];
        self.run_compiler(unit.name, &flags.chain(files).collect::<Vec<_>>())?;
        at_path(&object, fs::rename(&partial, &object))?;
        Ok(object)
    }

    /// All objects, as many at a time as there are processors.
    pub(crate) fn build_objects(
        &self,
        folder: &Path,
        units: &[CompilationUnit<'_>],
    ) -> Result<Vec<PathBuf>, BuildError> {
        let next = AtomicUsize::new(0);
        let some = || {
            let mut done = Vec::new();
            while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((unit.name, self.build_object(folder, unit)));
            }
            done
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let mut objects = std::thread::scope(|scope| {
            let workers = (0..workers).map(|_| scope.spawn(some)).collect::<Vec<_>>();
            workers.into_iter().flat_map(|worker| worker.join().expect("compiles, or says why not")).collect::<Vec<_>>()
        });
        objects.sort_by_key(|(name, _)| *name);
        objects.into_iter().map(|(_, object)| object).collect()
    }

    /// A shared library of these objects, linked with the arguments `more` if it does not exist yet.
    pub(crate) fn link(&self, library: &Path, objects: &[PathBuf], more: &[&Path]) -> Result<(), BuildError> {
        if library.exists() {
            return Ok(());
        }
        let partial = library.with_extension("partial");
        let shared = [Path::new("-shared"), Path::new("-o"), &partial];
        let all = shared.into_iter().chain(objects.iter().map(PathBuf::as_path)).chain(more.iter().copied());
        self.run_compiler("the library", &all.collect::<Vec<_>>())?;
        at_path(library, fs::rename(&partial, library))
    }
}

/// Builds the missing files and returns the library's path.
pub(crate) fn build_library(
    folder: &Path,
    sources: &KernelSources,
    sanitizer: Option<Sanitizer>,
) -> Result<PathBuf, BuildError> {
    let compiler = CppCompiler::find(sanitizer)?;
    let _held = LockedFolder::new(folder)?;
    let files = sources.families.iter().map(|family| format!("{}.cpp", family.name)).collect::<Vec<_>>();
    let own = [("emulator.h".into(), EMULATOR_H), ("emulated.h".into(), EMULATED_H)];
    let headers = sources.headers.iter().map(|(name, text)| (name.clone(), text.as_str()));
    let headers = headers.chain(own.clone()).collect::<Vec<_>>();
    let flags = sanitizer.map_or([].as_slice(), Sanitizer::emulator_flags);
    let mut units =
        vec![CompilationUnit { name: "emulator.cpp", text: EMULATOR_CPP.into(), beside: own.into(), flags }];
    units.extend(sources.families.iter().zip(&files).map(|(family, file)| {
        let family_file = (format!("{}.cu", family.name), family.text.as_str());
        CompilationUnit {
            name: file,
            text: family.unit_text(),
            beside: headers.iter().cloned().chain([family_file]).collect(),
            flags: &[],
        }
    }));
    let objects = compiler.build_objects(folder, &units)?;
    let library = folder.join(format!("{}.so", compiler.key(objects.iter().filter_map(|path| path.to_str()))));
    compiler.link(&library, &objects, &[])?;
    Ok(library)
}

impl KernelLibrary {
    /// Builds the missing files and loads the library.
    pub(crate) fn build(
        folder: &Path,
        sources: &KernelSources,
        sanitizer: Option<Sanitizer>,
    ) -> Result<Arc<Self>, BuildError> {
        if let Some(missing) = sanitizer.filter(|sanitizer| !sanitizer.is_loaded()) {
            return Err(BuildError::NotPreloaded {
                library: missing.library().unwrap_or_else(|| missing.library_name().into()),
            });
        }
        let path = build_library(folder, sources, sanitizer)?;
        let kernels = sources.families.iter().flat_map(|family| &family.kernels);
        Self::load_kernels(&path, kernels).map(Arc::new).map_err(|source| BuildError::Load { path, source })
    }

    fn load_kernels<'a>(path: &Path, kernels: impl Iterator<Item = &'a String>) -> Result<Self, libloading::Error> {
        // SAFETY: the library was built from the emulator's sources; loading it runs only constructors of empty lists.
        let loaded = unsafe { libloading::Library::new(path)? };
        let entry = |name: &String| {
            // SAFETY: `EMULATOR_EXPORT` defines it with this signature.
            let entry = unsafe { loaded.get::<KernelEntry>(format!("emulate_{name}"))? };
            Ok((name.clone(), *entry))
        };
        let entries = kernels.map(entry).collect::<Result<_, libloading::Error>>()?;
        Ok(Self { entries, _loaded: loaded })
    }

    /// Runs a kernel to its end, or returns the fault found.
    pub(crate) fn launch(
        &self,
        kernel: &str,
        parameters: &LaunchParameters,
        values: &mut [ArgumentValue],
    ) -> Result<(), String> {
        let Some(entry) = self.entries.get(kernel) else {
            return Err(format!("no kernel {kernel} was built"));
        };
        let arguments = values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect::<Vec<*mut c_void>>();
        let mut message = [0; 512];
        // SAFETY: `parameters` has a kind for each argument, and `entry` compares them with the kernel's before it
        // reads any. The run itself tests whether the kernel stays within its buffers: in a sanitized build it does, or
        // the process ends.
        let failed = unsafe { entry(parameters, arguments.as_ptr(), message.as_mut_ptr().cast(), message.len()) } != 0;
        if !failed {
            return Ok(());
        }
        let text = CStr::from_bytes_until_nul(&message).unwrap_or(c"its message has no end");
        Err(text.to_string_lossy().into_owned())
    }
}
