//! Kernels: the modules of all families, loaded when the device is opened, and launches.
//!
//! The driver reports the length of each parameter of a kernel. A launch with wrong arguments is therefore a bug found
//! here, not a read of unrelated memory.

use super::context::DeviceContext;
use super::memory::DriverBuffer;
use crate::kernels::{FAMILIES, KernelFamily};
use crate::runtime::{KernelArgument, KernelLaunch};
use cudarc::driver::{result as driver, sys};
use hopeval_device::DeviceError;
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// The most parameters of any kernel here.
const PARAMETERS: usize = 48;

/// Bytes of shared memory of a block, static and dynamic, within the default limit of a kernel.
const SHARED: u32 = 48 << 10;

/// The kernels of a device.
#[derive(Debug)]
pub(super) struct KernelModules {
    context: Arc<DeviceContext>,
    modules: Vec<FamilyModule>,
}

/// A family's machine code on the device.
#[derive(Debug)]
struct FamilyModule {
    family: &'static KernelFamily,
    handle: sys::CUmodule,
    functions: HashMap<&'static str, KernelFunction>,
}

// SAFETY: any thread with the context may use modules and functions; the pointers are never followed here.
unsafe impl Send for FamilyModule {}
// SAFETY: as above, also by several threads at the same time.
unsafe impl Sync for FamilyModule {}

/// A kernel of a loaded module.
#[derive(Debug)]
struct KernelFunction {
    handle: sys::CUfunction,
    /// Bytes of each parameter.
    parameters: Vec<usize>,
    /// The largest dynamic shared memory allowed so far.
    shared: Mutex<u32>,
}

impl KernelModules {
    /// Loads the machine code of all families, given in their order.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; [`DeviceError::Unsupported`] and [`DeviceError::Lost`] if the code does not fit
    /// this device.
    pub(super) fn new(context: Arc<DeviceContext>, cubins: &[Vec<u8>]) -> Result<Self, DeviceError> {
        context.make_current()?;
        let mut all = Self { context, modules: Vec::with_capacity(FAMILIES.len()) };
        for (family, cubin) in FAMILIES.iter().zip(cubins) {
            // SAFETY: this is machine code as NVRTC made it, whole by its digest; the driver copies it.
            let load = || unsafe { driver::module::load_data(cubin.as_ptr().cast()) };
            let handle = all.context.attempt_call(format_args!("cuModuleLoadData of {}.cu", family.name), load)?;
            let mut module = FamilyModule { family, handle, functions: HashMap::new() };
            let found = module.find_functions(&all.context);
            // Stored before any error is checked, so `drop` unloads it.
            all.modules.push(module);
            found?;
        }
        Ok(all)
    }

    /// Enqueues a launch of a kernel.
    ///
    /// # Panics
    /// If the arguments do not match the kernel's parameter list.
    pub(super) fn launch(
        &self,
        launch: KernelLaunch,
        arguments: &[KernelArgument<'_, DriverBuffer>],
    ) -> Result<(), DeviceError> {
        self.context.make_current()?;
        let function = self.function_for(launch)?;
        let lengths = || arguments.iter().map(argument_length);
        assert!(
            lengths().eq(function.parameters.iter().copied()),
            "{} takes {:?} bytes, given {:?}; this is a bug",
            launch.kernel.name,
            function.parameters,
            lengths().collect::<Vec<_>>(),
        );
        let mut values = [0_u64; PARAMETERS];
        for (value, argument) in values.iter_mut().zip(arguments) {
            *value = argument_bits(argument);
        }
        let mut pointers: [*mut c_void; PARAMETERS] = values.each_mut().map(|value| (value as *mut u64).cast());
        let (grid, block) = ((launch.grid.0, launch.grid.1, 1), (launch.threads, 1, 1));
        // SAFETY: the function's module stays loaded until `drop`. Each of its parameters has a value of its length
        // (checked above; numbers are little-endian, so a short one lies at the beginning), and the values live until
        // the call has read them. The kernel's use of the addresses is its contract with the caller.
        let attempt = || unsafe {
            let stream = self.context.stream();
            driver::launch_kernel(function.handle, grid, block, launch.shared, stream, &mut pointers)
        };
        let KernelLaunch { kernel, grid, threads, shared } = launch;
        let call = format_args!("cuLaunchKernel of {} ({grid:?} blocks, {threads} threads, {shared} B)", kernel.name);
        self.context.attempt_call(call, attempt)
    }

    /// The function of a kernel, with this launch's shared memory allowed.
    fn function_for(&self, KernelLaunch { kernel, shared, .. }: KernelLaunch) -> Result<&KernelFunction, DeviceError> {
        let module = self.modules.iter().find(|module| module.family.name == kernel.family.name);
        let Some(function) = module.and_then(|module| module.functions.get(kernel.name)) else {
            panic!("{}.cu lists no kernel {}; this is a bug", kernel.family.name, kernel.name)
        };
        let mut allowed = function.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared > *allowed {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let call = format_args!("cuFuncSetAttribute: {shared} bytes of shared memory for {}", kernel.name);
            // SAFETY: the function's module is loaded.
            let set =
                || unsafe { driver::function::set_function_attribute(function.handle, attribute, shared as c_int) };
            self.context.attempt_call(call, set)?;
            *allowed = shared;
        }
        drop(allowed);
        Ok(function)
    }
}

impl FamilyModule {
    fn find_functions(&mut self, context: &DeviceContext) -> Result<(), DeviceError> {
        for &name in self.family.kernels {
            self.functions.insert(name, KernelFunction::find_kernel(context, self.handle, name)?);
        }
        Ok(())
    }
}

impl KernelFunction {
    fn find_kernel(context: &DeviceContext, module: sys::CUmodule, name: &str) -> Result<Self, DeviceError> {
        // SAFETY: the module is loaded.
        let get = || unsafe { driver::module::get_function(module, symbol_name(name)) };
        let handle = context.attempt_call(format_args!("cuModuleGetFunction of {name}"), get)?;
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        // SAFETY: the function is of a loaded module.
        let get = || unsafe { driver::function::get_function_attribute(handle, attribute) };
        let own = context.attempt_call(format_args!("cuFuncGetAttribute of {name}"), get)?.unsigned_abs();
        let parameters = parameter_lengths(context, handle, name)?;
        Ok(Self { handle, parameters, shared: Mutex::new(SHARED.saturating_sub(own)) })
    }
}

fn symbol_name(name: &str) -> CString {
    CString::new(name).expect("a kernel's name has no NUL; this is a bug")
}

/// Bytes of each parameter; the driver rejects the index after the last one as invalid.
fn parameter_lengths(
    context: &DeviceContext,
    function: sys::CUfunction,
    name: &str,
) -> Result<Vec<usize>, DeviceError> {
    let mut lengths = Vec::new();
    loop {
        let (mut offset, mut length) = (0, 0);
        // SAFETY: the function is of a loaded module; the call writes two sizes.
        let mut told = || unsafe { sys::cuFuncGetParamInfo(function, lengths.len(), &raw mut offset, &raw mut length) };
        let call = format_args!("cuFuncGetParamInfo of {name}");
        let is_one = context.attempt_call(call, || match told() {
            sys::CUresult::CUDA_ERROR_INVALID_VALUE => Ok(false),
            said => said.result().map(|()| true),
        })?;
        if !is_one {
            return Ok(lengths);
        }
        lengths.push(length);
        assert!(lengths.len() <= PARAMETERS, "{name} has more than {PARAMETERS} parameters; this is a bug");
    }
}

/// Bytes of an argument in a parameter list.
fn argument_length(argument: &KernelArgument<'_, DriverBuffer>) -> usize {
    match argument {
        KernelArgument::Buffer(_) | KernelArgument::Null => size_of::<u64>(),
        KernelArgument::U32(_) | KernelArgument::F32(_) => size_of::<u32>(),
    }
}

/// An argument's bytes, as the lower ones of a number.
fn argument_bits(argument: &KernelArgument<'_, DriverBuffer>) -> u64 {
    match argument {
        KernelArgument::Buffer(buffer) => buffer.address(),
        KernelArgument::Null => 0,
        KernelArgument::U32(value) => u64::from(*value),
        KernelArgument::F32(value) => u64::from(value.to_bits()),
    }
}

impl Drop for KernelModules {
    fn drop(&mut self) {
        if self.context.make_current().and_then(|()| self.context.synchronize()).is_err() {
            return;
        }
        for module in &self.modules {
            // SAFETY: the module was loaded here, and all launches of its functions are done.
            let _ = unsafe { driver::module::unload(module.handle) };
        }
    }
}
