//! Uploads: when the call returns, the bytes are on their way and the caller's memory is free again.
//!
//! | bytes | way | waits |
//! | --- | --- | --- |
//! | up to [`INLINE`] | the driver takes them along with the command | never |
//! | up to [`SLOT`] | through pinned memory of ours, one slot after the other | for the copy [`SLOTS`] uploads ago |
//! | more | the driver's own staging of pageable memory | for all earlier work: weights are uploaded once |

use super::context::DeviceContext;
use super::memory::DriverBuffer;
use cudarc::driver::{result as driver, sys};
use hopeval_device::DeviceError;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

/// The largest copy that the driver is documented to take without waiting for the stream (CUDA C++ Programming Guide,
/// "Concurrent execution between host and device").
const INLINE: usize = 64 << 10;

/// Bytes of a slot.
const SLOT: usize = 1 << 20;

/// Number of slots, and so of uploads on their way at once.
const SLOTS: usize = 8;

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
        match bytes.len() {
            0 => Ok(()),
            n if n <= INLINE => self.request_copy(bytes, to),
            n if n <= SLOT => self.through_a_slot(bytes, to),
            _ => {
                self.request_copy(bytes, to)?;
                // A driver that reads pageable memory in place may not have read all of it by now.
                self.context.synchronize()
            }
        }
    }

    fn request_copy(&self, bytes: &[u8], to: &DriverBuffer) -> Result<(), DeviceError> {
        // SAFETY: the buffer has at least `bytes.len()` bytes. Up to `INLINE` the driver reads them before this
        // returns; for more the caller waits.
        let copied = unsafe { driver::memcpy_htod_async(to.address(), bytes, self.context.stream()) };
        self.context.check_result("cuMemcpyHtoDAsync", copied)
    }

    fn through_a_slot(&self, bytes: &[u8], to: &DriverBuffer) -> Result<(), DeviceError> {
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
        // SAFETY: the buffer has at least `bytes.len()` bytes; the slot is not touched before the event, recorded next,
        // has come.
        let copied = unsafe { driver::memcpy_htod_async(to.address(), staged, context.stream()) };
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
