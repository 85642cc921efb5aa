//! Compiles a family of kernels to machine code of one architecture, by NVRTC, and keeps it on disk.
//!
//! ```text
//!   kernels/*.cu, *.cuh (embedded) --NVRTC--> CUBIN + log      load_families: all families not on disk yet
//!                                                |
//!                                                |--> resources: registers, shared memory, spills of each kernel
//!                                                '--> sass:      the instructions of each kernel, for tests
//! ```
//!
//! Headers travel in memory, so neither an include path nor a toolkit is needed. The machine code is for one
//! architecture; it is not PTX. A driver takes it from any release of NVRTC up to its own major version of CUDA.

mod cache;
pub mod occupancy;
pub mod resources;
pub mod sass;

use crate::kernels::{HEADERS, KernelFamily};
use crate::machine::{self, GpuArchitecture, LibraryVersion, MissingRequirement};
pub use cache::{load_families, load_family};
use cudarc::nvrtc::{result::NvrtcError, sys};
use std::ffi::{CString, c_char, c_int};
use std::ptr;

/// Options for every family, after the architecture. The report of ptxas comes with the log and costs nothing. No
/// `-lineinfo`: it writes the folder in which the process began into the code, and so into every key.
const OPTIONS: [&str; 2] = ["--std=c++17", "--ptxas-options=-v"];

/// NVRTC.
#[derive(Clone, Debug)]
pub struct Compiler {
    version: LibraryVersion,
    architectures: Vec<GpuArchitecture>,
}

/// NVRTC's output for a family.
#[derive(Clone, Debug)]
pub struct CompiledFamily {
    /// Machine code, as `cuModuleLoadData` takes it.
    pub cubin: Vec<u8>,
    /// The compiler's messages: warnings, and ptxas's report.
    pub log: String,
}

/// A new compilation gives the same error: the user must act.
const HINT: &str =
    "libnvrtc and libnvrtc-builtins must be of one release of CUDA: LD_LIBRARY_PATH says which are found first";

/// A failure to make machine code.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// NVRTC is absent or unsuitable.
    #[error(transparent)]
    Missing(#[from] MissingRequirement),
    /// The source is wrong, or NVRTC lacks a part of itself.
    #[error("{family}.cu does not compile for {architecture}: {status}\n{}\nhint: {HINT}", log.trim_end())]
    Source {
        /// The file.
        family: &'static str,
        /// The target.
        architecture: GpuArchitecture,
        /// NVRTC's name for the error.
        status: String,
        /// NVRTC's full log.
        log: String,
    },
    /// A call failed for a reason outside the source.
    #[error("{call} failed with {status}\nhint: {HINT}")]
    Call {
        /// The call.
        call: &'static str,
        /// NVRTC's name for the error.
        status: String,
    },
}

impl Compiler {
    /// The library on the loader's path.
    ///
    /// # Errors
    /// [`CompileError::Missing`].
    pub fn find() -> Result<Self, CompileError> {
        let version = machine::nvrtc_version()?;
        let mut count: c_int = 0;
        // SAFETY: the library is there, and the call writes one int.
        unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) }
            .result()
            .map_err(call_error("nvrtcGetNumSupportedArchs"))?;
        let mut numbers = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the call writes as many ints as the call before reported, and `numbers` has room for them.
        unsafe { sys::nvrtcGetSupportedArchs(numbers.as_mut_ptr()) }
            .result()
            .map_err(call_error("nvrtcGetSupportedArchs"))?;
        let architectures = numbers.into_iter().map(|n: c_int| GpuArchitecture::new(n / 10, n % 10)).collect();
        Ok(Self { version, architectures })
    }

    /// NVRTC's version.
    pub fn version(&self) -> LibraryVersion {
        self.version
    }

    /// The target architecture for a device: its own, or the nearest older one of its generation.
    ///
    /// # Errors
    /// [`MissingRequirement::NewDevice`].
    pub fn target_for(&self, device: GpuArchitecture) -> Result<GpuArchitecture, MissingRequirement> {
        let runs = |known: &&GpuArchitecture| known.major == device.major && known.minor <= device.minor;
        let known = self.architectures.iter().filter(runs).max();
        known.copied().ok_or(MissingRequirement::NewDevice { architecture: device, nvrtc: self.version })
    }

    /// Compiles a family.
    ///
    /// # Errors
    /// [`CompileError::Source`] with NVRTC's log; [`CompileError::Call`].
    pub fn compile_family(
        &self,
        family: &KernelFamily,
        architecture: GpuArchitecture,
    ) -> Result<CompiledFamily, CompileError> {
        let program = NvrtcProgram::new(family)?;
        let options = nvrtc_options(architecture).map(to_cstring);
        let options = options.each_ref().map(|option| option.as_ptr());
        // SAFETY: the program is whole, and the options are texts that live until the call returns.
        let status = unsafe { sys::nvrtcCompileProgram(program.0, options.len() as c_int, options.as_ptr()) };
        let log = program.read_log()?;
        match status.result() {
            Ok(()) => Ok(CompiledFamily { cubin: program.read_cubin()?, log }),
            Err(NvrtcError(status)) => {
                let status = format!("{status:?}");
                Err(CompileError::Source { family: family.name, architecture, status, log })
            }
        }
    }
}

/// All options; the first one is the architecture.
fn nvrtc_options(architecture: GpuArchitecture) -> [String; OPTIONS.len() + 1] {
    let mut all = std::array::from_fn(|i| OPTIONS[i.saturating_sub(1)].to_owned());
    all[0] = format!("--gpu-architecture={architecture}");
    all
}

fn to_cstring(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).expect("a source, a name and an option have no NUL; this is a bug")
}

fn call_error(call: &'static str) -> impl Fn(NvrtcError) -> CompileError {
    move |error| CompileError::Call { call, status: format!("{:?}", error.0) }
}

/// A program of NVRTC, destroyed when dropped.
struct NvrtcProgram(sys::nvrtcProgram);

impl NvrtcProgram {
    /// NVRTC copies the texts.
    fn new(family: &KernelFamily) -> Result<Self, CompileError> {
        let (source, name) = (to_cstring(family.text), to_cstring(format!("{}.cu", family.name)));
        let headers = HEADERS.map(|(name, content)| (to_cstring(name), to_cstring(content)));
        let names: [*const c_char; HEADERS.len()] = headers.each_ref().map(|(name, _)| name.as_ptr());
        let contents: [*const c_char; HEADERS.len()] = headers.each_ref().map(|(_, content)| content.as_ptr());
        let mut program = ptr::null_mut();
        // SAFETY: all texts end with NUL and live until the call returns; both lists are as long as the count. The
        // caller found the library.
        let status = unsafe {
            sys::nvrtcCreateProgram(
                &raw mut program,
                source.as_ptr(),
                name.as_ptr(),
                HEADERS.len() as c_int,
                contents.as_ptr(),
                names.as_ptr(),
            )
        };
        status.result().map_err(call_error("nvrtcCreateProgram"))?;
        Ok(Self(program))
    }

    fn read_log(&self) -> Result<String, CompileError> {
        let mut size = 0;
        // SAFETY: the program is whole, and the call writes one size.
        unsafe { sys::nvrtcGetProgramLogSize(self.0, &raw mut size) }
            .result()
            .map_err(call_error("nvrtcGetProgramLogSize"))?;
        let mut log = vec![0; size];
        // SAFETY: the call writes as many bytes as the call before reported.
        unsafe { sys::nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast()) }
            .result()
            .map_err(call_error("nvrtcGetProgramLog"))?;
        log.truncate(log.iter().position(|&byte| byte == 0).unwrap_or(size));
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    fn read_cubin(&self) -> Result<Vec<u8>, CompileError> {
        let mut size = 0;
        // SAFETY: the program was compiled for an architecture, not for PTX; the call writes one size.
        unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut size) }.result().map_err(call_error("nvrtcGetCUBINSize"))?;
        let mut cubin = vec![0; size];
        // SAFETY: the call writes as many bytes as the call before reported.
        unsafe { sys::nvrtcGetCUBIN(self.0, cubin.as_mut_ptr().cast()) }
            .result()
            .map_err(call_error("nvrtcGetCUBIN"))?;
        Ok(cubin)
    }
}

impl Drop for NvrtcProgram {
    fn drop(&mut self) {
        // SAFETY: the program was made by nvrtcCreateProgram, and nothing uses it after this.
        let _ = unsafe { sys::nvrtcDestroyProgram(&raw mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[(i32, i32)]) -> Compiler {
        let architectures = numbers.iter().map(|&(major, minor)| GpuArchitecture::new(major, minor)).collect();
        Compiler { version: LibraryVersion::new(13, 0), architectures }
    }

    #[test]
    fn a_device_runs_its_own_code_or_that_of_an_older_sibling() {
        let compiler = of(&[(8, 0), (8, 6), (8, 9), (9, 0), (10, 0)]);
        let target =
            |major, minor| compiler.target_for(GpuArchitecture::new(major, minor)).map(|found| found.to_string());
        assert_eq!(target(8, 9).as_deref(), Ok("sm_89"));
        assert_eq!(target(8, 7).as_deref(), Ok("sm_86"));
        assert_eq!(target(10, 3).as_deref(), Ok("sm_100"));
        let newer = MissingRequirement::NewDevice {
            architecture: GpuArchitecture::new(13, 0),
            nvrtc: LibraryVersion::new(13, 0),
        };
        assert_eq!(target(13, 0), Err(newer));
    }

    #[test]
    fn the_architecture_is_the_first_option() {
        let options = nvrtc_options(GpuArchitecture::new(9, 0));
        assert_eq!(options, ["--gpu-architecture=sm_90", "--std=c++17", "--ptxas-options=-v"]);
    }
}
