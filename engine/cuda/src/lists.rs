//! Lists of indices in the device's memory: each is sent once, although every layer of a forward pass asks for it.

use crate::runtime::Runtime;
use hopeval_device::DeviceError;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of lists in memory: the current batch's, and a few more.
const KEPT: usize = 8;

/// The last few lists, the most recent first. They are compared by content, so nothing can be stale.
#[derive(Debug)]
pub(crate) struct ListCache<B>(Mutex<VecDeque<(Vec<u32>, Arc<B>)>>);

impl<B> Default for ListCache<B> {
    fn default() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }
}

impl<B> ListCache<B> {
    /// The list on the device.
    pub(crate) fn get<R: Runtime<Buffer = B>>(&self, runtime: &R, list: &[u32]) -> Result<Arc<B>, DeviceError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|(content, _)| content == list) {
            let found = kept.remove(at).expect("a position that was just found; this is a bug");
            let buffer = found.1.clone();
            kept.push_front(found);
            return Ok(buffer);
        }
        let bytes = list.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let buffer = Arc::new(runtime.upload(&bytes)?);
        kept.truncate(KEPT - 1);
        kept.push_front((list.to_vec(), buffer.clone()));
        Ok(buffer)
    }
}
