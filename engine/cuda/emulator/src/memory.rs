//! Buffers: heap blocks of exactly their size, so that address sanitizer sees every access beyond one.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Alignment of a GPU's allocations, in bytes.
const ALIGNMENT: usize = 256;

/// The greatest alignment for which the system's allocator takes zeros as the kernel gives them, without writing them.
const SPARSE_ALIGNMENT: usize = 16;

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
    /// The block around it; none for no bytes.
    block: Option<(NonNull<u8>, Layout)>,
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
        let buffer = self.allocate_with(bytes, bytes, ALIGNMENT, alloc)?;
        // SAFETY: the block has `bytes` bytes; with 0 nothing is written.
        unsafe { buffer.at.as_ptr().write_bytes(0xff, bytes) };
        Ok(buffer)
    }

    /// Memory of zeros, of which the system provides the pages that are touched; the error is the number of bytes left.
    pub(crate) fn allocate_sparse(self: &Arc<Self>, bytes: usize) -> Result<EmulatorBuffer, u64> {
        self.allocate_with(bytes, bytes.saturating_add(ALIGNMENT), SPARSE_ALIGNMENT, alloc_zeroed)
    }

    fn allocate_with(
        self: &Arc<Self>,
        bytes: usize,
        size: usize,
        alignment: usize,
        allocator: unsafe fn(Layout) -> *mut u8,
    ) -> Result<EmulatorBuffer, u64> {
        let grown = |taken: u64| taken.checked_add(bytes as u64).filter(|taken| *taken <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).map_err(|taken| self.most - taken)?;
        // There is no memory at this address: an access is a fault.
        let mut buffer = EmulatorBuffer { at: NonNull::dangling(), bytes, block: None, memory: Arc::clone(self) };
        if bytes == 0 {
            return Ok(buffer);
        }
        let layout = Layout::from_size_align(size, alignment).map_err(|_| 0_u64)?;
        // SAFETY: the size is not 0.
        let first = NonNull::new(unsafe { allocator(layout) }).ok_or(0_u64)?;
        buffer.block = Some((first, layout));
        // SAFETY: a block that may not be aligned already is larger by the alignment.
        buffer.at = unsafe { first.add(first.align_offset(ALIGNMENT)) };
        Ok(buffer)
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

    /// Writes bytes from `offset` on.
    ///
    /// # Panics
    /// If they end beyond the buffer.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) {
        assert!(offset.checked_add(bytes.len()).is_some_and(|end| end <= self.bytes), "bytes of a buffer");
        // SAFETY: the buffer has these bytes, and no slice lies in a buffer.
        unsafe { self.at.as_ptr().add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// The bytes from `offset` on.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn read_at(&self, offset: usize, count: usize) -> Vec<u8> {
        assert!(offset.checked_add(count).is_some_and(|end| end <= self.bytes), "bytes of a buffer");
        let mut bytes = vec![0; count];
        // SAFETY: the buffer has these bytes, all of them written when it was made; no slice lies in a buffer.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.at.as_ptr().add(offset), count) };
        bytes
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Writes the first bytes; the others stay.
    ///
    /// # Panics
    /// If there are more bytes than the buffer has.
    pub(crate) fn write(&self, bytes: &[u8]) {
        self.write_at(0, bytes);
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
        if let Some((block, layout)) = self.block {
            // SAFETY: allocated by `MemoryBudget::allocate_with` with this layout.
            unsafe { dealloc(block.as_ptr(), layout) };
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

    #[test]
    fn sparse_memory_is_zeros_at_an_aligned_address() {
        let memory = MemoryBudget::with_limit(1 << 40);
        let held = memory.allocate_sparse(1 << 33).unwrap();
        assert_eq!((held.address() as usize % ALIGNMENT, held.len()), (0, 1 << 33));
        held.write_at((1 << 33) - 2, &[5, 6]);
        assert_eq!(held.read_at((1 << 33) - 4, 4), [0, 0, 5, 6]);
        assert_eq!(memory.allocate_sparse(1 << 40).unwrap_err(), (1 << 40) - (1 << 33));
        drop(held);
        assert_eq!(memory.allocate_sparse((1 << 40) + 1).unwrap_err(), 1 << 40);
    }
}
