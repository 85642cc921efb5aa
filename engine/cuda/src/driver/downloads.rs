//! Requested reads: bytes go to pinned memory in the stream's order, and the host takes them when it needs them.

use super::context::DeviceContext;
use super::memory::DriverBuffer;
use cudarc::driver::{result as driver, sys};
use hopeval_device::DeviceError;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the smallest block.
const SMALLEST: usize = 64 << 10;

/// Bytes in unused blocks at most.
const KEPT: usize = 64 << 20;

/// Pinned blocks, kept for later reads: to allocate one takes longer than most copies.
#[derive(Debug)]
pub(super) struct DownloadMemory {
    context: Arc<DeviceContext>,
    /// The last one was used last.
    unused: Mutex<Vec<PinnedBlock>>,
}

/// Pinned memory for one read at a time.
#[derive(Debug)]
struct PinnedBlock {
    memory: *mut c_void,
    /// A power of two.
    bytes: usize,
    /// Behind the last copy to it.
    copied: sys::CUevent,
}

// SAFETY: a block has one owner, and any thread with the context may use it.
unsafe impl Send for PinnedBlock {}

/// Bytes on their way to the host.
#[derive(Debug)]
pub(super) struct PendingDownload {
    memory: Arc<DownloadMemory>,
    /// `None` once it is given back.
    block: Option<PinnedBlock>,
    bytes: usize,
}

impl DownloadMemory {
    pub(super) fn new(context: Arc<DeviceContext>) -> Arc<Self> {
        Arc::new(Self { context, unused: Mutex::default() })
    }

    /// Requests a buffer's first bytes as they are after all earlier work.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if the host has no memory to pin, [`DeviceError::Lost`].
    ///
    /// # Panics
    /// If the buffer is shorter, or no byte is asked for.
    pub(super) fn request_bytes(
        self: &Arc<Self>,
        from: &DriverBuffer,
        bytes: usize,
    ) -> Result<PendingDownload, DeviceError> {
        assert!((1..=from.bytes()).contains(&bytes), "{bytes} bytes of {}; this is a bug", from.bytes());
        let context = &self.context;
        context.make_current()?;
        let block = self.take_block(bytes)?;
        // SAFETY: the block is longer, and nobody else has it. Earlier copies to it come first in the stream.
        let into = unsafe { std::slice::from_raw_parts_mut(block.memory.cast::<u8>(), bytes) };
        let copied = block.copied;
        // From here on `drop` gives the block back.
        let download = PendingDownload { memory: Arc::clone(self), block: Some(block), bytes };
        // SAFETY: the buffer has so many bytes. The block is neither read before the event, recorded next, has come,
        // nor freed before the stream's work is done.
        let requested = unsafe { driver::memcpy_dtoh_async(into, from.address(), context.stream()) };
        context.check_result("cuMemcpyDtoHAsync", requested)?;
        // SAFETY: event and stream are of this context.
        context.check_result("cuEventRecord", unsafe { driver::event::record(copied, context.stream()) })?;
        Ok(download)
    }

    /// An unused block of the next power of two, or a new one. The thread has entered.
    fn take_block(&self, bytes: usize) -> Result<PinnedBlock, DeviceError> {
        let bytes = bytes.next_power_of_two().max(SMALLEST);
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = unused.iter().position(|block| block.bytes == bytes) {
            return Ok(unused.remove(found));
        }
        drop(unused);
        let event = driver::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
        let copied = self.context.check_result("cuEventCreate", event)?;
        // SAFETY: the thread has a context; `free_block` frees the memory.
        match self.context.check_result("cuMemHostAlloc", unsafe { driver::malloc_host(bytes, 0) }) {
            Ok(memory) => Ok(PinnedBlock { memory, bytes, copied }),
            Err(error) => {
                // SAFETY: the event was just made, and nothing was recorded.
                let _ = unsafe { driver::event::destroy(copied) };
                Err(error)
            }
        }
    }

    /// Keeps a block for later reads. The blocks that were used longest ago make room.
    fn give_back(&self, block: PinnedBlock) {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        unused.push(block);
        let mut kept = unused.iter().map(|block| block.bytes).sum::<usize>();
        let leave = |block: &PinnedBlock| {
            let leaves = kept > KEPT;
            kept -= if leaves { block.bytes } else { 0 };
            leaves
        };
        let many = unused.iter().map(leave).take_while(|leaves| *leaves).count();
        let leaving = unused.drain(..many).collect::<Vec<_>>();
        drop(unused);
        // A copy to one may be pending, if nobody has read it. A lost context's memory is freed with the process.
        if many > 0 && self.context.make_current().and_then(|()| self.context.synchronize()).is_ok() {
            leaving.iter().for_each(free_block);
        }
    }
}

/// Frees a block with no pending copy.
fn free_block(block: &PinnedBlock) {
    // SAFETY: both were made by `take_block`, nobody waits for the event, and the block's last owner calls this once.
    // Errors cannot be reported here.
    let _ = unsafe { driver::event::destroy(block.copied).and_then(|()| driver::free_host(block.memory)) };
}

impl Drop for DownloadMemory {
    fn drop(&mut self) {
        if self.context.make_current().and_then(|()| self.context.synchronize()).is_ok() {
            self.unused.get_mut().unwrap_or_else(PoisonError::into_inner).iter().for_each(free_block);
        }
    }
}

impl PendingDownload {
    /// Waits for the bytes.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] if any of the work before them failed.
    pub(super) fn read(self) -> Result<Vec<u8>, DeviceError> {
        let context = &self.memory.context;
        let block = self.block.as_ref().expect("it is given back on drop only; this is a bug");
        context.make_current()?;
        // SAFETY: the event was made with the block.
        context.check_result("cuEventSynchronize", unsafe { driver::event::synchronize(block.copied) })?;
        // SAFETY: the block is longer, and the copy is done.
        Ok(unsafe { std::slice::from_raw_parts(block.memory.cast::<u8>(), self.bytes) }.to_vec())
    }
}

impl Drop for PendingDownload {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.memory.give_back(block);
        }
    }
}
