//! Compiles kernels to PTX by the NVRTC of a folder, without a GPU and without the loader's path.

use crate::sources::KernelSources;
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

/// A failure to make PTX.
#[derive(Debug, thiserror::Error)]
pub enum PtxCompileError {
    /// The folder has no such library, or it does not load.
    #[error("{} does not load; hint: it is in the package nvidia-cuda-nvrtc", path.display())]
    Load {
        /// The library.
        path: PathBuf,
        /// The cause.
        #[source]
        source: libloading::Error,
    },
    /// The sources have no such file.
    #[error("there is no {family}.cu")]
    UnknownFamily {
        /// The file's name without `.cu`.
        family: String,
    },
    /// NVRTC refused.
    #[error("{call} of {family}.cu gave {status}:\n{log}")]
    Refused {
        /// The file's name without `.cu`.
        family: String,
        /// NVRTC's function.
        call: &'static str,
        /// Its result.
        status: c_int,
        /// NVRTC's messages.
        log: String,
    },
}

/// The choices of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtxOptions {
    /// The virtual architecture: 90 for `compute_90`.
    pub architecture: u32,
    /// Whether products and sums become one rounded operation, as in the code that is shipped. The C++ compiler of the
    /// emulator does not do that.
    pub contracted: bool,
}

type Program = *mut c_void;
type Texts = *const *const c_char;

/// The functions of NVRTC, by the names in its header.
#[derive(Clone, Copy, Debug)]
struct NvrtcFunctions {
    create: unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, Texts, Texts) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, Texts) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    ptx_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    ptx: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
}

/// NVRTC, loaded.
#[derive(Debug)]
pub struct PtxCompiler {
    functions: NvrtcFunctions,
    // Last: the functions are within them.
    _libraries: [Library; 2],
}

impl PtxCompiler {
    /// Loads `libnvrtc.so.13` and its builtins from `folder`.
    ///
    /// # Errors
    /// [`PtxCompileError::Load`].
    pub fn load(folder: &Path) -> Result<Self, PtxCompileError> {
        // NVRTC looks for its builtins by their bare name, and takes them if they are loaded already.
        let named = |part: &str| {
            let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let names = files.filter_map(|file| file.file_name().into_string().ok());
            let found = names.filter(|name| name.starts_with(part)).max();
            folder.join(found.unwrap_or_else(|| part.into()))
        };
        let open = |path: PathBuf| {
            // SAFETY: NVIDIA's libraries; their constructors do nothing to this process but set them up.
            unsafe { Library::new(&path) }.map_err(|source| PtxCompileError::Load { path, source })
        };
        let builtins = open(named("libnvrtc-builtins.so"))?;
        let path = named("libnvrtc.so");
        let nvrtc = open(path.clone())?;
        let failed = |source| PtxCompileError::Load { path: path.clone(), source };
        // SAFETY: the types are those of NVRTC's header.
        let functions = unsafe {
            NvrtcFunctions {
                create: *nvrtc.get(b"nvrtcCreateProgram").map_err(failed)?,
                compile: *nvrtc.get(b"nvrtcCompileProgram").map_err(failed)?,
                destroy: *nvrtc.get(b"nvrtcDestroyProgram").map_err(failed)?,
                ptx_size: *nvrtc.get(b"nvrtcGetPTXSize").map_err(failed)?,
                ptx: *nvrtc.get(b"nvrtcGetPTX").map_err(failed)?,
                log_size: *nvrtc.get(b"nvrtcGetProgramLogSize").map_err(failed)?,
                log: *nvrtc.get(b"nvrtcGetProgramLog").map_err(failed)?,
            }
        };
        Ok(Self { functions, _libraries: [nvrtc, builtins] })
    }

    /// The PTX of one file of kernels.
    ///
    /// # Errors
    /// [`PtxCompileError::UnknownFamily`], [`PtxCompileError::Refused`] with NVRTC's log.
    ///
    /// # Panics
    /// If a text has a NUL.
    pub fn compile(
        &self,
        sources: &KernelSources,
        family: &str,
        options: PtxOptions,
    ) -> Result<String, PtxCompileError> {
        let source = sources.families.iter().find(|source| source.name == family);
        let source = source.ok_or_else(|| PtxCompileError::UnknownFamily { family: family.into() })?;
        let owned = |text: &str| CString::new(text).expect("a text without NUL");
        let (names, texts): (Vec<_>, Vec<_>) =
            sources.headers.iter().map(|(name, text)| (owned(name), owned(text))).unzip();
        let options = [
            owned(&format!("--gpu-architecture=compute_{}", options.architecture)),
            owned("--std=c++17"),
            owned(&format!("--fmad={}", options.contracted)),
        ];
        let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
        let (main, main_name) = (owned(&source.text), owned(&format!("{family}.cu")));
        let (name_list, text_list, option_list) = (pointers(&names), pointers(&texts), pointers(&options));
        let mut program = NvrtcProgram { functions: self.functions, family, program: ptr::null_mut() };
        // SAFETY: all texts end with NUL and live until the call returns; both lists are as long as the count.
        let status = unsafe {
            (self.functions.create)(
                &raw mut program.program,
                main.as_ptr(),
                main_name.as_ptr(),
                name_list.len() as c_int,
                text_list.as_ptr(),
                name_list.as_ptr(),
            )
        };
        program.check("nvrtcCreateProgram", status)?;
        // SAFETY: the program is whole, and the options live until the call returns.
        let status =
            unsafe { (self.functions.compile)(program.program, option_list.len() as c_int, option_list.as_ptr()) };
        program.check("nvrtcCompileProgram", status)?;
        program.read("nvrtcGetPTX", self.functions.ptx_size, self.functions.ptx)
    }
}

/// A program of NVRTC, destroyed when dropped.
struct NvrtcProgram<'a> {
    functions: NvrtcFunctions,
    family: &'a str,
    program: Program,
}

impl NvrtcProgram<'_> {
    fn check(&self, call: &'static str, status: c_int) -> Result<(), PtxCompileError> {
        if status == 0 {
            return Ok(());
        }
        let log = if self.program.is_null() {
            String::new()
        } else {
            self.read("nvrtcGetProgramLog", self.functions.log_size, self.functions.log).unwrap_or_default()
        };
        Err(PtxCompileError::Refused { family: self.family.into(), call, status, log })
    }

    /// A text of the program up to its NUL.
    fn read(
        &self,
        call: &'static str,
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        text: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ) -> Result<String, PtxCompileError> {
        let mut bytes = 0;
        // SAFETY: the program is whole, and the call writes one size.
        let status = unsafe { size(self.program, &raw mut bytes) };
        let refused =
            |status| PtxCompileError::Refused { family: self.family.into(), call, status, log: String::new() };
        if status != 0 {
            return Err(refused(status));
        }
        let mut content = vec![0_u8; bytes];
        // SAFETY: the call writes as many bytes as the call before reported.
        let status = unsafe { text(self.program, content.as_mut_ptr().cast()) };
        if status != 0 {
            return Err(refused(status));
        }
        content.truncate(content.iter().position(|byte| *byte == 0).unwrap_or(bytes));
        Ok(String::from_utf8_lossy(&content).into_owned())
    }
}

impl Drop for NvrtcProgram<'_> {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: nvrtcCreateProgram made it, and nothing uses it after this.
            let _ = unsafe { (self.functions.destroy)(&raw mut self.program) };
        }
    }
}
