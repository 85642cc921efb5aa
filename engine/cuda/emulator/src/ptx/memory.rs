//! Memory in blocks: an access lies within one of them, at a multiple of its size, or it is a fault.

/// The first address of shared memory; zero is no address.
pub(super) const SHARED_BEGIN: u64 = 1 << 10;

/// The distance from the end of a shared array to the next one, so that no index leads from one to another.
pub(super) const SHARED_GAP: u64 = 1 << 12;

/// The generic address of shared memory's address 0, above all global addresses.
pub(super) const SHARED_WINDOW: u64 = 1 << 48;

/// The distance between global blocks' addresses, above the size of any.
const GLOBAL_STEP: u64 = 1 << 36;

/// Bytes that lie together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBlock {
    /// The first byte's address.
    pub address: u64,
    /// The content.
    pub bytes: Vec<u8>,
}

/// The memory that a kernel may touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryBlocks {
    /// In the order of their addresses.
    pub blocks: Vec<MemoryBlock>,
}

/// A wrong access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessFault {
    /// Part of it lies outside.
    #[error("{bytes} bytes at {address:#x} are in no buffer or array")]
    Outside {
        /// The first byte's address.
        address: u64,
        /// Its size.
        bytes: usize,
    },
    /// The address is no multiple of the size.
    #[error("{address:#x} is no multiple of {bytes} bytes")]
    Misaligned {
        /// The first byte's address.
        address: u64,
        /// The size of the access.
        bytes: usize,
    },
}

impl MemoryBlocks {
    /// Global memory with this content; the address of each block is a multiple of 256.
    pub fn of_buffers(buffers: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let block = |(at, bytes)| MemoryBlock { address: GLOBAL_STEP * (at as u64 + 1), bytes };
        Self { blocks: buffers.into_iter().enumerate().map(block).collect() }
    }

    /// The block and the offset of an access.
    fn locate(&self, address: u64, bytes: usize) -> Result<(usize, usize), AccessFault> {
        if !address.is_multiple_of(bytes.max(1) as u64) {
            return Err(AccessFault::Misaligned { address, bytes });
        }
        let before = self.blocks.partition_point(|block| block.address <= address);
        let found = before.checked_sub(1).and_then(|at| {
            let block = &self.blocks[at];
            let offset = usize::try_from(address - block.address).ok()?;
            (offset.checked_add(bytes)? <= block.bytes.len()).then_some((at, offset))
        });
        found.ok_or(AccessFault::Outside { address, bytes })
    }

    pub(super) fn read(&self, address: u64, bytes: usize) -> Result<&[u8], AccessFault> {
        let (block, offset) = self.locate(address, bytes)?;
        Ok(&self.blocks[block].bytes[offset..offset + bytes])
    }

    pub(super) fn write(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], AccessFault> {
        let (block, offset) = self.locate(address, bytes)?;
        Ok(&mut self.blocks[block].bytes[offset..offset + bytes])
    }
}

/// The number of up to eight bytes.
pub(super) fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_lies_within_one_block_at_a_multiple_of_its_size() {
        let mut memory = MemoryBlocks::of_buffers([vec![0; 20], vec![7; 4]]);
        let [first, second] = [memory.blocks[0].address, memory.blocks[1].address];
        memory.write(first + 16, 4).unwrap().copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!(number_of(memory.read(first + 16, 4).unwrap()), 0x0403_0201);
        assert_eq!(number_of(memory.read(second, 2).unwrap()), 0x0707);
        let outside = |address, bytes| Err(AccessFault::Outside { address, bytes });
        assert_eq!(memory.read(first + 16, 8).map(<[u8]>::len), outside(first + 16, 8));
        assert_eq!(memory.read(first - 4, 4).map(<[u8]>::len), outside(first - 4, 4));
        assert_eq!(memory.read(second + 4, 4).map(<[u8]>::len), outside(second + 4, 4));
        let misaligned = Err(AccessFault::Misaligned { address: first + 2, bytes: 4 });
        assert_eq!(memory.read(first + 2, 4).map(<[u8]>::len), misaligned);
    }
}
