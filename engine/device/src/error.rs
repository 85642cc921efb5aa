//! Errors of a device.

/// The cause of a failed operation.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Memory ran out: the caller may halve its batch and try again.
    #[error("out of memory on {device}: {wanted} bytes wanted, {available} available")]
    OutOfMemory {
        /// The device.
        device: String,
        /// Requested bytes.
        wanted: u64,
        /// Bytes left.
        available: u64,
    },
    /// The device is absent, or not usable.
    #[error("no device {name}: {reason}")]
    Unavailable {
        /// The requested device.
        name: String,
        /// The reason, and a remedy.
        reason: String,
    },
    /// The device stopped working; nothing in its memory can be trusted.
    #[error("device {device} was lost: {reason}")]
    Lost {
        /// The device.
        device: String,
        /// The device's own reason.
        reason: String,
    },
    /// The device or its library does not support the request, and still works; a second request gives the same error.
    #[error("device {device} cannot do this: {what}")]
    Unsupported {
        /// The device.
        device: String,
        /// The request, and the device's response.
        what: String,
    },
    /// A weight has a shape or type unfit for the operation.
    #[error("tensor {name}: {reason}")]
    Weight {
        /// The tensor, as its file names it.
        name: String,
        /// The expectation and the fact.
        reason: String,
    },
}
