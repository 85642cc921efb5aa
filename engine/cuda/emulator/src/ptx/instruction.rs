//! Instructions of a kernel, decoded: registers are places in a file, and constants are registers that never change.

/// One number for each lane of a warp.
pub(super) type Lanes = [u64; 32];

/// The number of a register within a warp's file. A lane's value is in the lower bits, zeros are above it.
pub(super) type Register = usize;

/// A function of up to three operands, for all lanes.
pub(super) type LaneFunction = fn([&Lanes; 3]) -> Lanes;

/// Puts bits of the first number into the second.
pub(super) type InsertFunction = fn(u64, u64, u64, u64) -> u64;

/// A register with an address, and the distance from there in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) base: Register,
    pub(super) offset: i64,
}

/// The memory of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemorySpace {
    Global,
    Shared,
}

/// The source lane of a shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShuffleMode {
    /// The lane with this number.
    Index,
    /// The lane whose number differs in these bits.
    Butterfly,
}

/// A register that a launch fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpecialRegister {
    ThreadX,
    ThreadsX,
    BlockX,
    BlockY,
    BlocksX,
    BlocksY,
    /// The value of a parameter.
    Parameter(usize),
    /// The address of the launch's own part of shared memory.
    DynamicShared,
}

/// The work of an instruction.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Compute {
        to: Register,
        function: LaneFunction,
        from: [Register; 3],
    },
    /// `bfi`, which has four sources.
    Insert {
        to: Register,
        function: InsertFunction,
        from: [Register; 4],
    },
    /// A word of a lower and an upper half.
    Pack {
        to: Register,
        from: [Register; 2],
    },
    /// The lower and the upper half of a word.
    Unpack {
        to: [Register; 2],
        from: Register,
    },
    Load {
        space: MemorySpace,
        bytes: usize,
        to: Vec<Register>,
        address: Address,
    },
    Store {
        space: MemorySpace,
        bytes: usize,
        from: Vec<Register>,
        address: Address,
    },
    /// 16 bytes from global to shared memory, of which `read` are read and the others are zeros.
    CopyAsync {
        to: Address,
        from: Address,
        read: Register,
    },
    CommitCopies,
    WaitCopies {
        pending: u64,
    },
    Shuffle {
        mode: ShuffleMode,
        to: Register,
        within: Option<Register>,
        value: Register,
        by: Register,
        bounds: Register,
        lanes: Register,
    },
    VoteAny {
        to: Register,
        value: Register,
        lanes: Register,
    },
    MultiplyTiles {
        to: [Register; 4],
        left: [Register; 4],
        right: [Register; 2],
        add: [Register; 4],
    },
    LoadTiles {
        to: [Register; 4],
        address: Address,
        transposed: bool,
    },
    SyncWarp {
        lanes: Register,
    },
    SyncThreads,
    Branch {
        to: usize,
    },
    Return,
}

/// An instruction with its place in the text.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    pub(super) line: usize,
    pub(super) text: String,
    /// A predicate, and whether the instruction is executed where it is false.
    pub(super) guard: Option<(Register, bool)>,
    pub(super) operation: Operation,
}

/// A kernel, ready to run.
#[derive(Debug)]
pub(super) struct KernelCode {
    pub(super) name: String,
    /// Bytes of each parameter.
    pub(super) parameters: Vec<usize>,
    pub(super) most_threads: Option<u32>,
    /// All registers, with constants and special ones.
    pub(super) registers: usize,
    pub(super) constants: Vec<(Register, u64)>,
    pub(super) specials: Vec<(Register, SpecialRegister)>,
    /// Address and bytes of each shared array.
    pub(super) shared: Vec<(u64, usize)>,
    pub(super) instructions: Vec<Instruction>,
}
