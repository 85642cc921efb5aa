//! What can go wrong on a device.

/// Why an operation gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Memory ran out: the caller may halve its batch and try again.
    #[error("out of memory on {device}: {wanted} bytes wanted, {available} available")]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes asked for.
        wanted: u64,
        /// Bytes that were left.
        available: u64,
    },
    /// The device is not there, or not usable.
    #[error("no device {name}: {reason}")]
    Unavailable {
        /// The device that was asked for.
        name: String,
        /// Why it cannot be used, and what to do.
        reason: String,
    },
    /// The device stopped working; nothing it holds can be trusted.
    #[error("device {device} was lost: {reason}")]
    Lost {
        /// The device.
        device: String,
        /// What it said.
        reason: String,
    },
    /// The device or its library cannot do this, and works all the same; asking again gives the same.
    #[error("device {device} cannot do this: {what}")]
    Unsupported {
        /// The device.
        device: String,
        /// What was asked, and what was said to it.
        what: String,
    },
    /// A weight has a shape or type that the operation cannot take.
    #[error("tensor {name}: {reason}")]
    Weight {
        /// The tensor, as its file names it.
        name: String,
        /// What was expected and what was found.
        reason: String,
    },
}
