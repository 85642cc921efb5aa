//! Kernels on tensors beyond 2^32 numbers: their last rows have the bits of a tensor of those rows alone.
//!
//! The tensors are sparse: only pages that are touched take memory. Of a grid with a block for each row only the last
//! blocks run. A kernel that counts numbers or bytes in 32 bits comes to the first rows, which are zeros and must stay
//! so. The kernels of `f32` are instances of the same templates as those of bf16, with the same indices.

#![expect(clippy::print_stderr, reason = "a log says what ran, and a case that is skipped says so")]

use KernelArgument::{Buffer, F32, Null, U32};
use half::bf16;
use hopeval_cuda::kernels::{FAMILIES, Kernel};
use hopeval_cuda::runtime::{KernelArgument, KernelLaunch, Runtime};
use hopeval_cuda_emulator::{Emulator, EmulatorBuffer, EmulatorOptions, KernelSources};
use hopeval_device::DeviceError;
use std::time::Instant;

/// Rows that hold numbers.
const LAST: usize = 3;

/// Columns of most tensors.
const WIDTH: usize = 1024;

/// Bytes of a bf16 and a `f32`.
const HALF: usize = 2;
const FLOAT: usize = 4;

/// Tensors with [`LAST`] rows behind `before` rows of zeros.
struct TensorEnds<'a> {
    emulator: &'a Emulator,
    before: usize,
}

/// A grid, of which the blocks from `first` on run.
#[derive(Clone, Copy)]
struct LastBlocks {
    grid: (usize, usize),
    first: (usize, usize),
    threads: u32,
    shared: u32,
}

impl LastBlocks {
    /// All of them.
    fn all(x: usize, y: usize, threads: u32) -> Self {
        Self { grid: (x, y), first: (0, 0), threads, shared: 0 }
    }
}

/// Sine waves: no two rows are equal.
fn numbers(count: usize, step: f32) -> impl Iterator<Item = f32> {
    (0..count).map(move |i| 2.0 * (i as f32 * step).sin())
}

fn floats(count: usize, step: f32) -> Vec<u8> {
    numbers(count, step).flat_map(f32::to_le_bytes).collect()
}

fn halves(count: usize, step: f32) -> Vec<u8> {
    numbers(count, step).flat_map(|number| bf16::from_f32(number).to_le_bytes()).collect()
}

fn words(words: &[usize]) -> Vec<u8> {
    words.iter().flat_map(|word| u32::try_from(*word).expect("a word").to_le_bytes()).collect()
}

impl TensorEnds<'_> {
    fn rows(&self) -> usize {
        self.before + LAST
    }

    /// A tensor or list whose last rows have this content.
    fn tensor(&self, last: &[u8]) -> Result<EmulatorBuffer, DeviceError> {
        let row = last.len() / LAST;
        let buffer = self.emulator.allocate_sparse(self.rows() * row)?;
        buffer.write_at(self.before * row, last);
        Ok(buffer)
    }

    fn zeros(&self, columns: usize, size: usize) -> Result<EmulatorBuffer, DeviceError> {
        self.tensor(&vec![0; LAST * columns * size])
    }

    fn upload(&self, bytes: &[u8]) -> Result<EmulatorBuffer, DeviceError> {
        self.emulator.upload(bytes)
    }

    /// The content of the last rows; it is an error if the first ones are not zeros.
    fn last_rows(&self, tensor: &EmulatorBuffer) -> Result<Vec<u8>, DeviceError> {
        let bytes = tensor.len() / self.rows() * LAST;
        if self.before > 0 && tensor.read_at(0, bytes).iter().any(|byte| *byte != 0) {
            return Err(DeviceError::Lost { device: "emulator".into(), reason: "the first rows were written".into() });
        }
        Ok(tensor.read_at(tensor.len() - bytes, bytes))
    }

    /// A block for each row.
    fn row_blocks(&self, threads: u32) -> LastBlocks {
        LastBlocks { grid: (self.rows(), 1), first: (self.before, 0), threads, shared: 0 }
    }

    fn launch(
        &self,
        [family, name]: [&str; 2],
        blocks: LastBlocks,
        arguments: &[KernelArgument<'_, EmulatorBuffer>],
    ) -> Result<(), DeviceError> {
        let family = FAMILIES.iter().find(|known| known.name == family).expect("a family");
        let name = family.kernels.iter().find(|known| **known == name).expect("a kernel");
        let pair = |(x, y): (usize, usize)| (x as u32, y as u32);
        let LastBlocks { grid, first, threads, shared } = blocks;
        let launch = KernelLaunch { kernel: Kernel { family, name }, grid: pair(grid), threads, shared };
        self.emulator.launch_blocks_from(launch, pair(first), arguments)
    }
}

/// Runs a kernel on tensors with such ends, and returns the last rows of its result.
type SparseRun = fn(&TensorEnds<'_>) -> Result<Vec<u8>, DeviceError>;

/// A kernel, the columns of its largest tensor, and its run.
struct SparseCase {
    name: &'static str,
    columns: usize,
    run: SparseRun,
}

const fn case(name: &'static str, columns: usize, run: SparseRun) -> SparseCase {
    SparseCase { name, columns, run }
}

const CASES: [SparseCase; 23] = [
    case("norm", WIDTH, |at| norm(at, "norm_bf16", at.row_blocks(128), &[])),
    case("norm_short", WIDTH, |at| {
        let blocks = at.row_blocks(128);
        let (grid, first) = ((blocks.grid.0.div_ceil(4), 1), (blocks.first.0 / 4, 0));
        norm(at, "norm_short_bf16", LastBlocks { grid, first, ..blocks }, &[U32(at.rows() as u32)])
    }),
    case("gate", WIDTH, |at| {
        let (out, x) = (at.zeros(WIDTH / 2, HALF)?, at.tensor(&halves(LAST * WIDTH, 0.7))?);
        let arguments = [Buffer(&out), Buffer(&x), U32(WIDTH as u32 / 2), U32(2)];
        at.launch(["activation", "gate_bf16"], at.row_blocks(128), &arguments)?;
        at.last_rows(&out)
    }),
    case("finish", WIDTH, |at| {
        let (x, residual) = (at.tensor(&halves(LAST * WIDTH, 0.7))?, at.tensor(&halves(LAST * WIDTH, 0.3))?);
        let bias = at.upload(&floats(WIDTH, 1.1))?;
        let arguments = [Buffer(&x), Buffer(&bias), Buffer(&residual), U32(WIDTH as u32), U32(2)];
        at.launch(["activation", "finish_bf16"], at.row_blocks(128), &arguments)?;
        at.last_rows(&x)
    }),
    case("rotate", WIDTH, |at| {
        let (x, positions) = (at.tensor(&halves(LAST * WIDTH, 0.7))?, at.tensor(&words(&[5, 0, 7]))?);
        let table = at.upload(&halves(8 * 64, 0.3))?;
        let sizes = [WIDTH as u32, 0, 16, 64, 32, 0].map(U32);
        let arguments = [&[Buffer(&x), Buffer(&table), Buffer(&positions)], &sizes[..]].concat();
        at.launch(["rotary", "rotate_bf16"], at.row_blocks(128), &arguments)?;
        at.last_rows(&x)
    }),
    case("embed", WIDTH, |at| {
        let (out, table) = (at.zeros(WIDTH, HALF)?, at.tensor(&halves(LAST * WIDTH, 0.7))?);
        let ids = at.tensor(&words(&[2, 0, 1].map(|row| at.before + row)))?;
        let tables = [Buffer(&out), Buffer(&table), Buffer(&ids), Null, Null, Null, Null, Null, Null];
        let arguments = [&tables[..], &[U32(WIDTH as u32), F32(0.5)]].concat();
        at.launch(["rows", "embed_bf16"], at.row_blocks(128), &arguments)?;
        at.last_rows(&out)
    }),
    case("gather", WIDTH, |at| {
        let (out, x) = (at.zeros(WIDTH, HALF)?, at.tensor(&halves(LAST * WIDTH, 0.7))?);
        let rows = at.tensor(&words(&[2, 0, 1].map(|row| at.before + row)))?;
        let arguments = [Buffer(&out), Buffer(&x), Buffer(&rows), U32(WIDTH as u32)];
        at.launch(["rows", "gather_bf16"], at.row_blocks(128), &arguments)?;
        at.last_rows(&out)
    }),
    case("scatter", WIDTH, |at| {
        let (into, from) = (at.zeros(WIDTH, HALF)?, at.tensor(&halves(LAST * WIDTH, 0.7))?);
        let rows = at.tensor(&words(&[2, 0, 1].map(|row| at.before + row)))?;
        let sizes = [WIDTH as u32, 0, WIDTH as u32].map(U32);
        let arguments = [&[Buffer(&into), Buffer(&rows), Buffer(&from)], &sizes[..]].concat();
        at.launch(["rows", "scatter_bf16"], at.row_blocks(128), &arguments)?;
        at.last_rows(&into)
    }),
    case("round_to_bf16", WIDTH, |at| {
        let (out, x) = (at.zeros(WIDTH, HALF)?, at.tensor(&floats(LAST * WIDTH, 0.7))?);
        let count = (at.rows() * WIDTH) as u64;
        let blocks = LastBlocks {
            grid: (at.rows() * WIDTH / 256, 1),
            first: (at.before * WIDTH / 256, 0),
            ..LastBlocks::all(1, 1, 256)
        };
        let arguments = [Buffer(&out), Buffer(&x), U32(count as u32), U32((count >> 32) as u32)];
        at.launch(["rows", "round_to_bf16"], blocks, &arguments)?;
        at.last_rows(&out)
    }),
    case("average of far rows", WIDTH, |at| {
        let (out, x) = (at.upload(&[0; 2 * WIDTH * FLOAT])?, at.tensor(&halves(LAST * WIDTH, 0.7))?);
        let ends = at.upload(&words(&[0, 2, 3].map(|row| at.before + row)))?;
        let arguments = [Buffer(&out), Buffer(&x), Buffer(&ends), U32(WIDTH as u32)];
        at.launch(["pool", "average_bf16"], LastBlocks::all(2, 8, 128), &arguments)?;
        Ok(out.read_at(0, out.len()))
    }),
    case("average to far rows", WIDTH, |at| {
        let (out, x) = (at.zeros(WIDTH, FLOAT)?, at.upload(&halves(4 * WIDTH, 0.7))?);
        // One end more than there are sequences.
        let ends = TensorEnds { emulator: at.emulator, before: at.before + 1 }.tensor(&words(&[2, 3, 4]))?;
        let arguments = [Buffer(&out), Buffer(&x), Buffer(&ends), U32(WIDTH as u32)];
        at.launch(["pool", "average_bf16"], LastBlocks { grid: (at.rows(), 8), ..at.row_blocks(128) }, &arguments)?;
        at.last_rows(&out)
    }),
    case("product to far rows", 2056, |at| product(at, 8, 2056)),
    case("product of far rows", 2056, |at| product(at, 2056, 8)),
    case("product with a far weight", WIDTH, |at| {
        let (out, x) = (at.upload(&[0; 2 * LAST * HALF])?, at.upload(&halves(2 * WIDTH, 0.3))?);
        let weight = at.tensor(&halves(LAST * WIDTH, 0.7))?;
        let sizes = [at.before as u32, 2, WIDTH as u32, LAST as u32].map(U32);
        let arguments = [&[Buffer(&out), Buffer(&x), Buffer(&weight)], &sizes[..], &[F32(0.5)]].concat();
        at.launch(["product", "product_bf16"], LastBlocks::all(1, 1, 256), &arguments)?;
        Ok(out.read_at(0, out.len()))
    }),
    case("log_probs", 8 * WIDTH, |at| {
        let (parts, targets) = (at.zeros(2, FLOAT)?, at.tensor(&words(&[5, 70, 999]))?);
        let (found, logits) = (at.zeros(1, FLOAT)?, at.tensor(&floats(LAST * 8 * WIDTH, 0.7))?);
        let inverses = at.upload(&floats(2, 0.5)[FLOAT..])?;
        let buffers = [Buffer(&parts), Buffer(&found), Buffer(&logits), Null, Buffer(&targets), Buffer(&inverses)];
        let arguments = [&buffers[..], &[8 * WIDTH as u32, 0, 1000, 1, 0, 2].map(U32)].concat();
        at.launch(["log_probs", "log_probs_tile"], at.row_blocks(256), &arguments)?;
        Ok([at.last_rows(&parts)?, at.last_rows(&found)?].concat())
    }),
    case("highest", 8 * WIDTH, |at| {
        let (parts, logits) = (at.zeros(3, FLOAT)?, at.tensor(&floats(LAST * 8 * WIDTH, 0.7))?);
        let sizes = [8 * WIDTH as u32, 0, 1000, 0, 3].map(U32);
        let arguments = [&[Buffer(&parts), Buffer(&logits), Null], &sizes[..]].concat();
        at.launch(["log_probs", "highest_tile"], at.row_blocks(256), &arguments)?;
        at.last_rows(&parts)
    }),
    case("draw", 8 * WIDTH, |at| {
        let (drawn, logits) = (at.zeros(8, FLOAT)?, at.tensor(&floats(LAST * 8 * WIDTH, 0.7))?);
        let rules = [[1.4, 30.0, 0.9, 0.37], [0.7, 0.0, 0.5, 0.81], [2.9, 7.0, 1.0, 0.11]];
        let rules = at.tensor(&rules.as_flattened().iter().flat_map(|x: &f64| x.to_le_bytes()).collect::<Vec<_>>())?;
        let buffers = [Buffer(&drawn), Buffer(&logits), Null, Buffer(&rules)];
        let arguments = [&buffers[..], &[8 * WIDTH as u32, 1000].map(U32)].concat();
        at.launch(["draw", "draw_token"], at.row_blocks(512), &arguments)?;
        at.last_rows(&drawn)
    }),
    case("attention_64", WIDTH, |at| attention(at, ["attention", "attention_64"], 64, true)),
    case("attention_short_64", WIDTH, |at| attention(at, ["attention", "attention_short_64"], 64, true)),
    case("attention_grouped_64", WIDTH, grouped_attention),
    case("attention_64, not aligned", WIDTH, |at| attention(at, ["attention", "attention_64"], 64, false)),
    case("attention_96", 11 * 96, |at| attention(at, ["attention", "attention_96"], 96, true)),
    case("attention_plain", 3 * 344, |at| attention(at, ["attention_plain", "attention_plain_bf16"], 344, true)),
];

/// Rows of one group.
fn norm(
    at: &TensorEnds<'_>,
    kernel: &str,
    blocks: LastBlocks,
    count: &[KernelArgument<'_, EmulatorBuffer>],
) -> Result<Vec<u8>, DeviceError> {
    let (out, x) = (at.zeros(WIDTH, HALF)?, at.tensor(&halves(LAST * WIDTH, 0.7))?);
    let (weight, bias) = (at.upload(&floats(WIDTH, 0.3))?, at.upload(&floats(WIDTH, 1.1))?);
    let numbers = [F32(1e-5), U32(WIDTH as u32), U32(0), U32(1), U32(WIDTH as u32)];
    let arguments = [&[Buffer(&out), Buffer(&x), Buffer(&weight), Buffer(&bias)], &numbers[..], count].concat();
    at.launch(["norm", kernel], blocks, &arguments)?;
    at.last_rows(&out)
}

/// A product of all rows, 32 in a block.
fn product(at: &TensorEnds<'_>, inner: usize, columns: usize) -> Result<Vec<u8>, DeviceError> {
    let (out, x) = (at.zeros(columns, HALF)?, at.tensor(&halves(LAST * inner, 0.7))?);
    let weight = at.upload(&halves(columns * inner, 0.3))?;
    let sizes = [0, at.rows() as u32, inner as u32, columns as u32].map(U32);
    let arguments = [&[Buffer(&out), Buffer(&x), Buffer(&weight)], &sizes[..], &[F32(0.5)]].concat();
    let (grid, first) = ((columns.div_ceil(32), at.rows().div_ceil(32)), (0, at.before / 32));
    at.launch(["product", "product_bf16"], LastBlocks { grid, first, ..LastBlocks::all(1, 1, 256) }, &arguments)?;
    at.last_rows(&out)
}

/// The last rows attend to each other, in every head.
fn attention(at: &TensorEnds<'_>, kernel: [&str; 2], head_dim: usize, aligned: bool) -> Result<Vec<u8>, DeviceError> {
    let heads = if head_dim == 64 {
        WIDTH / 64
    } else if head_dim == 96 {
        11
    } else {
        3
    };
    let columns = heads * head_dim;
    let out = at.zeros(columns, HALF)?;
    let [q, k, v] = [0.7, 0.3, 1.1].map(|step| at.tensor(&halves(LAST * columns, step)));
    // First row, rows, position of the first, first of the keys, keys.
    let tiles = at.upload(&words(&[at.before, LAST, 0, 0, LAST]))?;
    let keys = at.upload(&words(&[2, 0, 1].map(|row| at.before + row)))?;
    let (q, k, v) = (q?, k?, v?);
    let buffers = [&out, &q, &k, &v, &tiles, &keys].map(Buffer);
    let stride = columns as u32;
    let shapes = [0, stride, 0, stride, 0, stride, 1, head_dim as u32].map(U32);
    let rest = [F32(0.125), U32(0), U32(u32::MAX), U32(0), U32(u32::from(aligned))];
    let arguments = [&buffers[..], &[Null; 4], &shapes[..], &rest[..]].concat();
    // Keys and values of two tiles or of one, 64 rows each, with eight numbers behind a row.
    let (threads, tensors) = match kernel {
        ["attention", name] if name.contains("short") => (64, 2),
        ["attention", _] => (128, 4),
        _ => (128, 0),
    };
    let shared = tensors * 64 * (head_dim as u32 + 8) * HALF as u32;
    at.launch(kernel, LastBlocks { shared, ..LastBlocks::all(1, heads, threads) }, &arguments)?;
    at.last_rows(&out)
}

/// Rows of 16 heads that share one of keys, a tile each.
fn grouped_attention(at: &TensorEnds<'_>) -> Result<Vec<u8>, DeviceError> {
    let (heads, head_dim) = (WIDTH / 64, 64);
    let (out, q) = (at.zeros(WIDTH, HALF)?, at.tensor(&halves(LAST * WIDTH, 0.7))?);
    let [k, v] = [0.3, 1.1].map(|step| at.upload(&halves(LAST * head_dim, step)));
    let tiles = (0..LAST).flat_map(|row| [at.before + row, 1, 0, 0, LAST]).collect::<Vec<_>>();
    let (tiles, keys, k, v) = (at.upload(&words(&tiles))?, at.upload(&words(&[2, 0, 1]))?, k?, v?);
    let buffers = [&out, &q, &k, &v, &tiles, &keys].map(Buffer);
    let (width, head_dim) = (WIDTH as u32, head_dim as u32);
    let shapes = [0, width, 0, head_dim, 0, head_dim, heads as u32, head_dim].map(U32);
    let rest = [F32(0.125), U32(0), U32(u32::MAX), U32(0), U32(1)];
    let arguments = [&buffers[..], &[Null; 4], &shapes[..], &rest[..]].concat();
    let blocks = LastBlocks { shared: 2 * 64 * (head_dim + 8) * HALF as u32, ..LastBlocks::all(LAST, 1, 64) };
    at.launch(["attention", "attention_grouped_64"], blocks, &arguments)?;
    at.last_rows(&out)
}

/// The outcome of a case without a difference.
#[derive(Debug, PartialEq, Eq)]
enum CaseOutcome {
    Equal,
    /// The system refuses so much memory, though it is sparse.
    Skipped,
}

/// Runs a case with rows before the last ones and without, and returns the difference, if there is one.
fn run_case(emulator: &Emulator, case: &SparseCase) -> Result<CaseOutcome, String> {
    let ends = |before| TensorEnds { emulator, before };
    let message = |error: DeviceError| format!("{}: {error}", case.name);
    let expected = (case.run)(&ends(0)).map_err(message)?;
    assert!(expected.iter().any(|byte| *byte != 0), "{}: nothing was written", case.name);
    // Whole tiles of 32 rows, and 2^32 numbers or more.
    let before = (1_usize << 32).div_ceil(case.columns).next_multiple_of(32);
    let found = match (case.run)(&ends(before)) {
        Err(DeviceError::OutOfMemory { wanted, .. }) => {
            eprintln!("SKIPPED: {}: the system refuses a tensor of {wanted} bytes, though it is sparse", case.name);
            return Ok(CaseOutcome::Skipped);
        }
        found => found.map_err(message)?,
    };
    if found == expected {
        Ok(CaseOutcome::Equal)
    } else {
        Err(format!("{}: other bits behind {before} rows", case.name))
    }
}

fn emulator(sources: KernelSources) -> Emulator {
    let options = EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR"));
    Emulator::new(EmulatorOptions { sources, ..options }).expect("kernels that compile")
}

/// The most memory that this process ever had, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of the peak");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") * 1024
}

#[test]
fn rows_behind_four_billion_numbers_have_the_same_bits() {
    let emulator = emulator(KernelSources::device_kernels());
    for case in &CASES {
        let begun = Instant::now();
        run_case(&emulator, case).unwrap_or_else(|error| panic!("{error}"));
        eprintln!("{}: {:.1?}, peak {} MiB", case.name, begun.elapsed(), peak_memory() >> 20);
    }
    assert!(peak_memory() < 2 << 30, "{} bytes", peak_memory());
}

/// An index in 32 bits, and the cases that it spoils.
struct ShortIndex {
    file: &'static str,
    was: &'static str,
    becomes: &'static str,
    cases: &'static [&'static str],
}

const fn short(
    file: &'static str,
    was: &'static str,
    becomes: &'static str,
    cases: &'static [&'static str],
) -> ShortIndex {
    ShortIndex { file, was, becomes, cases }
}

const SHORT: [ShortIndex; 21] = [
    short(
        "norm",
        "static_cast<size_t>(number / groups) * stride + start + static_cast<size_t>(number % groups) * width;",
        "number / groups * stride + start + number % groups * width;",
        &["norm", "norm_short"],
    ),
    short(
        "activation",
        "const size_t row = blockIdx.x;\n    x += row * n;",
        "const u32 row = blockIdx.x;\n    x += row * n;",
        &["finish"],
    ),
    short("activation", "const size_t row = blockIdx.x;\n    out", "const u32 row = blockIdx.x;\n    out", &["gate"]),
    short("rotary", "const size_t row", "const u32 row", &["rotate"]),
    short("rows", "static_cast<size_t>(ids[row]) * columns", "ids[row] * columns", &["embed"]),
    short("rows", "x + static_cast<size_t>(rows[row]) * columns", "x + rows[row] * columns", &["gather"]),
    short("rows", "into + static_cast<size_t>(rows[row]) * columns", "into + rows[row] * columns", &["scatter"]),
    short("rows", "static_cast<size_t>(blockIdx.x) * blockDim.x", "blockIdx.x * blockDim.x", &["round_to_bf16"]),
    short("pool", "for (size_t row = first;", "for (u32 row = first;", &["average of far rows"]),
    short("pool", "const size_t sequence", "const u32 sequence", &["average to far rows"]),
    short("product", "put(out[static_cast<size_t>(row) * columns", "put(out[row * columns", &["product to far rows"]),
    short("product", "x[static_cast<size_t>(row) * inner", "x[row * inner", &["product of far rows"]),
    short(
        "product",
        "(static_cast<size_t>(first) + column) * inner",
        "(first + column) * inner",
        &["product with a far weight"],
    ),
    short("log_probs", "const size_t row", "const u32 row", &["log_probs"]),
    short("log_probs", "static_cast<size_t>(blockIdx.x) * stride", "blockIdx.x * stride", &["highest"]),
    short("draw", "logits + static_cast<size_t>(blockIdx.x) * stride", "logits + blockIdx.x * stride", &["draw"]),
    short(
        "attention",
        "static_cast<size_t>(row_of(begin + i)) * row_bytes",
        "row_of(begin + i) * row_bytes",
        &["attention_64"],
    ),
    short(
        "attention",
        "const size_t offset = there ? static_cast<size_t>(row_of(line)) * stride + first : 0;",
        "const u32 offset = there ? row_of(line) * stride + first : 0;",
        &["attention_96"],
    ),
    short(
        "attention",
        "from[static_cast<size_t>(row_of(line)) * stride + column]",
        "from[row_of(line) * stride + column]",
        &["attention_64, not aligned"],
    ),
    short(
        "attention",
        "q + static_cast<size_t>(first_row) * o.q_stride",
        "q + first_row * o.q_stride",
        &["attention_grouped_64"],
    ),
    short(
        "attention_plain",
        "(static_cast<size_t>(row) * gridDim.y + head) * o.head_dim",
        "(row * gridDim.y + head) * o.head_dim",
        &["attention_plain"],
    ),
];

/// All of them are in one library, for each spoils other cases.
#[test]
fn an_index_of_32_bits_is_found() {
    let mut sources = KernelSources::device_kernels();
    sources.families.retain(|family| SHORT.iter().any(|short| short.file == family.name));
    for ShortIndex { file, was, becomes, .. } in SHORT {
        let family = sources.families.iter_mut().find(|family| family.name == file).expect("a family");
        assert_eq!(family.text.matches(was).count(), 1, "{file}.cu: {was}");
        family.text = family.text.replace(was, becomes);
    }
    // Those that the cases launch; all of them would take long to compile.
    let attention = sources.families.iter_mut().find(|family| family.name == "attention").expect("a family");
    attention
        .kernels
        .retain(|kernel| ["attention_64", "attention_96", "attention_grouped_64"].contains(&kernel.as_str()));
    let emulator = emulator(sources);
    for ShortIndex { file, becomes, cases, .. } in SHORT {
        for name in cases {
            let case = CASES.iter().find(|case| case.name == *name).expect("a case");
            let outcome = run_case(&emulator, case);
            let found = matches!(&outcome, Err(found) if found.contains("other bits") || found.contains("first rows"));
            assert!(found || outcome == Ok(CaseOutcome::Skipped), "{file}.cu: {becomes}: {name}: {outcome:?}");
            eprintln!("{file}.cu: {}: {outcome:?}", becomes.replace('\n', ""));
        }
    }
}
