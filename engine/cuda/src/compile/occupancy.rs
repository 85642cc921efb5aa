//! The theoretical occupancy of a multiprocessor: how many blocks of a launch fit on it at once.
//!
//! Limits of an architecture are those of the CUDA programming guide, appendix "Compute Capabilities", table of
//! technical specifications. Units of allocation are those that the toolkit's occupancy calculator computes with.

use crate::machine::GpuArchitecture;

const WARP: u32 = 32;
/// Registers are given to a warp in units of so many.
const REGISTER_UNIT: u32 = 256;
/// A multiprocessor has so many parts, each with warps and registers of its own.
const PARTS: u32 = 4;
/// Shared memory is given to a block in units of so many bytes.
const SHARED_UNIT: usize = 128;
/// Bytes of shared memory of a block that the system keeps.
const SYSTEM_SHARED: usize = 1024;

/// The most that one multiprocessor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiprocessorLimits {
    /// Warps.
    pub warps: u32,
    /// Blocks.
    pub blocks: u32,
    /// Registers of 32 bits.
    pub registers: u32,
    /// Bytes of shared memory.
    pub shared: usize,
}

/// The resources of each block of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockResources {
    /// Threads.
    pub threads: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of static and dynamic shared memory.
    pub shared: usize,
}

/// The blocks that run at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TheoreticalOccupancy {
    /// Blocks of a multiprocessor.
    pub blocks: u32,
    /// Their warps, in percent of the most that it holds.
    pub percent: f64,
    /// The scarcest resource: `warps`, `blocks`, `registers` or `shared memory`, the first of those that bind alike.
    pub bound: &'static str,
}

impl MultiprocessorLimits {
    /// The limits of an architecture; none for one that is not in the table.
    pub fn of(architecture: GpuArchitecture) -> Option<Self> {
        let limits = |shared: usize| Self { warps: 64, blocks: 32, registers: 65_536, shared: shared * 1024 };
        match (architecture.major, architecture.minor) {
            (8, 0) => Some(limits(164)),
            (9, 0) | (10, 0) => Some(limits(228)),
            _ => None,
        }
    }

    /// How many of these blocks run at once.
    pub fn occupancy(&self, block: BlockResources) -> TheoreticalOccupancy {
        let warps = block.threads.div_ceil(WARP).max(1);
        let registers = (block.registers * WARP).next_multiple_of(REGISTER_UNIT).max(REGISTER_UNIT);
        let by_registers = self.registers / PARTS / registers * PARTS / warps;
        let shared = (block.shared + SYSTEM_SHARED).next_multiple_of(SHARED_UNIT);
        let by_shared = u32::try_from(self.shared / shared).unwrap_or(u32::MAX);
        let bounds = [
            (self.warps / warps, "warps"),
            (self.blocks, "blocks"),
            (by_registers, "registers"),
            (by_shared, "shared memory"),
        ];
        let (mut blocks, mut bound) = bounds[0];
        for (fit, name) in bounds {
            if fit < blocks {
                (blocks, bound) = (fit, name);
            }
        }
        let percent = f64::from(100 * blocks * warps) / f64::from(self.warps);
        TheoreticalOccupancy { blocks, percent, bound }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occupancy(major: i32, threads: u32, registers: u32, shared: usize) -> (u32, f64, &'static str) {
        let limits = MultiprocessorLimits::of(GpuArchitecture::new(major, 0)).unwrap();
        let found = limits.occupancy(BlockResources { threads, registers, shared });
        (found.blocks, found.percent, found.bound)
    }

    #[test]
    fn the_scarcest_resource_sets_the_blocks() {
        assert_eq!(occupancy(9, 256, 32, 0), (8, 100.0, "warps"));
        assert_eq!(occupancy(9, 32, 16, 0), (32, 50.0, "blocks"));
        // 126 registers are 4,096 for a warp, so four warps fit on each of the four parts.
        assert_eq!(occupancy(9, 128, 126, 19_456), (4, 25.0, "registers"));
        // 129 registers are 4,352, and three fit: what is over on the parts does not make a block.
        assert_eq!(occupancy(9, 128, 129, 19_456), (3, 18.75, "registers"));
        // With the system's 1 KiB two blocks of 81 KiB are more than 164 KiB has room for; 228 KiB take two.
        assert_eq!(occupancy(8, 128, 64, 83 * 1024), (1, 6.25, "shared memory"));
        assert_eq!(occupancy(10, 128, 64, 83 * 1024), (2, 12.5, "shared memory"));
    }

    #[test]
    fn other_architectures_are_not_guessed() {
        assert_eq!(MultiprocessorLimits::of(GpuArchitecture::new(8, 9)), None);
    }
}
