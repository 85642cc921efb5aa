//! The CPU device's memory: aligned, counted against a limit, and recycled.
//!
//! A forward pass makes and drops the same tensors again and again. Fresh pages cost more than the arithmetic of a
//! small operation, so dropped memory is kept for the next tensor of about its size. Kept memory never exceeds the most
//! in use at once, and it is freed before anything is refused.

use crate::DeviceError;
use memmap2::{Advice, MmapMut};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One cache line: all storage consists of these, so every buffer begins at a multiple of 64 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct CacheLine([f32; LANES]);

const LANES: usize = 16;

/// Lines with an owner.
#[derive(Debug)]
enum Lines {
    /// Few of them.
    Heap(Vec<CacheLine>),
    /// Pages of the system, which gives each when it is first written: a new cache of keys and values takes only the
    /// memory of what is in it.
    Pages(MmapMut),
}

impl Lines {
    /// Bytes from which lines are pages of their own: one huge page.
    const HUGE: usize = 2 << 20;

    /// `lines` of any content; `None` if there is no room.
    fn allocate(lines: usize) -> Option<Self> {
        let bytes = lines.checked_mul(size_of::<CacheLine>())?;
        if bytes < Self::HUGE {
            let mut heap = Vec::new();
            heap.try_reserve_exact(lines).ok()?;
            heap.resize(lines, CacheLine([0.0; LANES]));
            return Some(Self::Heap(heap));
        }
        let pages = MmapMut::map_anon(bytes).ok()?;
        // Products walk through more memory than the processor can map with small pages. A system without huge ones
        // returns an error; small pages suffice.
        pages.advise(Advice::HugePage).ok();
        Some(Self::Pages(pages))
    }

    fn len(&self) -> usize {
        match self {
            Self::Heap(heap) => heap.len(),
            Self::Pages(pages) => pages.len() / size_of::<CacheLine>(),
        }
    }

    /// The first number.
    fn as_ptr(&self) -> *const f32 {
        match self {
            Self::Heap(heap) => heap.as_ptr().cast(),
            // Pages begin at multiples of 4096 bytes.
            Self::Pages(pages) => pages.as_ptr().cast(),
        }
    }

    /// The first number.
    fn as_mut_ptr(&mut self) -> *mut f32 {
        match self {
            Self::Heap(heap) => heap.as_mut_ptr().cast(),
            Self::Pages(pages) => pages.as_mut_ptr().cast(),
        }
    }
}

/// The source of buffers, to which dropped ones return; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct MemoryPool(Arc<Mutex<PoolState>>);

#[derive(Debug)]
struct PoolState {
    /// Limit of held bytes, in use or kept.
    limit: u64,
    /// True if dropped memory is kept.
    keeps: bool,
    /// Bytes in use.
    live: u64,
    /// The most bytes that were in use at once.
    most: u64,
    /// Bytes kept for later.
    kept: u64,
    /// Kept lines, by number of lines.
    spare: BTreeMap<usize, Vec<Lines>>,
}

impl MemoryPool {
    /// Memory that holds at most `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        Self::with_policy(limit, true)
    }

    /// Memory with at most `limit` bytes in use, without recycling: for long-lived buffers.
    pub(crate) fn without_reuse(limit: u64) -> Self {
        Self::with_policy(limit, false)
    }

    fn with_policy(limit: u64, keeps: bool) -> Self {
        Self(Arc::new(Mutex::new(PoolState { limit, keeps, live: 0, most: 0, kept: 0, spare: BTreeMap::new() })))
    }

    fn lock_state(&self) -> MutexGuard<'_, PoolState> {
        // The state changes in steps that cannot panic, so it is right even behind a poisoned lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits held bytes to `limit` from now on; memory in use stays.
    pub(crate) fn set_limit(&self, limit: u64) {
        self.lock_state().limit = limit;
    }

    /// Bytes in use.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.lock_state().live
    }

    /// Room for `len` numbers, of any content.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub(crate) fn take(&self, len: usize) -> Result<AlignedBuffer, DeviceError> {
        let lines = size_class(len.div_ceil(LANES));
        let mut state = self.lock_state();
        let lines = match state.reuse_lines(lines) {
            Some(spare) => spare,
            None => state.allocate_lines(lines)?,
        };
        state.live += bytes_of(lines.len());
        state.most = state.most.max(state.live);
        drop(state);
        Ok(AlignedBuffer { lines, len, home: self.clone() })
    }
}

impl PoolState {
    fn reuse_lines(&mut self, lines: usize) -> Option<Lines> {
        let (&size, stack) = self.spare.range_mut(lines..=lines + lines / 2).next()?;
        let found = stack.pop().expect("no empty stack is kept; this is a bug");
        if stack.is_empty() {
            self.spare.remove(&size);
        }
        self.kept -= bytes_of(size);
        Some(found)
    }

    fn allocate_lines(&mut self, lines: usize) -> Result<Lines, DeviceError> {
        let wanted = bytes_of(lines);
        self.give_up(self.limit.saturating_sub(self.live + wanted));
        let available = self.limit.saturating_sub(self.live);
        let fresh = if wanted > available { None } else { Lines::allocate(lines) };
        fresh.ok_or_else(|| DeviceError::OutOfMemory { device: "cpu".into(), wanted, available })
    }

    /// Frees kept memory beyond `most` bytes, largest first.
    fn give_up(&mut self, most: u64) {
        while self.kept > most {
            let Some(mut largest) = self.spare.last_entry() else { return };
            let size = *largest.key();
            largest.get_mut().pop();
            if largest.get().is_empty() {
                largest.remove();
            }
            self.kept -= bytes_of(size);
        }
    }
}

/// Sizes are rounded up by at most an eighth, so that batches of nearly equal size share buffers.
fn size_class(lines: usize) -> usize {
    lines.next_multiple_of((lines.next_power_of_two() / 16).max(1))
}

fn bytes_of(lines: usize) -> u64 {
    (lines * size_of::<CacheLine>()) as u64
}

/// Numbers at a multiple of 64 bytes; returned to their memory when dropped.
#[derive(Debug)]
pub(crate) struct AlignedBuffer {
    lines: Lines,
    len: usize,
    home: MemoryPool,
}

impl AlignedBuffer {
    /// All numbers.
    pub(crate) fn as_slice(&self) -> &[f32] {
        // SAFETY: `CacheLine` is `repr(C)` and holds `LANES` numbers without padding; there are at least `len` of them,
        // and pages of the system are zeros until they are written.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr(), self.len) }
    }

    /// All numbers.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [f32] {
        // SAFETY: as above, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr(), self.len) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        let lines = std::mem::replace(&mut self.lines, Lines::Heap(Vec::new()));
        if lines.len() == 0 {
            return;
        }
        let mut state = self.home.lock_state();
        state.live -= bytes_of(lines.len());
        state.kept += bytes_of(lines.len());
        state.spare.entry(lines.len()).or_default().push(lines);
        let most = if state.keeps { state.most } else { 0 };
        state.give_up(most);
    }
}

/// Bytes of memory in the machine, if it reports them.
pub(crate) fn machine_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_come_back() {
        let memory = MemoryPool::new(u64::MAX);
        let first = memory.take(1000).unwrap();
        let place = first.as_slice().as_ptr();
        assert_eq!((place as usize % 64, first.as_slice().len()), (0, 1000));
        drop(first);
        assert_eq!(memory.live_bytes(), 0);
        assert_eq!(memory.take(990).unwrap().as_slice().as_ptr(), place);
        assert!(memory.take(0).unwrap().as_slice().is_empty());
    }

    #[test]
    fn large_buffers_are_pages_that_come_back() {
        let memory = MemoryPool::new(u64::MAX);
        let mut first = memory.take(1 << 20).unwrap();
        let place = first.as_slice().as_ptr();
        assert!(matches!(first.lines, Lines::Pages(_)));
        assert_eq!((place as usize % 64, first.as_slice().len(), memory.live_bytes()), (0, 1 << 20, 4 << 20));
        assert!(first.as_slice().iter().all(|number| *number == 0.0));
        first.as_mut_slice()[(1 << 20) - 1] = 1.0;
        drop(first);
        let again = memory.take((1 << 20) - 100).unwrap();
        assert_eq!((again.as_slice().as_ptr(), memory.live_bytes()), (place, 4 << 20));
    }

    #[test]
    fn a_limit_is_kept_and_what_is_spare_is_given_up_first() {
        let memory = MemoryPool::new(8192);
        drop(memory.take(1024).unwrap());
        let held = memory.take(2048).unwrap();
        let Err(DeviceError::OutOfMemory { wanted, available, .. }) = memory.take(100) else {
            panic!("beyond the limit")
        };
        assert_eq!((wanted, available), (448, 0));
        drop(held);
        assert!(memory.take(100).is_ok());
    }

    #[test]
    fn what_is_kept_is_bounded_by_what_was_in_use() {
        let memory = MemoryPool::new(u64::MAX);
        for len in [1 << 10, 1 << 12, 1 << 14, 1 << 16] {
            drop(memory.take(len).unwrap());
        }
        let state = memory.lock_state();
        assert!(state.kept <= state.most, "{} kept, {} in use at most", state.kept, state.most);
    }
}
