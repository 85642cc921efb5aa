//! Buffers: heap blocks of exactly their size, so that address sanitizer sees every access beyond one.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Alignment of a GPU's allocations, in bytes.
const ALIGNMENT: usize = 256;

/// The limit of all buffers together, and their present total.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    most: u64,
    taken: AtomicU64,
}

/// Memory that kernels read and write.
#[derive(Debug)]
pub struct EmulatorBuffer {
    at: NonNull<u8>,
    bytes: usize,
    memory: Arc<MemoryBudget>,
}

// SAFETY: a buffer is bytes, and nothing of it belongs to a thread.
unsafe impl Send for EmulatorBuffer {}
// SAFETY: whoever launches work orders its accesses, as for a GPU's memory; Rust never makes a reference to the
// content.
unsafe impl Sync for EmulatorBuffer {}

impl MemoryBudget {
    pub(crate) fn with_limit(most: u64) -> Arc<Self> {
        Arc::new(Self { most, taken: AtomicU64::new(0) })
    }

    /// Memory with all bits set (NaN, or an index beyond everything); the error is the number of bytes left.
    pub(crate) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<EmulatorBuffer, u64> {
        let grown = |taken: u64| taken.checked_add(bytes as u64).filter(|taken| *taken <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).map_err(|taken| self.most - taken)?;
        let buffer = EmulatorBuffer { at: Self::allocate_block(bytes).ok_or(0_u64)?, bytes, memory: Arc::clone(self) };
        // SAFETY: the block has `bytes` bytes; with 0 nothing is written.
        unsafe { buffer.at.as_ptr().write_bytes(0xff, bytes) };
        Ok(buffer)
    }

    fn allocate_block(bytes: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
        if bytes == 0 {
            // There is no memory at this address: an access is a fault.
            return Some(NonNull::dangling());
        }
        // SAFETY: the size is not 0.
        NonNull::new(unsafe { alloc(layout) })
    }
}

impl EmulatorBuffer {
    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Writes the first bytes; the others stay.
    ///
    /// # Panics
    /// If there are more bytes than the buffer has.
    pub(crate) fn write(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.bytes, "bytes of a buffer; this is a bug");
        // SAFETY: both have at least `bytes.len()` bytes, and no slice lies in a buffer.
        unsafe { self.at.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// # Panics
    /// If `into` is longer than the buffer.
    pub(crate) fn read(&self, into: &mut [u8]) {
        assert!(into.len() <= self.bytes, "bytes of a buffer; this is a bug");
        // SAFETY: the buffer has at least `into.len()` bytes, all of them written when it was made; no slice lies in a
        // buffer.
        unsafe { into.as_mut_ptr().copy_from_nonoverlapping(self.at.as_ptr(), into.len()) };
    }
}

impl Drop for EmulatorBuffer {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(self.bytes as u64, Ordering::Relaxed);
        if let (1.., Ok(layout)) = (self.bytes, Layout::from_size_align(self.bytes, ALIGNMENT)) {
            // SAFETY: allocated by `MemoryBudget::allocate_block` with this layout.
            unsafe { dealloc(self.at.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_runs_out_says_how_much_is_left_and_comes_back() {
        let memory = MemoryBudget::with_limit(1000);
        let held = memory.allocate(600).unwrap();
        assert_eq!((held.address() as usize % ALIGNMENT, held.len()), (0, 600));
        assert_eq!(memory.allocate(401).unwrap_err(), 400);
        assert!(memory.allocate(0).unwrap().is_empty());
        drop(held);
        let mut first = [0; 2];
        memory.allocate(1000).unwrap().read(&mut first);
        assert_eq!(first, [0xff; 2]);
    }
}
