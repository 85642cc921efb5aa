//! The heartbeat messages: 16 bytes each, little-endian. `mesh::hello::VERSION` counts their changes.

use std::time::Duration;

/// Length of a frame in bytes.
pub(super) const LENGTH: usize = 16;

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeartbeatFrame {
    /// A sign of life.
    Beat { beats: u64, draining: bool, quiet: bool, drained: bool },
    /// From process 0: some process drains; do so too.
    Drain,
    /// From process 0: all are quiet; make everything durable.
    Flush,
    /// From process 0: all have drained.
    Stop,
    /// From process 0: a process was lost.
    Lost { process: u32 },
    /// From process 0: a process stalled.
    Stalled { process: u32, since: Duration },
    /// The sender is done; its socket will close.
    Bye,
}

impl HeartbeatFrame {
    pub(super) fn encode(self) -> [u8; LENGTH] {
        let (tag, flags, process, value) = match self {
            Self::Beat { beats, draining, quiet, drained } => {
                // The third is free.
                let flags = [draining, drained, false, quiet];
                (1, flags.iter().enumerate().map(|(bit, &flag)| u8::from(flag) << bit).sum(), 0, beats)
            }
            Self::Drain => (2, 0, 0, 0),
            Self::Stop => (3, 0, 0, 0),
            Self::Lost { process } => (4, 0, process, 0),
            Self::Stalled { process, since } => (5, 0, process, u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
            Self::Bye => (6, 0, 0, 0),
            Self::Flush => (7, 0, 0, 0),
        };
        let mut out = [0u8; LENGTH];
        out[0] = tag;
        out[1] = flags;
        out[4..8].copy_from_slice(&u32::to_le_bytes(process));
        out[8..].copy_from_slice(&u64::to_le_bytes(value));
        out
    }

    /// `None` for bytes of another form.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let process = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
        let value = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
        Some(match bytes[0] {
            1 => Self::Beat {
                beats: value,
                draining: bytes[1] & 1 != 0,
                drained: bytes[1] & 2 != 0,
                quiet: bytes[1] & 8 != 0,
            },
            2 => Self::Drain,
            3 => Self::Stop,
            4 => Self::Lost { process },
            5 => Self::Stalled { process, since: Duration::from_millis(value) },
            6 => Self::Bye,
            7 => Self::Flush,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive() {
        for frame in [
            HeartbeatFrame::Beat { beats: u64::MAX - 3, draining: true, quiet: true, drained: false },
            HeartbeatFrame::Beat { beats: 1, draining: false, quiet: false, drained: true },
            HeartbeatFrame::Drain,
            HeartbeatFrame::Flush,
            HeartbeatFrame::Stop,
            HeartbeatFrame::Lost { process: 7 },
            HeartbeatFrame::Stalled { process: 3, since: Duration::from_millis(2500) },
            HeartbeatFrame::Bye,
        ] {
            assert_eq!(HeartbeatFrame::decode(&frame.encode()), Some(frame));
        }
        assert_eq!(HeartbeatFrame::decode(&[0; LENGTH]), None);
    }
}
