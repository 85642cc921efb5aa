//! [`DriverBuffer`]: memory of a device, freed in the stream's order when it is dropped.

use super::context::DeviceContext;
use cudarc::driver::{result as driver, sys};
use hopeval_device::DeviceError;
use std::fmt;
use std::sync::Arc;

/// Memory of a device. Its address is a multiple of 256; one of 0 bytes has the address 0.
pub struct DriverBuffer {
    context: Arc<DeviceContext>,
    address: sys::CUdeviceptr,
    bytes: usize,
}

impl DriverBuffer {
    /// Memory of any content.
    pub(super) fn new(context: &Arc<DeviceContext>, bytes: usize) -> Result<Self, DeviceError> {
        context.make_current()?;
        let address = if bytes == 0 { 0 } else { context.allocate(bytes)? };
        assert_eq!(address % 256, 0, "the allocator's alignment; this is a bug");
        Ok(Self { context: Arc::clone(context), address, bytes })
    }

    /// Its address on the device.
    pub(super) fn address(&self) -> sys::CUdeviceptr {
        self.address
    }

    /// Its length.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads its first bytes after all earlier work.
    ///
    /// # Panics
    /// If `into` is longer than the buffer.
    pub(super) fn read(&self, into: &mut [u8]) -> Result<(), DeviceError> {
        assert!(into.len() <= self.bytes, "{} bytes of {}; this is a bug", into.len(), self.bytes);
        self.context.make_current()?;
        if into.is_empty() {
            return self.context.synchronize();
        }
        // SAFETY: the buffer has `into.len()` bytes, and `into` is borrowed until the copy is done: the next call waits
        // for it, even if the copy was refused.
        let copied = unsafe { driver::memcpy_dtoh_async(into, self.address, self.context.stream()) };
        let done = self.context.synchronize();
        self.context.check_result("cuMemcpyDtoHAsync", copied).and(done)
    }

    /// Sets all of its bytes, in the stream's order.
    pub(super) fn set_bytes(&self, value: u8) -> Result<(), DeviceError> {
        self.context.make_current()?;
        // SAFETY: the buffer has so many bytes, and the stream orders this among its uses.
        let set = unsafe { driver::memset_d8_async(self.address, value, self.bytes, self.context.stream()) };
        self.context.check_result("cuMemsetD8Async", set)
    }

    /// Fills it with `tile`, again and again, after all earlier work.
    ///
    /// # Panics
    /// If the tile is empty or longer than the buffer.
    pub(super) fn fill_repeatedly(&self, tile: &[u8]) -> Result<(), DeviceError> {
        assert!((1..=self.bytes).contains(&tile.len()), "{} bytes of {}; this is a bug", tile.len(), self.bytes);
        self.context.make_current()?;
        // SAFETY: the buffer is as long as the tile at least, which is borrowed until the copy is done: the next call
        // waits for it, even if the copy was refused.
        let sent = unsafe { driver::memcpy_htod_async(self.address, tile, self.context.stream()) };
        let done = self.context.synchronize();
        self.context.check_result("cuMemcpyHtoDAsync", sent).and(done)?;
        let mut filled = tile.len();
        while filled < self.bytes {
            let more = filled.min(self.bytes - filled);
            let to = self.address + filled as u64;
            // SAFETY: both parts lie in the buffer and do not overlap; the stream orders the copies.
            let copied = unsafe { driver::memcpy_dtod_async(to, self.address, more, self.context.stream()) };
            self.context.check_result("cuMemcpyDtoDAsync", copied)?;
            filled += more;
        }
        Ok(())
    }
}

impl Drop for DriverBuffer {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the context gave it in `new`, and all work on it borrowed it.
            unsafe { self.context.free(self.address) };
        }
    }
}

impl fmt::Debug for DriverBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes at {:#x} of {})", self.bytes, self.address, self.context.name())
    }
}
