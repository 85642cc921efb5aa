//! The source of an index: its passages.

/// A corpus as this crate sees it: passages numbered from 0 in corpus order.
///
/// # Contract
///
/// `title` and `text` are called with `id < len()` only, from several threads, and return the same text every time.
pub trait Passages: Sync {
    /// Number of passages.
    fn len(&self) -> u32;
    /// The passage's title; empty if it has none.
    fn title(&self, id: u32) -> &str;
    /// The passage's text, without the title.
    fn text(&self, id: u32) -> &str;
    /// Whether there are no passages.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Pairs of title and text.
impl<T: AsRef<str> + Sync> Passages for Vec<(T, T)> {
    fn len(&self) -> u32 {
        u32::try_from(self.as_slice().len()).unwrap_or(u32::MAX)
    }
    fn title(&self, id: u32) -> &str {
        self[id as usize].0.as_ref()
    }
    fn text(&self, id: u32) -> &str {
        self[id as usize].1.as_ref()
    }
}
