//! Runs the blocks of a grid, one after the other; a block's warps run one after the other from barrier to barrier.

use super::instruction::{
    Address, Instruction, KernelCode, Lanes, MemorySpace, Operation, Register, ShuffleMode, SpecialRegister,
};
use super::memory::{AccessFault, MemoryBlock, MemoryBlocks, SHARED_BEGIN, SHARED_GAP, number_of};
use super::tiles::{multiply_tiles, spread_tiles};
use std::array;

/// Lanes of a warp.
const WARP: usize = 32;

/// A mask with every lane.
const EVERY_LANE: u32 = u32::MAX;

/// Instructions of a warp between two barriers, after which it is taken to run for ever.
const MOST_STEPS: u64 = 1 << 28;

/// The size of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockGrid {
    /// Blocks in x and y.
    pub blocks: (u32, u32),
    /// Threads of a block, a multiple of 32.
    pub threads: u32,
    /// Bytes of the shared memory whose size a launch says.
    pub shared: u32,
}

/// A launch that did not come to its end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PtxFault {
    /// The PTX has no kernel of this name.
    #[error("the PTX has no kernel {kernel}")]
    UnknownKernel {
        /// The name.
        kernel: String,
    },
    /// A size or a number of arguments that the kernel does not take.
    #[error("kernel {kernel}: {arguments} arguments and {threads} threads; it takes {parameters} and {allowed}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// Arguments of the launch.
        arguments: usize,
        /// Threads of a block.
        threads: u32,
        /// Parameters of the kernel.
        parameters: usize,
        /// The allowed threads, in words.
        allowed: String,
    },
    /// A fault of the kernel.
    #[error("kernel {kernel}, block {block:?}, PTX line {line}: `{statement}`: {fault}")]
    Kernel {
        /// The kernel.
        kernel: String,
        /// x and y.
        block: (u32, u32),
        /// From 1; where lanes wait for each other, that of the first.
        line: usize,
        /// The instruction.
        statement: String,
        /// The fault.
        fault: KernelFault,
    },
}

/// The fault of an instruction.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelFault {
    /// An access of a thread.
    #[error("thread {thread}: {fault}")]
    Access {
        /// Its number in the block.
        thread: usize,
        /// The cause.
        #[source]
        fault: AccessFault,
    },
    /// Lanes that wait for lanes that never come.
    #[error("only the lanes {here:#010x} of the warp of thread {thread} come here; others: {others}")]
    Apart {
        /// The warp's first thread.
        thread: usize,
        /// A bit for each lane.
        here: u32,
        /// Lines and lanes, or the end.
        others: String,
    },
    /// A warp that waits for warps that never come.
    #[error("the warp of thread {thread} comes here, but not the warp of thread {other}")]
    WarpsApart {
        /// The first thread of the warp that is here.
        thread: usize,
        /// The first thread of the other one.
        other: usize,
    },
    /// Some lanes are left out, which no kernel does.
    #[error("thread {thread}: the mask {mask:#010x} is not all lanes")]
    Mask {
        /// Its number in the block.
        thread: usize,
        /// The mask.
        mask: u64,
    },
    /// A copy of more bytes than 16.
    #[error("thread {thread}: an asynchronous copy reads {bytes} of 16 bytes")]
    CopySize {
        /// Its number in the block.
        thread: usize,
        /// The number of bytes.
        bytes: u64,
    },
    /// The end of the code without a return.
    #[error("there is no instruction behind it")]
    NoReturn,
    /// It runs for ever.
    #[error("2^28 instructions without a barrier")]
    Endless,
}

/// A fault, and the instruction where it happened.
type Stopped = (usize, KernelFault);

/// Runs a whole grid.
pub(super) fn run_grid(
    code: &KernelCode,
    grid: &BlockGrid,
    arguments: &[u64],
    memory: &mut MemoryBlocks,
) -> Result<(), PtxFault> {
    let most = code.most_threads.unwrap_or(1024);
    let suits = grid.threads > 0 && grid.threads.is_multiple_of(WARP as u32) && grid.threads <= most;
    if !suits || arguments.len() != code.parameters.len() {
        return Err(PtxFault::Launch {
            kernel: code.name.clone(),
            arguments: arguments.len(),
            threads: grid.threads,
            parameters: code.parameters.len(),
            allowed: format!("a multiple of 32 of at most {most}"),
        });
    }
    let mut warps: Vec<Warp<'_>> = (0..grid.threads as usize / WARP).map(|warp| Warp::new(code, warp * WARP)).collect();
    for y in 0..grid.blocks.1 {
        for x in 0..grid.blocks.0 {
            run_block(&mut warps, code, (x, y), grid, arguments, memory).map_err(|(at, fault)| {
                let Instruction { line, text, .. } = &code.instructions[at.min(code.instructions.len() - 1)];
                let (kernel, statement) = (code.name.clone(), text.clone());
                PtxFault::Kernel { kernel, block: (x, y), line: *line, statement, fault }
            })?;
        }
    }
    Ok(())
}

/// The shared arrays of a block, filled with ones, and the address of the launch's own part.
fn shared_arrays(code: &KernelCode, dynamic: u32) -> (MemoryBlocks, u64) {
    let array = |(address, bytes): (u64, usize)| MemoryBlock { address, bytes: vec![0xff; bytes] };
    let mut blocks: Vec<MemoryBlock> = code.shared.iter().copied().map(array).collect();
    let last = blocks.last().map_or(SHARED_BEGIN, |block| block.address + block.bytes.len() as u64);
    let address = last.next_multiple_of(SHARED_GAP) + SHARED_GAP;
    blocks.push(array((address, dynamic as usize)));
    (MemoryBlocks { blocks }, address)
}

fn run_block(
    warps: &mut [Warp<'_>],
    code: &KernelCode,
    block: (u32, u32),
    grid: &BlockGrid,
    arguments: &[u64],
    global: &mut MemoryBlocks,
) -> Result<(), Stopped> {
    let (mut shared, dynamic) = shared_arrays(code, grid.shared);
    for warp in warps.iter_mut() {
        let first = warp.first_thread;
        warp.restart(|special, lane| match special {
            SpecialRegister::ThreadX => (first + lane) as u64,
            SpecialRegister::ThreadsX => u64::from(grid.threads),
            SpecialRegister::BlockX => u64::from(block.0),
            SpecialRegister::BlockY => u64::from(block.1),
            SpecialRegister::BlocksX => u64::from(grid.blocks.0),
            SpecialRegister::BlocksY => u64::from(grid.blocks.1),
            SpecialRegister::Parameter(at) => arguments[at],
            SpecialRegister::DynamicShared => dynamic,
        });
    }
    loop {
        let mut first = None;
        for warp in warps.iter_mut() {
            let stop = warp.run(global, &mut shared)?;
            let (other, expected) = *first.get_or_insert((warp.first_thread, stop));
            if expected != stop {
                let at = stop.or(expected).unwrap_or_default();
                let (thread, other) =
                    if stop.is_some() { (warp.first_thread, other) } else { (other, warp.first_thread) };
                return Err((at, KernelFault::WarpsApart { thread, other }));
            }
        }
        if let Some((_, None)) | None = first {
            return Ok(());
        }
    }
}

/// A copy to shared memory that nobody has waited for.
struct PendingCopy {
    lane: usize,
    group: u64,
    to: u64,
    bytes: [u8; 16],
}

/// The state of a warp.
struct Warp<'a> {
    code: &'a KernelCode,
    first_thread: usize,
    registers: Vec<Lanes>,
    /// The next instruction of each lane.
    places: [usize; WARP],
    /// Lanes that have not come to their end.
    alive: u32,
    /// Lanes that wait at their place for the others.
    waiting: u32,
    copies: Vec<PendingCopy>,
    /// The number of groups that each lane has ended.
    groups: [u64; WARP],
}

/// The lanes of a mask.
fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    (0..WARP).filter(move |lane| mask >> lane & 1 == 1)
}

impl<'a> Warp<'a> {
    fn new(code: &'a KernelCode, first_thread: usize) -> Self {
        Self {
            code,
            first_thread,
            registers: vec![[0; WARP]; code.registers],
            places: [0; WARP],
            alive: 0,
            waiting: 0,
            copies: Vec::new(),
            groups: [0; WARP],
        }
    }

    /// Prepares for a block.
    fn restart(&mut self, special: impl Fn(SpecialRegister, usize) -> u64) {
        self.registers.fill([u64::MAX; WARP]);
        for (register, value) in &self.code.constants {
            self.registers[*register] = [*value; WARP];
        }
        for (register, which) in &self.code.specials {
            self.registers[*register] = array::from_fn(|lane| special(*which, lane));
        }
        self.places = [0; WARP];
        (self.alive, self.waiting) = (EVERY_LANE, 0);
        self.copies.clear();
        self.groups = [0; WARP];
    }

    /// Runs to a barrier of the block, and returns its place, or to the end of all lanes.
    fn run(&mut self, global: &mut MemoryBlocks, shared: &mut MemoryBlocks) -> Result<Option<usize>, Stopped> {
        let mut steps = 0;
        while let Some((mut at, mut group)) = self.lowest_lanes()? {
            // The group goes on by itself until it meets others, or goes apart.
            let meets = lanes_of(self.alive & !group).map(|lane| self.places[lane]).filter(|place| *place > at).min();
            let meets = meets.unwrap_or(usize::MAX);
            loop {
                steps += 1;
                if steps > MOST_STEPS {
                    return Err((at, KernelFault::Endless));
                }
                let Some(instruction) = self.code.instructions.get(at) else {
                    return Err((at - 1, KernelFault::NoReturn));
                };
                let active = group & self.guarded(instruction);
                match &instruction.operation {
                    Operation::Branch { to } => {
                        lanes_of(group & !active).for_each(|lane| self.places[lane] = at + 1);
                        lanes_of(active).for_each(|lane| self.places[lane] = *to);
                        if group != active || *to >= meets || *to <= at {
                            break;
                        }
                        at = *to;
                        continue;
                    }
                    Operation::Return => {
                        self.alive &= !active;
                        group &= !active;
                        if group == 0 {
                            break;
                        }
                    }
                    operation if waits_for_all(operation) => {
                        if active != EVERY_LANE {
                            self.waiting |= active;
                            lanes_of(active).for_each(|lane| self.places[lane] = at);
                            lanes_of(group & !active).for_each(|lane| self.places[lane] = at + 1);
                            break;
                        }
                        self.waiting = 0;
                        if matches!(operation, Operation::SyncThreads) {
                            self.places = [at + 1; WARP];
                            return Ok(Some(at));
                        }
                        self.execute_together(operation, shared).map_err(|fault| (at, fault))?;
                    }
                    operation => {
                        self.execute_alone(operation, active, global, shared).map_err(|fault| (at, fault))?;
                    }
                }
                at += 1;
                if at >= meets {
                    lanes_of(group).for_each(|lane| self.places[lane] = at);
                    break;
                }
            }
        }
        Ok(None)
    }

    /// The lanes at the lowest place of those that do not wait, with those that wait at the same place; `None` if all
    /// have come to their end.
    fn lowest_lanes(&self) -> Result<Option<(usize, u32)>, Stopped> {
        let running = self.alive & !self.waiting;
        let at = lanes_of(if running == 0 { self.waiting } else { running }).map(|lane| self.places[lane]).min();
        let Some(at) = at else { return Ok(None) };
        let here = lanes_of(self.alive).filter(|lane| self.places[*lane] == at).fold(0, |mask, lane| mask | 1 << lane);
        if running != 0 || here == EVERY_LANE {
            return Ok(Some((at, here)));
        }
        let mut others: Vec<String> = lanes_of(self.alive & !here)
            .map(|lane| format!("lane {lane} at line {}", self.code.instructions[self.places[lane]].line))
            .collect();
        others.extend(lanes_of(!self.alive).map(|lane| format!("lane {lane} at its end")));
        let others = others.join(", ");
        Err((at, KernelFault::Apart { thread: self.first_thread, here, others }))
    }

    /// The lanes whose guard lets them execute an instruction.
    fn guarded(&self, instruction: &Instruction) -> u32 {
        let Some((register, inverted)) = instruction.guard else { return EVERY_LANE };
        let lanes = &self.registers[register];
        lanes_of(EVERY_LANE).filter(|lane| (lanes[*lane] != 0) != inverted).fold(0, |mask, lane| mask | 1 << lane)
    }

    fn put(&mut self, to: Register, lanes: u32, values: &Lanes) {
        if lanes == EVERY_LANE {
            self.registers[to] = *values;
        } else {
            lanes_of(lanes).for_each(|lane| self.registers[to][lane] = values[lane]);
        }
    }

    fn address_of(&self, address: Address, lane: usize) -> u64 {
        self.registers[address.base][lane].wrapping_add(address.offset as u64)
    }

    fn access_fault(&self, lane: usize) -> impl Fn(AccessFault) -> KernelFault {
        let thread = self.first_thread + lane;
        move |fault| KernelFault::Access { thread, fault }
    }

    /// An instruction of each lane by itself.
    fn execute_alone(
        &mut self,
        operation: &Operation,
        active: u32,
        global: &mut MemoryBlocks,
        shared: &mut MemoryBlocks,
    ) -> Result<(), KernelFault> {
        match operation {
            Operation::Compute { to, function, from } => {
                let values = function(from.map(|register| &self.registers[register]));
                self.put(*to, active, &values);
            }
            Operation::Insert { to, function, from } => {
                let [source, into, at, count] = from.map(|register| &self.registers[register]);
                let values = array::from_fn(|lane| function(source[lane], into[lane], at[lane], count[lane]));
                self.put(*to, active, &values);
            }
            Operation::Pack { to, from } => {
                let [lower, upper] = from.map(|register| &self.registers[register]);
                let values = array::from_fn(|lane| lower[lane] & 0xffff | (upper[lane] & 0xffff) << 16);
                self.put(*to, active, &values);
            }
            Operation::Unpack { to, from } => {
                let words = self.registers[*from];
                self.put(to[0], active, &words.map(|word| word & 0xffff));
                self.put(to[1], active, &words.map(|word| word >> 16 & 0xffff));
            }
            Operation::Load { space, bytes, to, address } => {
                let memory = if *space == MemorySpace::Global { &*global } else { &*shared };
                for lane in lanes_of(active) {
                    let read = memory.read(self.address_of(*address, lane), bytes * to.len());
                    let read = read.map_err(self.access_fault(lane))?;
                    for (register, part) in to.iter().zip(read.chunks_exact(*bytes)) {
                        self.registers[*register][lane] = number_of(part);
                    }
                }
            }
            Operation::Store { space, bytes, from, address } => {
                let memory = if *space == MemorySpace::Global { global } else { shared };
                for lane in lanes_of(active) {
                    let written = memory.write(self.address_of(*address, lane), bytes * from.len());
                    let written = written.map_err(self.access_fault(lane))?;
                    for (register, part) in from.iter().zip(written.chunks_exact_mut(*bytes)) {
                        part.copy_from_slice(&self.registers[*register][lane].to_le_bytes()[..*bytes]);
                    }
                }
            }
            Operation::CopyAsync { to, from, read } => {
                for lane in lanes_of(active) {
                    self.begin_copy(lane, [*to, *from], self.registers[*read][lane], global, shared)?;
                }
            }
            Operation::CommitCopies => lanes_of(active).for_each(|lane| self.groups[lane] += 1),
            Operation::WaitCopies { pending } => {
                let groups = self.groups;
                let done = |copy: &PendingCopy| {
                    active >> copy.lane & 1 == 1 && copy.group.saturating_add(*pending) < groups[copy.lane]
                };
                for copy in self.copies.iter().filter(|copy| done(copy)) {
                    let written = shared.write(copy.to, copy.bytes.len()).map_err(self.access_fault(copy.lane))?;
                    written.copy_from_slice(&copy.bytes);
                }
                self.copies.retain(|copy| !done(copy));
            }
            together => unreachable!("{together:?} is executed by a whole warp; this is a bug"),
        }
        Ok(())
    }

    /// Reads the source; until the copy is waited for, its target holds ones.
    fn begin_copy(
        &mut self,
        lane: usize,
        [to, from]: [Address; 2],
        read: u64,
        global: &MemoryBlocks,
        shared: &mut MemoryBlocks,
    ) -> Result<(), KernelFault> {
        let (to, from) = (self.address_of(to, lane), self.address_of(from, lane));
        let mut bytes = [0; 16];
        let part = usize::try_from(read).ok().and_then(|read| bytes.get_mut(..read));
        let part = part.ok_or(KernelFault::CopySize { thread: self.first_thread + lane, bytes: read })?;
        if !part.is_empty() {
            if !from.is_multiple_of(16) {
                return Err(self.access_fault(lane)(AccessFault::Misaligned { address: from, bytes: 16 }));
            }
            let count = part.len();
            part.copy_from_slice(global.read(from, count).map_err(self.access_fault(lane))?);
        }
        shared.write(to, 16).map_err(self.access_fault(lane))?.fill(0xff);
        self.copies.push(PendingCopy { lane, group: self.groups[lane], to, bytes });
        Ok(())
    }

    /// An instruction of all lanes at once.
    fn execute_together(&mut self, operation: &Operation, shared: &MemoryBlocks) -> Result<(), KernelFault> {
        match operation {
            Operation::SyncWarp { lanes } => self.check_mask(*lanes)?,
            Operation::VoteAny { to, value, lanes } => {
                self.check_mask(*lanes)?;
                let any = self.registers[*value].iter().any(|vote| *vote != 0);
                self.registers[*to] = [u64::from(any); WARP];
            }
            Operation::Shuffle { mode, to, within, value, by, bounds, lanes } => {
                self.check_mask(*lanes)?;
                let (values, by, bounds) = (self.registers[*value], self.registers[*by], self.registers[*bounds]);
                let sources: [(usize, bool); WARP] =
                    array::from_fn(|lane| shuffle_source(*mode, lane, by[lane], bounds[lane]));
                self.registers[*to] = sources.map(|(lane, _)| values[lane]);
                if let Some(within) = within {
                    self.registers[*within] = sources.map(|(_, inside)| u64::from(inside));
                }
            }
            Operation::MultiplyTiles { to, left, right, add } => {
                let of = |register: Register| &self.registers[register];
                let sums = multiply_tiles(left.map(of), right.map(of), add.map(of));
                to.iter().zip(sums).for_each(|(to, sums)| self.registers[*to] = sums);
            }
            Operation::LoadTiles { to, address, transposed } => {
                let mut rows = [[0; 8]; WARP];
                for (lane, row) in rows.iter_mut().enumerate() {
                    let bytes = shared.read(self.address_of(*address, lane), 16).map_err(self.access_fault(lane))?;
                    *row = array::from_fn(|at| number_of(&bytes[2 * at..2 * at + 2]) as u16);
                }
                let tiles = spread_tiles(&rows, *transposed);
                to.iter().zip(tiles).for_each(|(to, tile)| self.registers[*to] = tile);
            }
            alone => unreachable!("{alone:?} is executed by each lane; this is a bug"),
        }
        Ok(())
    }

    fn check_mask(&self, register: Register) -> Result<(), KernelFault> {
        let wrong = self.registers[register].iter().enumerate().find(|(_, mask)| **mask as u32 != EVERY_LANE);
        wrong.map_or(Ok(()), |(lane, mask)| Err(KernelFault::Mask { thread: self.first_thread + lane, mask: *mask }))
    }
}

/// Whether an instruction is executed by all lanes at once.
fn waits_for_all(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Shuffle { .. }
            | Operation::VoteAny { .. }
            | Operation::MultiplyTiles { .. }
            | Operation::LoadTiles { .. }
            | Operation::SyncWarp { .. }
            | Operation::SyncThreads
    )
}

/// The lane whose value a lane gets, and whether it lies within the segment. `bounds` has the last lane of a segment,
/// and from bit 8 on the bits of a lane's number that say the segment.
fn shuffle_source(mode: ShuffleMode, lane: usize, by: u64, bounds: u64) -> (usize, bool) {
    let (by, last, segment) = (by as usize & 31, bounds as usize & 31, bounds as usize >> 8 & 31);
    let most = lane & segment | last & !segment;
    let source = match mode {
        ShuffleMode::Index => lane & segment | by & !segment,
        ShuffleMode::Butterfly => lane ^ by,
    };
    if source <= most { (source, true) } else { (lane, false) }
}

#[cfg(test)]
mod tests {
    use super::super::PtxModule;
    use super::*;

    const SIXTEEN: u32 = 0xffff;

    /// A kernel with these statements, which may store a number of each thread: `%r1` is the thread, `%r2` the block,
    /// `%rd1` the place of its number in the buffer.
    fn module(statements: &str) -> PtxModule {
        let text = format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry one(\n.param .u64 to\n)\n\
             .maxntid 64, 1, 1\n{{\n.reg .pred %p<4>;\n.reg .b16 %rs<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n\
             .shared .align 16 .b8 held[1024];\n\
             ld.param.u64 %rd8, [to]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n\
             mad.lo.s32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd1, %rd8, %rd2;\n\
             {statements}\nret;\n}}\n"
        );
        PtxModule::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// The numbers that two blocks of 64 threads leave.
    fn run(statements: &str) -> Result<Vec<u32>, PtxFault> {
        let mut memory = MemoryBlocks::of_buffers([vec![0; 4 * 128]]);
        let grid = BlockGrid { blocks: (2, 1), threads: 64, shared: 0 };
        let arguments = [memory.blocks[0].address];
        module(statements).run_kernel("one", &grid, &arguments, &mut memory)?;
        Ok(memory.blocks[0].bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }

    /// The fault, and the statement where it happened.
    fn fault(statements: &str) -> (String, KernelFault) {
        match run(statements) {
            Err(PtxFault::Kernel { statement, fault, .. }) => (statement, fault),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lanes_go_apart_and_meet_again() {
        // Odd lanes loop as often as their number says, the others not at all; then they exchange what they have.
        let text = "and.b32 %r5, %r1, 1; mov.u32 %r6, 0; setp.eq.s32 %p1, %r5, 0; @%p1 bra JOIN;\n\
                    LOOP:\nadd.s32 %r6, %r6, 2; setp.lt.u32 %p2, %r6, %r1; @%p2 bra LOOP;\n\
                    JOIN:\nshfl.sync.bfly.b32 %r7|%p3, %r6, 1, 31, -1; st.global.u32 [%rd1], %r7;";
        let counted = |thread: u32| if thread.is_multiple_of(2) { 0 } else { thread + 1 };
        let expected: Vec<u32> = (0..128).map(|thread| counted((thread ^ 1) % 64)).collect();
        assert_eq!(run(text).unwrap(), expected);
    }

    #[test]
    fn a_guard_and_a_shuffle_by_number_choose_lanes() {
        let text = "shfl.sync.idx.b32 %r5, %r1, 3, 0x181f, -1; setp.gt.u32 %p1, %r1, 40; @!%p1 mov.u32 %r5, 7;\n\
                    st.global.u32 [%rd1], %r5;";
        // Segments of eight lanes, each of which has its own fourth lane.
        let expected: Vec<u32> = (0..128).map(|at| at % 64).map(|t| if t > 40 { t / 8 * 8 + 3 } else { 7 }).collect();
        assert_eq!(run(text).unwrap(), expected);
    }

    #[test]
    fn a_block_waits_at_a_barrier_and_sees_what_others_stored() {
        let text = "mov.u32 %r5, held; shl.b32 %r6, %r1, 2; add.s32 %r5, %r5, %r6; st.shared.u32 [%r5], %r4;\n\
                    bar.sync 0; mov.u32 %r5, held; sub.s32 %r6, 252, %r6; add.s32 %r5, %r5, %r6;\n\
                    ld.shared.u32 %r7, [%r5]; mov.b32 {%rs1, %rs2}, %r7; mov.b32 %r7, {%rs1, %rs2};\n\
                    st.global.u32 [%rd1], %r7;";
        let expected: Vec<u32> = (0..128).map(|at| at / 64 * 64 + 63 - at % 64).collect();
        assert_eq!(run(text).unwrap(), expected);
    }

    #[test]
    fn a_copy_is_there_when_its_group_is_waited_for() {
        let copied = |wait: &str| {
            let text = format!(
                "mov.u32 %r5, held; shl.b32 %r6, %r1, 4; add.s32 %r5, %r5, %r6; st.global.u32 [%rd1], %r1;\n\
                 cp.async.cg.shared.global [%r5], [%rd8], 16, 8; {wait}\n\
                 ld.shared.u32 %r7, [%r5+4]; ld.shared.u32 %r6, [%r5+12]; add.s32 %r7, %r7, %r6;\n\
                 st.global.u32 [%rd1], %r7;"
            );
            // Of the first block's first threads; what the buffer holds later depends on them.
            run(&text).unwrap()[2]
        };
        assert_eq!(copied("cp.async.commit_group; cp.async.wait_group 0;"), 1, "8 bytes, then zeros");
        assert_eq!(copied("cp.async.commit_group; cp.async.wait_group 1;"), u32::MAX - 1, "two words of ones");
        assert_eq!(copied("cp.async.wait_group 0;"), u32::MAX - 1, "no group was ended");
    }

    #[test]
    fn lanes_and_warps_that_never_come_are_faults() {
        let (statement, found) = fault("setp.lt.u32 %p1, %r1, 16; @%p1 bra THERE; bar.warp.sync -1;\nTHERE:");
        assert_eq!(statement, "bar.warp.sync -1");
        let KernelFault::Apart { thread: 0, here, others } = found else { panic!("{found:?}") };
        assert!(here == !SIXTEEN && others.contains("lane 0 at its end"), "{here:x}: {others}");

        let text = "setp.lt.u32 %p1, %r1, 16; @%p1 bra THERE; vote.sync.any.pred %p2, %p1, -1; bra.uni END;\n\
                    THERE:\nvote.sync.any.pred %p2, %p1, -1;\nEND:";
        let (_, KernelFault::Apart { here, others, .. }) = fault(text) else { panic!("a vote at two places") };
        assert!(here == !SIXTEEN && others.starts_with("lane 0 at line 1"), "{here:x}: {others}");

        let (statement, found) = fault("setp.lt.u32 %p1, %r1, 32; @%p1 bra THERE; bar.sync 0;\nTHERE:");
        assert_eq!((statement.as_str(), found), ("bar.sync 0", KernelFault::WarpsApart { thread: 32, other: 0 }));
    }

    #[test]
    fn wrong_accesses_masks_and_ways_are_faults() {
        let (statement, found) = fault("st.global.u32 [%rd1+256], %r1;");
        assert_eq!(statement, "st.global.u32 [%rd1+256], %r1");
        // The second block's first thread is the first one whose place lies outside.
        assert!(
            matches!(found, KernelFault::Access { thread: 0, fault: AccessFault::Outside { bytes: 4, .. } }),
            "{found:?}"
        );
        let (_, found) = fault("ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd1];");
        assert!(
            matches!(found, KernelFault::Access { thread: 1, fault: AccessFault::Misaligned { bytes: 16, .. } }),
            "{found:?}"
        );
        let (_, found) = fault("mov.u32 %r5, held; ld.shared.u32 %r5, [%r5+1024];");
        assert!(matches!(found, KernelFault::Access { thread: 0, fault: AccessFault::Outside { .. } }), "{found:?}");
        assert_eq!(fault("bar.warp.sync 7;").1, KernelFault::Mask { thread: 0, mask: 7 });
        assert_eq!(
            fault("mov.u32 %r5, held; cp.async.cg.shared.global [%r5], [%rd8], 16, 17;").1,
            KernelFault::CopySize { thread: 0, bytes: 17 }
        );
        let text = ".visible .entry open(\n)\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, 5;\n}\n";
        let grid = BlockGrid { blocks: (1, 1), threads: 32, shared: 0 };
        let open = PtxModule::parse(text).unwrap();
        let found = open.run_kernel("open", &grid, &[], &mut MemoryBlocks::default()).unwrap_err().to_string();
        let place = "kernel open, block (0, 0), PTX line 5: `mov.u32 %r1, 5`";
        assert_eq!(found, format!("{place}: there is no instruction behind it"));
    }

    #[test]
    fn another_launch_or_name_is_an_error() {
        let mut memory = MemoryBlocks::default();
        let mut launch = |name, threads, arguments: &[u64]| {
            let grid = BlockGrid { blocks: (1, 1), threads, shared: 0 };
            module("").run_kernel(name, &grid, arguments, &mut memory).unwrap_err().to_string()
        };
        assert_eq!(launch("two", 64, &[0]), "the PTX has no kernel two");
        let allowed = "it takes 1 and a multiple of 32 of at most 64";
        assert_eq!(launch("one", 96, &[0]), format!("kernel one: 1 arguments and 96 threads; {allowed}"));
        assert_eq!(launch("one", 64, &[]), format!("kernel one: 0 arguments and 64 threads; {allowed}"));
    }

    #[test]
    fn an_unknown_instruction_or_operand_is_an_error_with_its_line() {
        let error = |statement: &str| {
            let text = format!(".visible .entry one(\n)\n{{\n.reg .b32 %r<2>;\n{statement}\n}}\n");
            PtxModule::parse(&text).unwrap_err().to_string()
        };
        let unknown =
            "PTX, line 5: unknown instruction popc.b32 in `popc.b32 %r1, %r0`; hint: add it to emulator/src/ptx";
        assert_eq!(error("popc.b32 %r1, %r0;"), unknown);
        for (statement, reason) in [
            ("mov.u32 %r2, 1;", "%r2 is no declared register"),
            ("add.s32 %r1, %r0;", "2 sources, not 1"),
            ("mov.u32 %r1, WARP;", "WARP is neither register nor constant"),
            ("ld.param.u32 %r1, [absent];", "no parameter absent of 4 bytes"),
            ("bra NOWHERE;", "no label NOWHERE"),
            ("ld.global.v2.u32 {%r0}, [%r1];", "2 registers, not 1"),
        ] {
            assert_eq!(error(statement), format!("PTX, line 5: {reason}: `{}`", statement.trim_end_matches(';')));
        }
    }
}
