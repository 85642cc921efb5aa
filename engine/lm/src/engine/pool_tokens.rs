//! [`PoolTokens`]: the size of what an engine keeps between batches, by the device's free memory.

use crate::ModelSizes;
use hopeval_device::DeviceError;

/// The part of a device's free memory that one pool may take: several engines may share the device, each with two
/// pools, and batches need room.
const SHARE: u64 = 8;

/// Tokens of a pool, between two bounds: as many as a share of the memory holds that is free when the pool is first
/// needed. No result depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolTokens {
    /// Requests are checked against this one, so that no outcome depends on the device's memory.
    pub least: usize,
    /// At least `least`.
    pub most: usize,
}

impl PoolTokens {
    /// So many tokens, whatever the memory.
    pub const fn exactly(tokens: usize) -> Self {
        Self { least: tokens, most: tokens }
    }

    /// As many tokens as fit a share of the free memory, if `each` takes so many of the `free` numbers. Without a known
    /// memory, the least.
    #[must_use]
    pub(crate) fn within(self, free: Option<u64>, each: usize) -> Self {
        let fitting = free.map_or(0, |free| usize::try_from(free / SHARE / each.max(1) as u64).unwrap_or(usize::MAX));
        Self { most: fitting.clamp(self.least, self.most), ..self }
    }

    /// Reserves the pool, the least if there is no memory for more.
    pub(crate) fn reserve<T>(self, reserve: impl Fn(usize) -> Result<T, DeviceError>) -> Result<T, DeviceError> {
        match reserve(self.most) {
            Err(DeviceError::OutOfMemory { .. }) if self.most > self.least => reserve(self.least),
            reserved => reserved,
        }
    }
}

/// Numbers of a token's keys and values in all layers; an encoder-decoder has as many again for its prompts.
pub(crate) fn cache_numbers(sizes: &ModelSizes, has_encoder: bool) -> usize {
    sizes.layers * 2 * sizes.kv_width * if has_encoder { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_pool_has_a_share_of_the_free_memory_between_its_bounds() {
        let pool = PoolTokens { least: 100, most: 1000 };
        let most = |free, each| pool.within(free, each).most;
        assert_eq!([most(None, 4), most(Some(0), 4), most(Some(8 * 4 * 99), 4)], [100; 3]);
        assert_eq!([most(Some(8 * 4 * 640), 4), most(Some(u64::MAX), 4), most(Some(8 * 200), 0)], [640, 1000, 200]);
        assert_eq!(PoolTokens::exactly(7).within(Some(u64::MAX), 1), PoolTokens::exactly(7));
    }

    #[test]
    fn a_pool_that_finds_no_memory_is_the_least() {
        let asked = RefCell::new(Vec::new());
        let reserve = |most_there: usize| {
            asked.borrow_mut().clear();
            PoolTokens { least: 10, most: 50 }.reserve(|tokens| {
                asked.borrow_mut().push(tokens);
                let lacking = DeviceError::OutOfMemory { device: "cuda:0".into(), wanted: 1, available: 0 };
                if tokens <= most_there { Ok(tokens) } else { Err(lacking) }
            })
        };
        assert_eq!(reserve(50).unwrap(), 50);
        assert_eq!(reserve(20).unwrap(), 10);
        assert!(reserve(5).is_err());
        assert_eq!(*asked.borrow(), [50, 10]);
    }
}
