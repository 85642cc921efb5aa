//! Products of activations and weights: `x [rows, in] · weightᵀ [out, in]`, blocked for the caches.
//!
//! ```text
//!   result     tasks of (rows, panels); each is made of tiles: up to 14 rows times one panel
//!   in         blocks of at most DEPTH: a tile sums over a block in registers, then adds it to the result
//!   x          the rows of a task, one block at a time, those of a tile side by side (see `interleave`)
//!   weights    panels (see `pack`), each `in` rows of as many numbers as a tile is wide
//! ```
//!
//! # Contract
//! A number of the result is `((s_0 + s_1) + s_2) + ..`, where `s_b` is block `b`'s chain of fused multiply-adds from
//! zero in the order of *in*. The cut into blocks depends on *in* alone; lanes run over *out*; so nothing else changes
//! a bit.

use crate::cpu::epilogue::CheckedEpilogue;
use crate::cpu::interleave::Interleave;
use crate::cpu::memory::AlignedBuffer;
use crate::cpu::tensor::WeightMatrix;
use crate::cpu::{Cpu, InstructionSet, Tensor, kernel_avx2, kernel_avx512, pack};
use crate::{DeviceError, Dtype, Epilogue};
use std::marker::PhantomData;
use std::ops::Range;

/// The most inputs summed in registers before the result is touched. A longer block touches the result less often,
/// until the rows of a task no longer fit the second-level cache.
const DEPTH: usize = 768;

/// Rows of a panel that a tile prefetches.
pub(super) const AHEAD: usize = 8;

/// The most rows of a task: a block of them and a panel fit the second-level cache.
pub(super) const ROWS: usize = 168;

/// The largest size in numbers of all blocks of a task's rows that are copied once and stay in the second-level cache.
const RESIDENT: usize = 128 * 1024;

/// The most columns of a task, except for the only task of a single thread.
const COLUMNS: usize = 1024;

/// Products of at most this many rows convert unpacked weights task by task instead of chunk by chunk.
const FEW_ROWS: usize = 64;

/// Numbers of unpacked weights converted for one task: they stay in the second-level cache.
const TASK_PANELS: usize = 128 * 1024;

/// Numbers of unpacked weights converted before they are multiplied: they stay in the last-level cache.
const CHUNK_PANELS: usize = 4 * 1024 * 1024;

/// Adds a block's product to a tile of the result, or sets it: `c[r][j] (+)= Σ_i a[i][r] * b[i][j]`, for the function's
/// own number of rows. Arguments: `depth` (number of `i`), `a` (one number per row for each `i`), `b` (rows of the
/// panel's width, at a multiple of 64 bytes), `c`, `stride` (from one of its rows to the next), `columns` (number of
/// `j`, at least one and at most the width; `b` has the width), `first` (set instead of add), `next` (an address to
/// prefetch into the second-level cache, advanced by `advance` numbers with each `i`).
///
/// # Safety
/// The processor has the instructions, and the numbers named above can be read, those of `c` written.
pub(super) type TileFunction =
    unsafe fn(usize, *const f32, *const f32, *mut f32, usize, usize, bool, *const f32, usize);

impl InstructionSet {
    /// Columns of a panel.
    pub(super) const fn panel_width(self) -> usize {
        match self {
            Self::Avx2 => kernel_avx2::COLUMNS,
            Self::Avx512 => kernel_avx512::COLUMNS,
        }
    }

    /// Tiles of one row, of two, and so on.
    fn tile_functions(self) -> &'static [TileFunction] {
        match self {
            Self::Avx2 => &kernel_avx2::TILES,
            Self::Avx512 => &kernel_avx512::TILES,
        }
    }
}

/// The cut of *in* into blocks, as equal in length as possible.
#[derive(Clone, Copy)]
struct InnerBlocks {
    inputs: usize,
    count: usize,
}

impl InnerBlocks {
    fn of_inputs(inputs: usize) -> Self {
        Self { inputs, count: inputs.div_ceil(DEPTH).max(1) }
    }

    fn block_range(self, block: usize) -> Range<usize> {
        block * self.inputs / self.count..(block + 1) * self.inputs / self.count
    }

    fn longest_block(self) -> usize {
        self.inputs.div_ceil(self.count)
    }
}

/// A result written by several threads, each its own numbers.
#[derive(Clone, Copy)]
pub(super) struct SharedResult<'a> {
    start: *mut f32,
    rows: usize,
    columns: usize,
    owner: PhantomData<&'a mut [f32]>,
}

// SAFETY: it is written through unsafe functions only, and their callers keep threads apart.
unsafe impl Send for SharedResult<'_> {}
// SAFETY: as above.
unsafe impl Sync for SharedResult<'_> {}

impl<'a> SharedResult<'a> {
    /// `values [rows, columns]`.
    pub(super) fn new(values: &'a mut [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "the size of a result; this is a bug");
        Self { start: values.as_mut_ptr(), rows, columns, owner: PhantomData }
    }

    /// Columns of a row.
    ///
    /// # Safety
    /// Nobody else uses them meanwhile.
    #[inline]
    pub(super) unsafe fn row_part(&self, row: usize, columns: Range<usize>) -> &'a mut [f32] {
        debug_assert!(row < self.rows && columns.end <= self.columns, "numbers of the result");
        // SAFETY: within the result, and the caller's word.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.columns + columns.start), columns.len()) }
    }
}

/// The last step for a tile's complete numbers, while they are in the cache.
pub(super) trait TileFinisher {
    /// Announces the next rows and columns of the result.
    fn announce_tile(&self, rows: Range<usize>, columns: Range<usize>);

    /// Finishes columns `columns` of rows `first..first + rows.len()`.
    fn finish_tile(&self, cpu: &Cpu, first: usize, columns: Range<usize>, rows: ResultRows<'_>);
}

/// Does nothing.
impl TileFinisher for () {
    fn announce_tile(&self, _: Range<usize>, _: Range<usize>) {}
    fn finish_tile(&self, _: &Cpu, _: usize, _: Range<usize>, _: ResultRows<'_>) {}
}

/// The same columns of neighbouring rows of a result.
pub(super) struct ResultRows<'a> {
    of: SharedResult<'a>,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl ResultRows<'_> {
    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The columns of one of them.
    #[inline]
    pub(super) fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows.len(), "a row of the tile; this is a bug");
        // SAFETY: the maker vouched for rows and columns, and borrows them as a whole.
        unsafe { self.of.row_part(self.rows.start + row, self.columns.clone()) }
    }
}

/// Weights, ready for tasks.
#[derive(Clone, Copy)]
pub(super) enum WeightPanels<'a> {
    /// Panels from `first` on.
    Packed { first: usize, panels: &'a [f32] },
    /// All panels; each task packs its own.
    Mapped(&'a WeightMatrix),
}

/// One task's share of a product.
pub(super) struct ProductTask<'a> {
    /// `[rows, inputs]`: the task's rows of `x`.
    pub(super) x: &'a [f32],
    /// Numbers in a row of `x`, not 0.
    pub(super) inputs: usize,
    /// Outputs of the weights.
    pub(super) outputs: usize,
    /// The task's panels.
    pub(super) panels: Range<usize>,
}

impl ProductTask<'_> {
    /// Computes the task's numbers and lets `finisher` finish them. They go to `to`, from row `at.0` and column `at.1`
    /// on.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    ///
    /// # Safety
    /// Nobody else uses this part of `to` meanwhile.
    pub(super) unsafe fn run_task(
        &self,
        cpu: &Cpu,
        weights: WeightPanels<'_>,
        to: SharedResult<'_>,
        at: (usize, usize),
        finisher: &impl TileFinisher,
    ) -> Result<(), DeviceError> {
        let (width, inputs) = (cpu.isa.panel_width(), self.inputs);
        let size = width * inputs;
        let rows = self.x.len() / inputs;
        let blocks = InnerBlocks::of_inputs(inputs);
        let resident = rows * inputs <= RESIDENT;
        let numbers = if resident { rows * inputs } else { rows * blocks.longest_block() };
        let mut copies = cpu.memory.take(Interleave::room_for(numbers))?;
        let mut task = TaskCopies { cpu, x: self.x, rows, blocks, copies: copies.as_mut_slice(), resident };
        task.copy_resident();
        match weights {
            WeightPanels::Packed { first, panels } => {
                let panels = &panels[(self.panels.start - first) * size..(self.panels.end - first) * size];
                // SAFETY: the caller's word.
                unsafe { task.multiply_panels(panels, self.panels.clone(), self.outputs, to, at, finisher) };
            }
            WeightPanels::Mapped(weight) => {
                let step = (TASK_PANELS / size).clamp(1, self.panels.len().max(1));
                let mut packed = cpu.memory.take(step * size)?;
                for start in self.panels.clone().step_by(step) {
                    let some = start..self.panels.end.min(start + step);
                    let packed = &mut packed.as_mut_slice()[..some.len() * size];
                    for (panel, out) in some.clone().zip(packed.chunks_exact_mut(size)) {
                        pack::pack_panel(weight, width, panel, out);
                    }
                    let at = (at.0, at.1 + (start - self.panels.start) * width);
                    // SAFETY: the caller's word.
                    unsafe { task.multiply_panels(packed, some, self.outputs, to, at, finisher) };
                }
            }
        }
        Ok(())
    }
}

/// A task's rows and their copies.
struct TaskCopies<'a> {
    cpu: &'a Cpu,
    x: &'a [f32],
    rows: usize,
    blocks: InnerBlocks,
    /// All blocks one after the other if `resident`, else the current one.
    copies: &'a mut [f32],
    resident: bool,
}

impl TaskCopies<'_> {
    fn copy_resident(&mut self) {
        if self.resident {
            for block in 0..self.blocks.count {
                self.copy_block(block);
            }
        }
    }

    /// The start of a block's copy.
    fn copy_start(&self, block: usize) -> usize {
        if self.resident { self.rows * self.blocks.block_range(block).start } else { 0 }
    }

    /// Tiles as equal in height as possible, since flat ones leave the multipliers waiting.
    fn tile_rows(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (rows, count) = (self.rows, self.rows.div_ceil(self.cpu.isa.tile_functions().len()));
        (0..count).map(move |tile| tile * rows / count..(tile + 1) * rows / count)
    }

    /// Copies of later blocks and tiles overwrite the surplus numbers of earlier ones.
    fn copy_block(&mut self, block: usize) {
        let (place, columns, inputs) = (self.copy_start(block), self.blocks.block_range(block), self.blocks.inputs);
        for rows in self.tile_rows() {
            let to = &mut self.copies[place + rows.start * columns.len()..];
            let x = &self.x[rows.start * inputs..rows.end * inputs];
            self.cpu.run(Interleave { x, stride: inputs, rows: rows.len(), columns: columns.clone(), to });
        }
    }

    /// See [`ProductTask::run_task`]; `panels` are numbers `which` of the weights.
    unsafe fn multiply_panels(
        &mut self,
        panels: &[f32],
        which: Range<usize>,
        outputs: usize,
        to: SharedResult<'_>,
        at: (usize, usize),
        finisher: &impl TileFinisher,
    ) {
        let width = self.cpu.isa.panel_width();
        let size = self.blocks.inputs * width;
        let one = |task: &Self, index: usize, block: usize| {
            let first = (which.start + index) * width;
            let range = task.blocks.block_range(block);
            let panel = &panels[index * size + range.start * width..index * size + range.end * width];
            // The data wanted next: the panel's next block, or the same block of the next panel.
            let next = panel.as_ptr().wrapping_add(if task.resident { panel.len() } else { size });
            let columns = at.1 + index * width..at.1 + index * width + width.min(outputs - first);
            // SAFETY: the caller's word.
            unsafe { task.each_tile(block, panel, next, to, (at.0, columns), finisher) };
        };
        if self.resident {
            for index in 0..which.len() {
                for block in 0..self.blocks.count {
                    one(self, index, block);
                }
            }
        } else {
            for block in 0..self.blocks.count {
                self.copy_block(block);
                for index in 0..which.len() {
                    one(self, index, block);
                }
            }
        }
    }

    /// All rows times one block of one panel.
    unsafe fn each_tile(
        &self,
        block: usize,
        panel: &[f32],
        next: *const f32,
        to: SharedResult<'_>,
        (at, columns): (usize, Range<usize>),
        finisher: &impl TileFinisher,
    ) {
        let kernels = self.cpu.isa.tile_functions();
        let (place, depth) = (self.copy_start(block), self.blocks.block_range(block).len());
        assert!(at + self.rows <= to.rows && columns.end <= to.columns, "a tile within the result; this is a bug");
        let advance = self.cpu.isa.panel_width().div_ceil(self.rows.div_ceil(kernels.len()));
        for (tile, rows) in self.tile_rows().enumerate() {
            let a = &self.copies[place + rows.start * depth..place + rows.end * depth];
            // All tiles share the prefetching of the next data, or the caches would have to fetch it while one of them
            // waits.
            let next = next.wrapping_add(tile * depth * advance);
            // SAFETY: a `Cpu` exists only if the processor has the instructions; `a` and `panel` are as large as the
            // reads, and panels begin at multiples of 64 bytes; the numbers of the result are within it and the
            // caller's alone.
            unsafe {
                let c = to.start.add((at + rows.start) * to.columns + columns.start);
                let b = panel.as_ptr();
                let kernel = kernels[rows.len() - 1];
                let rows = at + rows.start..at + rows.end;
                if block + 1 == self.blocks.count {
                    finisher.announce_tile(rows.clone(), columns.clone());
                }
                kernel(depth, a.as_ptr(), b, c, to.columns, columns.len(), block == 0, next, advance);
                if block + 1 == self.blocks.count {
                    let first = rows.start;
                    finisher.finish_tile(
                        self.cpu,
                        first,
                        columns.clone(),
                        ResultRows { of: to, rows, columns: columns.clone() },
                    );
                }
            }
        }
    }
}

/// `x [rows, in] · weightᵀ [out, in]` and its epilogue.
pub(super) fn linear(
    cpu: &Cpu,
    x: &Tensor,
    weight: &WeightMatrix,
    epilogue: Epilogue<'_, Cpu>,
) -> Result<Tensor, DeviceError> {
    assert_eq!(x.columns(), weight.columns(), "inner sizes of a product; this is a bug");
    let (rows, inputs, outputs) = (x.rows(), x.columns(), weight.rows());
    let mut out = cpu.new_tensor(rows, outputs)?;
    let epilogue = CheckedEpilogue::new(epilogue, rows, outputs);
    if inputs == 0 {
        out.values_mut().fill(0.0);
        let of = SharedResult::new(out.values_mut(), rows, outputs);
        epilogue.finish_tile(cpu, 0, 0..outputs, ResultRows { of, rows: 0..rows, columns: 0..outputs });
        return Ok(out);
    }
    let to = SharedResult::new(out.values_mut(), rows, outputs);
    each_chunk(cpu, weight, rows, 1, |weights, panels| {
        let width = cpu.isa.panel_width();
        let grid = TaskGrid::of_product(cpu, rows, panels.len());
        let work = rows * inputs * panels.len() * width;
        cpu.run_parallel(grid.row_tasks * grid.panel_tasks, work, |task| {
            let (some, its) = (grid.task_rows(task), grid.task_panels(task));
            let its = panels.start + its.start..panels.start + its.end;
            let at = (some.start, its.start * width);
            let task =
                ProductTask { x: &x.values()[some.start * inputs..some.end * inputs], inputs, outputs, panels: its };
            // SAFETY: no two tasks have a number of the result in common.
            unsafe { task.run_task(cpu, weights, to, at, &epilogue) }
        })
    })?;
    Ok(out)
}

/// The cut of a product into tasks.
struct TaskGrid {
    all_rows: usize,
    row_tasks: usize,
    all_panels: usize,
    panel_tasks: usize,
}

impl TaskGrid {
    fn of_product(cpu: &Cpu, rows: usize, panels: usize) -> Self {
        let row_tasks = rows.div_ceil(ROWS);
        // A few tasks for each thread, so that an interrupted one does not hold up all.
        let wanted = if cpu.threads() == 1 { 1 } else { (cpu.threads() * 4).div_ceil(row_tasks.max(1)) };
        let most = if cpu.threads() == 1 { panels } else { COLUMNS / cpu.isa.panel_width() };
        let panel_tasks = panels.div_ceil(panels.div_ceil(wanted).clamp(1, most.max(1)));
        Self { all_rows: rows, row_tasks, all_panels: panels, panel_tasks }
    }

    /// Neighbouring tasks share panels.
    fn task_rows(&self, task: usize) -> Range<usize> {
        let (i, n) = (task % self.row_tasks, self.row_tasks);
        i * self.all_rows / n..(i + 1) * self.all_rows / n
    }

    fn task_panels(&self, task: usize) -> Range<usize> {
        let (i, n) = (task / self.row_tasks, self.panel_tasks);
        i * self.all_panels / n..(i + 1) * self.all_panels / n
    }
}

/// Calls `multiply(weights, which panels)` for all panels: at once if they are packed, and chunk by chunk (a multiple
/// of `unit` panels) if they are mapped and rows are many.
pub(super) fn each_chunk(
    cpu: &Cpu,
    weight: &WeightMatrix,
    rows: usize,
    unit: usize,
    multiply: impl Fn(WeightPanels<'_>, Range<usize>) -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    let width = cpu.isa.panel_width();
    let (panels, size) = (weight.rows().div_ceil(width), weight.columns() * width);
    if let Some(packed) = packed_panels(cpu, weight) {
        return multiply(WeightPanels::Packed { first: 0, panels: packed.as_slice() }, 0..panels);
    }
    if rows <= FEW_ROWS {
        return multiply(WeightPanels::Mapped(weight), 0..panels);
    }
    let step = (CHUNK_PANELS / size).next_multiple_of(unit).clamp(unit, panels.max(unit));
    let mut chunk = cpu.memory.take(step.min(panels) * size)?;
    for first in (0..panels).step_by(step) {
        let some = first..panels.min(first + step);
        let numbers = &mut chunk.as_mut_slice()[..some.len() * size];
        pack_all(cpu, weight, first, numbers);
        multiply(WeightPanels::Packed { first, panels: numbers }, some)?;
    }
    Ok(())
}

/// Packs panels from `first` on until `out` is full.
fn pack_all(cpu: &Cpu, weight: &WeightMatrix, first: usize, out: &mut [f32]) {
    let (width, size) = (cpu.isa.panel_width(), weight.columns() * cpu.isa.panel_width());
    cpu.for_pieces(out, size, size * 8, |i, panel| pack::pack_panel(weight, width, first + i, panel));
}

/// The packed panels of a matrix, made at first use; `None` if there is no room for them.
fn packed_panels<'a>(cpu: &Cpu, weight: &'a WeightMatrix) -> Option<&'a AlignedBuffer> {
    let (isa, panels) = weight.panels.get_or_init(|| {
        let size = weight.rows().next_multiple_of(cpu.isa.panel_width()) * weight.columns();
        let stays = !cpu.pack_half && weight.dtypes().any(|dtype| dtype != Dtype::F32);
        let mut room = if stays { None } else { cpu.packed.take(size).ok() };
        if let Some(room) = &mut room {
            pack_all(cpu, weight, 0, room.as_mut_slice());
        }
        (cpu.isa, room)
    });
    assert_eq!(*isa, cpu.isa, "a matrix belongs to the device that made it; this is a bug");
    panels.as_ref()
}
