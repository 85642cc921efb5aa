//! [`PendingRead`]: numbers that are read later, so that a device has its next work meanwhile.

use crate::DeviceError;
use std::fmt;

/// A result on its way from a device. [`read`](Self::read) waits for it; a result that is dropped unread is lost.
#[must_use = "a result is lost unless it is read"]
pub struct PendingRead<T>(ReadState<T>);

/// Waits for a result.
type WaitingRead<T> = Box<dyn FnOnce() -> Result<T, DeviceError> + Send>;

enum ReadState<T> {
    Ready(T),
    Pending(WaitingRead<T>),
}

impl<T: Send + 'static> PendingRead<T> {
    /// A result that is there already.
    pub fn ready(result: T) -> Self {
        Self(ReadState::Ready(result))
    }

    /// A result that `read` waits for.
    pub fn pending(read: impl FnOnce() -> Result<T, DeviceError> + Send + 'static) -> Self {
        Self(ReadState::Pending(Box::new(read)))
    }

    /// True if reading waits for nothing.
    pub fn is_ready(&self) -> bool {
        matches!(self.0, ReadState::Ready(_))
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] if the work before it failed.
    pub fn read(self) -> Result<T, DeviceError> {
        match self.0 {
            ReadState::Ready(result) => Ok(result),
            ReadState::Pending(read) => read(),
        }
    }

    /// The result of `change`, which is called at once if this is ready.
    pub fn map<U: Send + 'static>(self, change: impl FnOnce(T) -> U + Send + 'static) -> PendingRead<U> {
        match self.0 {
            ReadState::Ready(result) => PendingRead::ready(change(result)),
            ReadState::Pending(read) => PendingRead::pending(move || Ok(change(read()?))),
        }
    }

    /// This and another one, ready if both are.
    pub fn zip<U: Send + 'static>(self, other: PendingRead<U>) -> PendingRead<(T, U)> {
        match (self.0, other.0) {
            (ReadState::Ready(first), ReadState::Ready(second)) => PendingRead::ready((first, second)),
            (first, second) => PendingRead::pending(move || Ok((Self(first).read()?, PendingRead(second).read()?))),
        }
    }

    /// All of several, in their order; ready if all are.
    pub fn all(several: impl IntoIterator<Item = Self>) -> PendingRead<Vec<T>> {
        let several = several.into_iter().collect::<Vec<_>>();
        let waits = several.iter().any(|one| !one.is_ready());
        let read_all = move || several.into_iter().map(Self::read).collect();
        if waits {
            return PendingRead::pending(read_all);
        }
        PendingRead::ready(read_all().expect("what is ready does not fail; this is a bug"))
    }

    /// The result if there is one.
    pub fn optional(one: Option<Self>) -> PendingRead<Option<T>> {
        one.map_or_else(|| PendingRead::ready(None), |one| one.map(Some))
    }
}

impl<T> fmt::Debug for PendingRead<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            ReadState::Ready(_) => "PendingRead(ready)",
            ReadState::Pending(_) => "PendingRead(pending)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_ready_only_if_all_its_parts_are() {
        let (ready, pending) = (|| PendingRead::ready(1), || PendingRead::pending(|| Ok(2)));
        assert!(ready().zip(ready()).is_ready() && !ready().zip(pending()).is_ready());
        assert!(PendingRead::all([ready(), ready()]).is_ready() && !PendingRead::all([ready(), pending()]).is_ready());
        assert!(PendingRead::<u8>::optional(None).is_ready() && !PendingRead::optional(Some(pending())).is_ready());
        assert!(!pending().map(|n| n + 1).is_ready());
        assert_eq!(PendingRead::all([pending(), ready(), pending()]).read().unwrap(), [2, 1, 2]);
        let both = pending().map(|n| n + 1).zip(PendingRead::optional(Some(ready())));
        assert_eq!(both.read().unwrap(), (3, Some(1)));
    }

    #[test]
    fn a_failure_reaches_the_reader() {
        let lost = || DeviceError::Lost { device: "cuda:0".into(), reason: "gone".into() };
        let failing = move || PendingRead::<u8>::pending(move || Err(lost()));
        let both = PendingRead::ready(1).zip(failing()).map(|(_, second)| second);
        for read in [failing().map(|n| n + 1), both, PendingRead::all([PendingRead::ready(1), failing()]).map(|_| 0)] {
            assert!(matches!(read.read(), Err(DeviceError::Lost { reason, .. }) if reason == "gone"));
        }
    }
}
