//! Kernels: a family's module is compiled or read from disk at its first use, and stays.
//!
//! The driver tells how long each parameter of a kernel is, so that a launch with others is a bug found here, not memory read
//! that nobody meant.

use super::context::Context;
use super::memory::Buffer;
use crate::compile::{self, Compiler};
use crate::kernels::Family;
use crate::machine::Architecture;
use crate::runtime::{Argument, Launch};
use cudarc::driver::{result as driver, sys};
use hopeval_device::DeviceError;
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The most parameters that a kernel has here.
const PARAMETERS: usize = 48;

/// Bytes of shared memory that a block may have, static and dynamic, without the kernel being allowed more.
const SHARED: u32 = 48 << 10;

/// The kernels of a device.
#[derive(Debug)]
pub(super) struct Modules {
    context: Arc<Context>,
    compiler: Compiler,
    target: Architecture,
    cache: Option<PathBuf>,
    loaded: Mutex<Loaded>,
}

#[derive(Debug, Default)]
struct Loaded {
    modules: HashMap<&'static str, sys::CUmodule>,
    /// By family and name.
    functions: HashMap<(&'static str, &'static str), Function>,
}

// SAFETY: modules and functions may be used by any thread with the context; the pointers are never followed here.
unsafe impl Send for Loaded {}

/// A kernel of a loaded module.
#[derive(Clone, Debug)]
struct Function {
    handle: sys::CUfunction,
    /// Bytes of each.
    parameters: Arc<[usize]>,
    /// Dynamic shared memory that a launch may ask for so far.
    shared: u32,
}

impl Modules {
    /// None yet.
    pub(super) fn new(context: Arc<Context>, compiler: Compiler, target: Architecture, cache: Option<&Path>) -> Self {
        Self { context, compiler, target, cache: cache.map(Path::to_owned), loaded: Mutex::default() }
    }

    /// Asks for the work of a kernel.
    ///
    /// # Panics
    /// If the arguments are not those of the kernel's parameter list.
    pub(super) fn launch(&self, launch: Launch, arguments: &[Argument<'_, Buffer>]) -> Result<(), DeviceError> {
        self.context.enter()?;
        let function = self.function(launch)?;
        let lengths = || arguments.iter().map(length);
        assert!(
            lengths().eq(function.parameters.iter().copied()),
            "{} takes {:?} bytes, given {:?}; this is a bug",
            launch.kernel.name,
            function.parameters,
            lengths().collect::<Vec<_>>(),
        );
        let mut values = [0_u64; PARAMETERS];
        for (value, argument) in values.iter_mut().zip(arguments) {
            *value = bits(argument);
        }
        let mut pointers: [*mut c_void; PARAMETERS] = values.each_mut().map(|value| (value as *mut u64).cast());
        let (grid, block) = ((launch.grid.0, launch.grid.1, 1), (launch.threads, 1, 1));
        // SAFETY: the function is of a module that is loaded until `drop`; each parameter of it has a value as long as it is
        // (checked above; numbers are little-endian, so a short one lies at the beginning), and the values live until the
        // call has read them. What the kernel does with the addresses is its contract with the caller.
        let launched = unsafe {
            let stream = self.context.stream();
            driver::launch_kernel(function.handle, grid, block, launch.shared, stream, &mut pointers)
        };
        let Launch { kernel, grid, threads, shared } = launch;
        let call = format_args!("cuLaunchKernel of {} ({grid:?} blocks, {threads} threads, {shared} B)", kernel.name);
        self.context.check(call, launched)
    }

    /// The function of a kernel, allowed as much shared memory as this launch asks for.
    fn function(&self, Launch { kernel, shared, .. }: Launch) -> Result<Function, DeviceError> {
        // Held while a family is compiled: another thread that needs it waits instead of compiling it, too.
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if !loaded.modules.contains_key(kernel.family.name) {
            self.load(kernel.family, &mut loaded)?;
        }
        let Some(function) = loaded.functions.get_mut(&(kernel.family.name, kernel.name)) else {
            panic!("{}.cu lists no kernel {}; this is a bug", kernel.family.name, kernel.name)
        };
        if shared > function.shared {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is of a module that is loaded.
            let set = unsafe { driver::function::set_function_attribute(function.handle, attribute, shared as c_int) };
            let call = format_args!("cuFuncSetAttribute: {shared} bytes of shared memory for {}", kernel.name);
            self.context.check(call, set)?;
            function.shared = shared;
        }
        Ok(function.clone())
    }

    /// Compiles a family or reads it from disk, and finds its kernels.
    fn load(&self, family: &'static Family, loaded: &mut Loaded) -> Result<(), DeviceError> {
        let cubin = compile::kept(&self.compiler, self.cache.as_deref(), family, self.target)
            .map_err(|error| self.context.lose(error.to_string()))?;
        // SAFETY: this is machine code as NVRTC made it, whole by its digest; the driver copies it.
        let module = unsafe { driver::module::load_data(cubin.as_ptr().cast()) };
        let module = self.context.check("cuModuleLoadData", module)?;
        loaded.modules.insert(family.name, module);
        for &name in family.kernels {
            // SAFETY: the module was just loaded.
            let handle = unsafe { driver::module::get_function(module, symbol(name)) };
            let handle = self.context.check("cuModuleGetFunction", handle)?;
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
            // SAFETY: the function is of the module just loaded.
            let own = unsafe { driver::function::get_function_attribute(handle, attribute) };
            let own = self.context.check("cuFuncGetAttribute", own)?.unsigned_abs();
            let function = Function { handle, parameters: parameters(handle), shared: SHARED.saturating_sub(own) };
            loaded.functions.insert((family.name, name), function);
        }
        Ok(())
    }
}

fn symbol(name: &str) -> CString {
    CString::new(name).expect("a kernel's name has no NUL; this is a bug")
}

/// Bytes of each parameter; past the last, the driver calls the index invalid.
fn parameters(function: sys::CUfunction) -> Arc<[usize]> {
    let length = |index| {
        let (mut offset, mut length) = (0, 0);
        // SAFETY: the function is of a loaded module; the call writes two sizes.
        let told = unsafe { sys::cuFuncGetParamInfo(function, index, &raw mut offset, &raw mut length) };
        told.result().ok().map(|()| length)
    };
    (0..PARAMETERS).map_while(length).collect()
}

/// Bytes of an argument in a parameter list.
fn length(argument: &Argument<'_, Buffer>) -> usize {
    match argument {
        Argument::Buffer(_) | Argument::Null => size_of::<u64>(),
        Argument::U32(_) | Argument::F32(_) => size_of::<u32>(),
    }
}

/// An argument's bytes, as the lower ones of a number.
fn bits(argument: &Argument<'_, Buffer>) -> u64 {
    match argument {
        Argument::Buffer(buffer) => buffer.address(),
        Argument::Null => 0,
        Argument::U32(value) => u64::from(*value),
        Argument::F32(value) => u64::from(value.to_bits()),
    }
}

impl Drop for Modules {
    fn drop(&mut self) {
        if self.context.enter().and_then(|()| self.context.synchronize()).is_err() {
            return;
        }
        let loaded = self.loaded.get_mut().unwrap_or_else(PoisonError::into_inner);
        for &module in loaded.modules.values() {
            // SAFETY: the module was loaded here, and all launches of its functions are done.
            let _ = unsafe { driver::module::unload(module) };
        }
    }
}
