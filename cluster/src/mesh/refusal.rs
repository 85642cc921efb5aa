//! Reasons for refusing a process.

/// Why a process was refused. Both sides learn it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeshRefusal {
    /// The two binaries speak different versions of the handshake.
    #[error("the binaries differ: the handshake here is version {ours}, theirs {theirs}")]
    Version {
        /// Version of the refusing process.
        ours: u32,
        /// Version of the refused process.
        theirs: u32,
    },
    /// The token is not the run's.
    #[error("the token is that of another run")]
    Token,
    /// The processes have different numbers of processes in their settings.
    #[error("the number of processes differs: {ours} here, {theirs} there")]
    Processes {
        /// Processes in the settings of the refusing process.
        ours: u32,
        /// Processes in the settings of the refused process.
        theirs: u32,
    },
    /// The processes have different numbers of workers in their settings; timely requires the same in each.
    #[error("the number of workers differs: {ours} here, {theirs} there")]
    Workers {
        /// Workers of the refusing process.
        ours: u32,
        /// Workers of the refused process.
        theirs: u32,
    },
    /// The refusing process does not wait for this process index.
    #[error("there is no place for process {process} among {processes}")]
    OutOfRange {
        /// The refused index.
        process: u32,
        /// Number of processes.
        processes: u32,
    },
    /// Another live process holds this index.
    #[error("process {process} is already there")]
    Taken {
        /// The refused index.
        process: u32,
    },
    /// The connector wanted another process: the address lists disagree, or two entries are the same machine.
    #[error("this address is process {ours}, not {wanted}: compare the lists of hosts")]
    Misaddressed {
        /// Index of the refusing process.
        ours: u32,
        /// Index the refused process wanted.
        wanted: u32,
    },
    /// The connector belongs to another generation of the mesh.
    #[error("it belongs to another generation of the mesh")]
    Generation,
}

impl MeshRefusal {
    /// A code, not 0, and two numbers.
    pub(super) fn encode(&self) -> (u8, u32, u32) {
        match *self {
            Self::Version { ours, theirs } => (1, ours, theirs),
            Self::Token => (2, 0, 0),
            Self::Processes { ours, theirs } => (3, ours, theirs),
            Self::Workers { ours, theirs } => (4, ours, theirs),
            Self::OutOfRange { process, processes } => (5, process, processes),
            Self::Taken { process } => (6, process, 0),
            Self::Misaddressed { ours, wanted } => (7, ours, wanted),
            Self::Generation => (8, 0, 0),
        }
    }

    /// `None` for a code of another version.
    pub(super) fn decode(code: u8, a: u32, b: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Version { ours: a, theirs: b },
            2 => Self::Token,
            3 => Self::Processes { ours: a, theirs: b },
            4 => Self::Workers { ours: a, theirs: b },
            5 => Self::OutOfRange { process: a, processes: b },
            6 => Self::Taken { process: a },
            7 => Self::Misaddressed { ours: a, wanted: b },
            8 => Self::Generation,
            _ => return None,
        })
    }
}
