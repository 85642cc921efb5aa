//! Uploads: when the call returns, the bytes are on their way and the caller's memory is free again.
//!
//! All of them go through pinned memory of ours, a slot after the other: a copy from pageable memory makes the driver
//! wait for all earlier work if it is large (4 MiB on an H200, where 1 MiB did not), may read that memory after the
//! call has returned, and moves a fifth of the bytes a second. A call waits only for the copy [`SLOTS`] slots ago.

use super::context::DeviceContext;
use super::memory::DriverBuffer;
use cudarc::driver::{result as driver, sys};
use hopeval_device::DeviceError;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a slot.
const SLOT: usize = 1 << 20;

/// Number of slots, and so of copies on their way at once: the lists of two batches, and more.
const SLOTS: usize = 32;

/// Pinned memory.
#[derive(Debug)]
pub(super) struct StagingMemory {
    context: Arc<DeviceContext>,
    slots: Mutex<StagingSlots>,
}

#[derive(Debug)]
struct StagingSlots {
    /// `SLOTS * SLOT` bytes, or null.
    memory: *mut c_void,
    /// The event after a slot's last copy; null before the first.
    copied: [sys::CUevent; SLOTS],
    /// The next slot to use.
    next: usize,
}

// SAFETY: only this struct owns the memory and the events; any thread with the context may use them, one at a time.
unsafe impl Send for StagingSlots {}

impl StagingMemory {
    /// Allocates the pinned memory.
    pub(super) fn new(context: Arc<DeviceContext>) -> Result<Self, DeviceError> {
        context.make_current()?;
        // SAFETY: the thread has a context; `drop` frees the memory.
        let memory = context.check_result("cuMemHostAlloc", unsafe { driver::malloc_host(SLOTS * SLOT, 0) })?;
        let slots = Mutex::new(StagingSlots { memory, copied: [ptr::null_mut(); SLOTS], next: 0 });
        Ok(Self { context, slots })
    }

    /// Copies `bytes` to the buffer's beginning, in the stream's order; the caller may change them after the return.
    ///
    /// # Panics
    /// If the buffer is shorter.
    pub(super) fn upload(&self, bytes: &[u8], to: &DriverBuffer) -> Result<(), DeviceError> {
        assert!(bytes.len() <= to.bytes(), "{} bytes for {}; this is a bug", bytes.len(), to.bytes());
        self.context.make_current()?;
        let mut address = to.address();
        for part in bytes.chunks(SLOT) {
            self.send_part(part, address)?;
            address += part.len() as u64;
        }
        Ok(())
    }

    /// Copies at most [`SLOT`] bytes to an address of the device.
    fn send_part(&self, bytes: &[u8], address: sys::CUdeviceptr) -> Result<(), DeviceError> {
        let context = &self.context;
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.next;
        if slots.copied[slot].is_null() {
            let event = driver::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
            slots.copied[slot] = context.check_result("cuEventCreate", event)?;
        } else {
            // SAFETY: the event was made above, in an earlier call.
            context.check_result("cuEventSynchronize", unsafe { driver::event::synchronize(slots.copied[slot]) })?;
        }
        slots.next = (slot + 1) % SLOTS;
        // SAFETY: the slot lies within the memory, no copy from it is pending, and the lock is held: there is no other
        // user.
        let staged = unsafe {
            let slot = slots.memory.cast::<u8>().add(slot * SLOT);
            ptr::copy_nonoverlapping(bytes.as_ptr(), slot, bytes.len());
            std::slice::from_raw_parts(slot, bytes.len())
        };
        // SAFETY: the caller's buffer has so many bytes there; the slot is not touched before the event, recorded next,
        // has come.
        let copied = unsafe { driver::memcpy_htod_async(address, staged, context.stream()) };
        context.check_result("cuMemcpyHtoDAsync", copied)?;
        // SAFETY: event and stream are of this context.
        context.check_result("cuEventRecord", unsafe { driver::event::record(slots.copied[slot], context.stream()) })
    }
}

impl Drop for StagingMemory {
    fn drop(&mut self) {
        if self.context.make_current().and_then(|()| self.context.synchronize()).is_err() {
            return;
        }
        let slots = self.slots.get_mut().unwrap_or_else(PoisonError::into_inner);
        for &event in slots.copied.iter().filter(|event| !event.is_null()) {
            // SAFETY: the event was made here, and nothing waits for it any more.
            let _ = unsafe { driver::event::destroy(event) };
        }
        // SAFETY: cuMemHostAlloc gave it, and all copies from it are done.
        let _ = unsafe { driver::free_host(slots.memory) };
    }
}
