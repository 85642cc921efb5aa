//! A device's primary context, with one stream and one pool of memory for each engine, and its failures.
//!
//! | the driver reports | the result |
//! | --- | --- |
//! | no memory, even after the pool's was given back | an error of one call: [`DeviceError::OutOfMemory`] |
//! | an unsupported request, and nothing was done | an error of this call, every time: [`DeviceError::Unsupported`] |
//! | anything else | the context's end: [`DeviceError::Lost`] |
//!
//! CUDA keeps an error that ends a context and returns it from every later call. So does this, without asking CUDA
//! again.

use crate::machine::{MissingRequirement, broken_call, error_text};
use cudarc::driver::{DriverError, result as driver, sys};
use hopeval_device::DeviceError;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// An open device.
#[derive(Debug)]
pub(super) struct DeviceContext {
    /// "cuda:0".
    name: String,
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    pool: sys::CUmemoryPool,
    /// The reason of its end.
    lost: OnceLock<String>,
}

// SAFETY: the driver may be called from any thread with the same context, stream and pool. The pointers are never
// followed here, and their objects live until `drop`.
unsafe impl Send for DeviceContext {}
// SAFETY: as above; the driver orders simultaneous calls.
unsafe impl Sync for DeviceContext {}

impl DeviceContext {
    /// Opens a device that [`describe_device`](crate::machine::describe_device) found fit.
    pub(super) fn new(ordinal: usize, name: String) -> Result<Arc<Self>, MissingRequirement> {
        let device = driver::device::get(ordinal as c_int).map_err(broken_call("cuDeviceGet"))?;
        // SAFETY: the device was given by cuDeviceGet; `drop` releases the retained context.
        let context =
            unsafe { driver::primary_ctx::retain(device) }.map_err(broken_call("cuDevicePrimaryCtxRetain"))?;
        let (stream, pool) = (std::ptr::null_mut(), std::ptr::null_mut());
        // From here on `drop` undoes these steps.
        let mut new = Self { name, device, context, stream, pool, lost: OnceLock::new() };
        // SAFETY: the context was just retained.
        unsafe { driver::ctx::set_current(new.context) }.map_err(broken_call("cuCtxSetCurrent"))?;
        let alone = driver::stream::StreamKind::NonBlocking;
        new.stream = driver::stream::create(alone).map_err(broken_call("cuStreamCreate"))?;
        new.pool = create_pool(device).map_err(broken_call("cuMemPoolCreate"))?;
        // Freed memory stays with the pool, for the next batch.
        let mut threshold = u64::MAX;
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the pool is the device's, and this attribute is a 64-bit number.
        unsafe { driver::mem_pool::set_attribute(new.pool, attribute, (&raw mut threshold).cast::<c_void>()) }
            .map_err(broken_call("cuMemPoolSetAttribute"))?;
        Ok(Arc::new(new))
    }

    /// "cuda:0".
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The stream of all work.
    pub(super) fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// Makes this the calling thread's context; must come first in every call.
    ///
    /// # Errors
    /// [`DeviceError::Lost`], immediately if it was lost before.
    pub(super) fn make_current(&self) -> Result<(), DeviceError> {
        if let Some(reason) = self.lost.get() {
            return Err(self.lost_error(reason));
        }
        // SAFETY: the context is retained until `drop`.
        self.check_result("cuCtxSetCurrent", unsafe { driver::ctx::set_current(self.context) })
    }

    /// Turns a call's result into this crate's errors.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] of an unknown amount, [`DeviceError::Unsupported`], [`DeviceError::Lost`].
    pub(super) fn check_result<T>(
        &self,
        call: impl fmt::Display,
        given: Result<T, DriverError>,
    ) -> Result<T, DeviceError> {
        use sys::CUresult as Said;
        given.map_err(|error| match error.0 {
            Said::CUDA_ERROR_OUT_OF_MEMORY => self.out_of_memory(0),
            Said::CUDA_ERROR_INVALID_VALUE
            | Said::CUDA_ERROR_NOT_SUPPORTED
            | Said::CUDA_ERROR_NOT_FOUND
            | Said::CUDA_ERROR_INVALID_IMAGE
            | Said::CUDA_ERROR_NO_BINARY_FOR_GPU
            | Said::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => {
                self.unsupported_error(format!("{call} failed with {}", error_text(error)))
            }
            _ => self.mark_lost(format!("{call} failed with {}", error_text(error))),
        })
    }

    /// Makes a call that may need memory outside the pool. If memory runs out, gives the pool's unused memory back and
    /// calls once more. The thread has entered.
    ///
    /// # Errors
    /// As [`DeviceContext::check_result`].
    pub(super) fn attempt_call<T>(
        &self,
        call: impl fmt::Display,
        mut attempt: impl FnMut() -> Result<T, DriverError>,
    ) -> Result<T, DeviceError> {
        let mut given = attempt();
        if given.as_ref().is_err_and(|error| error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
            self.give_back()?;
            given = attempt();
        }
        self.check_result(call, given)
    }

    /// Waits until all work is done, and gives the pool's unused memory back to the device.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] when any of the work failed.
    pub(super) fn give_back(&self) -> Result<(), DeviceError> {
        self.synchronize()?;
        // SAFETY: the pool is the device's.
        self.check_result("cuMemPoolTrimTo", unsafe { driver::mem_pool::trim_to(self.pool, 0) })
    }

    /// An error for a request that the device never supports.
    pub(super) fn unsupported_error(&self, what: String) -> DeviceError {
        DeviceError::Unsupported { device: self.name.clone(), what }
    }

    /// Ends the context; the first reason stays.
    pub(super) fn mark_lost(&self, reason: String) -> DeviceError {
        let reason = self.lost.get_or_init(|| {
            tracing::error!("{} is lost: {reason}", self.name);
            reason
        });
        self.lost_error(reason)
    }

    fn lost_error(&self, reason: &str) -> DeviceError {
        DeviceError::Lost { device: self.name.clone(), reason: reason.to_owned() }
    }

    /// Waits until all work is done.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] when any of it failed.
    pub(super) fn synchronize(&self) -> Result<(), DeviceError> {
        // SAFETY: the stream lives until `drop`.
        self.check_result("cuStreamSynchronize", unsafe { driver::stream::synchronize(self.stream) })
    }

    /// Allocates from the pool, in the stream's order. The thread has entered.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if memory is short even after all work is done and the pool is given back;
    /// [`DeviceError::Lost`].
    pub(super) fn allocate(&self, bytes: usize) -> Result<sys::CUdeviceptr, DeviceError> {
        // The pool may have enough bytes, but fragmented.
        let given = self.attempt_call("cuMemAllocFromPoolAsync", || {
            let mut address = 0;
            // SAFETY: the stream and the pool live until `drop`, and all work is on the stream.
            let status = unsafe { sys::cuMemAllocFromPoolAsync(&raw mut address, bytes, self.pool, self.stream) };
            status.result().map(|()| address)
        });
        given.map_err(|error| match error {
            DeviceError::OutOfMemory { .. } => self.out_of_memory(bytes as u64),
            other => other,
        })
    }

    /// Frees memory after all earlier work on the stream.
    ///
    /// # Safety
    /// [`DeviceContext::allocate`] gave it, and no later work uses it.
    pub(super) unsafe fn free(&self, address: sys::CUdeviceptr) {
        // A lost context's memory is freed with the process.
        if self.make_current().is_ok() {
            // SAFETY: the caller's promise.
            drop(self.check_result("cuMemFreeAsync", unsafe { driver::free_async(address, self.stream) }));
        }
    }

    /// An error for exhausted memory, with the free bytes of the device and the unused bytes of the pool.
    pub(super) fn out_of_memory(&self, wanted: u64) -> DeviceError {
        let available = self.free_memory().unwrap_or(0);
        DeviceError::OutOfMemory { device: self.name.clone(), wanted, available }
    }

    /// The free bytes of the device and the unused bytes of the pool; `None` if the driver does not say. The thread has
    /// entered.
    pub(super) fn free_memory(&self) -> Option<u64> {
        let (free, _) = driver::mem_get_info().ok()?;
        let held = self.pool_bytes(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
        let used = self.pool_bytes(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
        Some(free as u64 + held.saturating_sub(used))
    }

    fn pool_bytes(&self, attribute: sys::CUmemPool_attribute) -> u64 {
        let mut bytes = 0_u64;
        // SAFETY: the pool is the device's, and both attributes are 64-bit numbers.
        let given = unsafe { driver::mem_pool::get_attribute(self.pool, attribute, (&raw mut bytes).cast::<c_void>()) };
        given.map_or(0, |()| bytes)
    }
}

impl Drop for DeviceContext {
    fn drop(&mut self) {
        // Errors cannot be reported here: the device is lost, or the process is ending.
        // SAFETY: nothing else holds the context: buffers, modules and products each hold an `Arc` of this. The stream
        // and the pool are null or were made here, and the stream's work is done before both are destroyed; the context
        // was retained once.
        let _ = unsafe {
            driver::ctx::set_current(self.context)
                .and_then(|()| if self.stream.is_null() { Ok(()) } else { close_stream(self.stream) })
                .and_then(|()| if self.pool.is_null() { Ok(()) } else { driver::mem_pool::destroy(self.pool) })
                .and_then(|()| driver::ctx::set_current(std::ptr::null_mut()))
                .and_then(|()| driver::primary_ctx::release(self.device))
        };
    }
}

/// A pool of its own for each engine of a device: memory that one engine frees does not order the work of another
/// behind its own, and giving back one engine's memory leaves that of the others alone.
fn create_pool(device: sys::CUdevice) -> Result<sys::CUmemoryPool, DriverError> {
    let location = sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device };
    let properties = sys::CUmemPoolProps {
        allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        handleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location,
        win32SecurityAttributes: std::ptr::null_mut(),
        maxSize: 0,
        usage: 0,
        reserved: [0; 54],
    };
    // SAFETY: the properties are whole, and read before the call returns.
    unsafe { driver::mem_pool::create(&raw const properties) }
}

/// # Safety
/// The stream was made by the current context, and is not used after this.
unsafe fn close_stream(stream: sys::CUstream) -> Result<(), DriverError> {
    // SAFETY: the caller's promise.
    unsafe { driver::stream::synchronize(stream).and_then(|()| driver::stream::destroy(stream)) }
}
