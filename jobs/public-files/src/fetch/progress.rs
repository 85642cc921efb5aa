//! The progress of a fetch, for the program that shows it.

/// The state of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct FetchProgress<'a> {
    /// The file, as the list or the hub names it.
    pub file: &'a str,
    /// Whether it is compared with its digest now, after its transfer.
    pub compared: bool,
    /// Bytes so far.
    pub done: u64,
    /// Bytes of the whole file, if known.
    pub total: Option<u64>,
}

/// Takes the state of a fetch.
pub(super) type ProgressReport<'a> = &'a dyn Fn(FetchProgress<'_>);
