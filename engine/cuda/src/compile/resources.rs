//! Reads a kernel's use of a multiprocessor from a compiler's log, and makes a table of it.

use super::{CompileError, CompiledFamily, Compiler};
use crate::attention::dynamic_shared;
use crate::kernels::{FAMILIES, KernelFamily};
use crate::machine::GpuArchitecture;
use std::fmt::Write as _;
use std::thread;
use std::{array, mem, panic};

/// Architectures that all kernels are tested to compile for.
pub const ARCHITECTURES: [GpuArchitecture; 4] =
    [GpuArchitecture::new(8, 0), GpuArchitecture::new(8, 9), GpuArchitecture::new(9, 0), GpuArchitecture::new(10, 0)];

/// The resources of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelResources {
    /// The kernel's name.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block, in bytes; the compiler does not know the dynamic part of a launch.
    pub shared: u32,
    /// Local memory of a thread for arrays and saved registers, in bytes.
    pub stack: u32,
    /// Bytes of registers that a thread stores to local memory for lack of room.
    pub spill_stores: u32,
    /// Bytes that it loads again.
    pub spill_loads: u32,
}

/// The kernels of a log made with ptxas's `-v`, by name. Lines outside ptxas's report are skipped.
///
/// ```text
/// ptxas info    : Compiling entry function 'norm_f32' for 'sm_90'
/// ptxas info    : Function properties for norm_f32
///     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
/// ptxas info    : Used 32 registers, used 1 barriers, 128 bytes smem
/// ```
pub fn parse_log(log: &str) -> Vec<KernelResources> {
    let mut found: Vec<KernelResources> = Vec::new();
    for line in log.lines() {
        if let Some(kernel) = line.split("Compiling entry function '").nth(1).and_then(|rest| rest.split('\'').next()) {
            let kernel = kernel.to_owned();
            found.push(KernelResources { kernel, registers: 0, shared: 0, stack: 0, spill_stores: 0, spill_loads: 0 });
        }
        let Some(last) = found.last_mut() else { continue };
        if line.contains("bytes stack frame") {
            last.stack = number_before(line, " bytes stack frame");
            last.spill_stores = number_before(line, " bytes spill stores");
            last.spill_loads = number_before(line, " bytes spill loads");
        }
        if line.contains(": Used ") {
            last.registers = number_before(line, " registers");
            last.shared = number_before(line, " bytes smem");
        }
    }
    found.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    found
}

/// The number before `word`; 0 if the word is absent: ptxas leaves out zero counts.
fn number_before(line: &str, word: &str) -> u32 {
    let before = line.split_once(word).map_or("", |(before, _)| before);
    before.rsplit([' ', ',']).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// A family's kernels on each of [`ARCHITECTURES`].
#[derive(Clone, Debug)]
pub struct FamilyResources {
    /// The family.
    pub family: &'static KernelFamily,
    /// In the order of [`ARCHITECTURES`].
    pub kernels: [Vec<KernelResources>; ARCHITECTURES.len()],
    /// Machine code, in the same order.
    pub cubins: [Vec<u8>; ARCHITECTURES.len()],
}

/// Compiles every family for each of [`ARCHITECTURES`], these beside each other, and reads the logs.
///
/// # Errors
/// As [`Compiler::compile_family`].
pub fn measure_families(compiler: &Compiler) -> Result<Vec<FamilyResources>, CompileError> {
    let compile_all = |architecture| {
        let compile = |family| compiler.compile_family(family, architecture);
        FAMILIES.iter().map(compile).collect::<Result<Vec<_>, _>>()
    };
    let mut columns: Vec<Vec<CompiledFamily>> = thread::scope(|scope| {
        let compile_all = &compile_all;
        let threads = ARCHITECTURES.map(|architecture| scope.spawn(move || compile_all(architecture)));
        let joined =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    let measure = |(at, family): (usize, &'static KernelFamily)| FamilyResources {
        family,
        kernels: array::from_fn(|column| parse_log(&columns[column][at].log)),
        cubins: array::from_fn(|column| mem::take(&mut columns[column][at].cubin)),
    };
    Ok(FAMILIES.iter().enumerate().map(measure).collect())
}

/// The table of `ops/bench/gpu/registers.md`: for each kernel the dynamic shared memory of its launches, and for each
/// architecture registers / static shared memory / spilled bytes, both ways.
pub fn format_table(measured: &[FamilyResources]) -> String {
    let mut table = String::from("| family | kernel | dynamic shared |");
    for architecture in ARCHITECTURES {
        let _ = write!(table, " {architecture} |");
    }
    table += "\n| --- | --- | --- |";
    table += &" --- |".repeat(ARCHITECTURES.len());
    table.push('\n');
    for FamilyResources { family, kernels, .. } in measured {
        for name in family.kernels {
            let _ = write!(table, "| {} | `{name}` | {} B |", family.name, dynamic_shared(name));
            for kernels in kernels {
                let kernel = kernels.iter().find(|kernel| kernel.kernel == *name);
                let _ = write!(table, " {} |", kernel.map_or("-".to_owned(), format_cell));
            }
            table.push('\n');
        }
    }
    table
}

fn format_cell(kernel: &KernelResources) -> String {
    let KernelResources { registers, shared, stack, spill_stores, spill_loads, .. } = kernel;
    let stack = if *stack > 0 { format!(", stack {stack} B") } else { String::new() };
    format!("{registers} / {shared} B / {} B{stack}", spill_stores + spill_loads)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
rows.cu(12): warning #177-D: variable \"x\" was declared but never referenced
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : Function properties for second
    48 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 48 bytes cumulative stack size, 1152 bytes smem
ptxas info    : Compile time = 3.000 ms
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 18 registers, used 0 barriers, 396 bytes cmem[0]
";

    #[test]
    fn a_log_tells_each_kernels_registers_shared_memory_and_spills() {
        let first = KernelResources {
            kernel: "first".into(),
            registers: 18,
            shared: 0,
            stack: 0,
            spill_stores: 0,
            spill_loads: 0,
        };
        let second = KernelResources {
            kernel: "second".into(),
            registers: 255,
            shared: 1152,
            stack: 48,
            spill_stores: 40,
            spill_loads: 44,
        };
        assert_eq!(format_cell(&first), "18 / 0 B / 0 B");
        assert_eq!(format_cell(&second), "255 / 1152 B / 84 B, stack 48 B");
        assert_eq!(parse_log(LOG), [first, second]);
        assert_eq!(parse_log("no report"), []);
    }
}
