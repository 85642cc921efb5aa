//! Compiles every kernel for every architecture by NVRTC, without a GPU, and disassembles it: no register may be
//! spilled, and counts of instructions are those of a committed table.
//!
//! NVRTC and nvdisasm come from the Python package index into folders below `target`, once. The loader's path is fixed
//! when a process begins, so one test here runs this binary again, with the path set, for all tests in `with_nvrtc`,
//! and another one for those in `with_nvrtc_12`: the tables are of CUDA 13, and the oldest NVRTC that is served must
//! compile the same kernels.
//!
//! `HOPEVAL_BLESS=1 cargo test -p hopeval-cuda --test nvrtc` writes the tables `ops/bench/gpu/registers.md` and
//! `sass.md` anew.

#[path = "nvrtc/packages.rs"]
mod packages;

use hopeval_cuda::compile::{CompileError, Compiler};
use hopeval_cuda::driver::Driver;
use hopeval_cuda::energy::{EnergyError, EnergyMeter};
use hopeval_cuda::machine::{CudaFacts, MissingRequirement};
use hopeval_device::DeviceError;
use packages::{NVRTC, install};
use std::process::Command;

/// The oldest that is served.
const NVRTC_12: &str = "nvidia-cuda-nvrtc-cu12==12.4.127";

/// The oldest release that the index has; it reads the code of older compilers.
const NVDISASM: &str = "nvidia-cuda-nvdisasm==13.2.51";

/// Names the disassembler to the tests in `with_nvrtc`.
const NVDISASM_PATH: &str = "HOPEVAL_TEST_NVDISASM";

/// Runs all of [`with_nvrtc`] in a process that finds the library.
#[test]
fn the_compiler_does_what_it_should() {
    let library = match install(NVRTC, "nvrtc") {
        Ok(installed) => installed.join("cu13/lib"),
        Err(reason) => {
            eprintln!("SKIPPED: nvrtc: {NVRTC} cannot be installed: {reason}");
            return;
        }
    };
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["with_nvrtc::", "--ignored", "--nocapture", "--test-threads=1"]).env("LD_LIBRARY_PATH", library);
    match install(NVDISASM, "nvdisasm") {
        Ok(installed) => child.env(NVDISASM_PATH, installed.join("cu13/bin/nvdisasm")),
        Err(reason) => {
            eprintln!("SKIPPED: table of instructions: {NVDISASM} cannot be installed: {reason}");
            child.env_remove(NVDISASM_PATH)
        }
    };
    let output = child.output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    println!("{said}");
    assert!(output.status.success() && said.contains("5 passed"), "{child:?}");
}

/// Runs [`with_nvrtc_12`] in a process that finds that library, whose file has the number of CUDA 12 in its name.
#[test]
fn the_oldest_compiler_that_is_served_does_too() {
    let library = match install(NVRTC_12, "nvrtc-12") {
        Ok(installed) => installed.join("cuda_nvrtc/lib"),
        Err(reason) => {
            eprintln!("SKIPPED: nvrtc: {NVRTC_12} cannot be installed: {reason}");
            return;
        }
    };
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["with_nvrtc_12::", "--ignored", "--nocapture"]).env("LD_LIBRARY_PATH", library);
    let output = child.output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    println!("{said}");
    assert!(output.status.success() && said.contains("1 passed"), "{child:?}");
}

/// Each error names the missing part; no call goes into an absent library, which would panic.
#[test]
fn what_is_missing_is_an_error_that_says_what_to_do() {
    // No machine has a thousand devices, so this holds on one with a GPU, too.
    let error = Driver::open(1000, None).unwrap_err();
    let DeviceError::Unavailable { name, reason } = &error else { panic!("{error}") };
    assert_eq!(name, "cuda:1000");
    let facts = CudaFacts::collect_facts();
    println!("{error}\n{facts:#?}");
    match (&facts.driver, &facts.devices) {
        (Err(missing), Err(same)) => assert!(missing == same && *reason == missing.to_string(), "{missing}: {same}"),
        (Ok(_), Err(missing)) => assert_eq!(*reason, missing.to_string()),
        (Ok(_), Ok(devices)) => assert_eq!(*reason, MissingRequirement::Ordinal { devices: devices.len() }.to_string()),
        (Err(missing), Ok(devices)) => panic!("{missing}, but {devices:?}"),
    }
    if facts.driver == Err(MissingRequirement::Driver) {
        assert!(reason.contains("libcuda.so.1") && reason.contains("install"), "{reason}");
        assert!(!facts.is_usable());
        assert!(matches!(EnergyMeter::open("GPU-0"), Err(EnergyError::Absent(_))));
    }
    if facts.nvrtc == Err(MissingRequirement::Nvrtc) {
        let error = Compiler::find().unwrap_err();
        assert!(matches!(error, CompileError::Missing(MissingRequirement::Nvrtc)), "{error}");
        assert!(error.to_string().contains("pip install 'nvidia-cuda-nvrtc==13.0.*'"), "{error}");
        assert!(error.to_string().contains("for a driver of CUDA 12: nvidia-cuda-nvrtc-cu12, "), "{error}");
    }
}

/// A test with NVRTC 12.4 on the loader's path.
mod with_nvrtc_12 {
    use hopeval_cuda::compile::Compiler;
    use hopeval_cuda::compile::resources::{ARCHITECTURES, parse_log};
    use hopeval_cuda::kernels::FAMILIES;
    use hopeval_cuda::machine::{GpuArchitecture, OLDEST_CUDA};
    use std::{thread, time};

    #[test]
    #[ignore = "run by the_oldest_compiler_that_is_served_does_too"]
    fn every_kernel_compiles_without_local_memory() {
        let compiler = Compiler::find().unwrap();
        assert_eq!(compiler.version(), OLDEST_CUDA);
        let begun = time::Instant::now();
        // The last one came with 12.8.
        let known = &ARCHITECTURES[..3];
        let compile_all = |architecture: GpuArchitecture| {
            assert_eq!(compiler.target_for(architecture), Ok(architecture));
            for family in &FAMILIES {
                let made = compiler.compile_family(family, architecture).unwrap_or_else(|error| panic!("{error}"));
                assert!(made.cubin.starts_with(b"\x7fELF"), "{}.cu for {architecture}", family.name);
                let kernels = parse_log(&made.log);
                let mut listed = family.kernels.to_vec();
                listed.sort_unstable();
                assert!(kernels.iter().map(|kernel| kernel.kernel.as_str()).eq(listed), "{}.cu", family.name);
                for kernel in kernels {
                    let local = kernel.stack + kernel.spill_stores + kernel.spill_loads;
                    assert!(kernel.registers > 0 && local == 0, "{architecture}: {kernel:?}");
                }
            }
        };
        thread::scope(|scope| known.iter().for_each(|architecture| drop(scope.spawn(|| compile_all(*architecture)))));
        println!("{} families for {} architectures: {:.1?}", FAMILIES.len(), known.len(), begun.elapsed());
        let newer = compiler.target_for(ARCHITECTURES[3]).unwrap_err().to_string();
        let expected = "NVRTC 12.4 makes no machine code for sm_100: install a newer one (12.8 is the first for sm_100";
        assert!(newer.starts_with(expected), "{newer}");
    }
}

/// Tests with NVRTC on the loader's path.
mod with_nvrtc {
    use hopeval_cuda::compile::resources::{ARCHITECTURES, FamilyResources, format_table, measure_families};
    use hopeval_cuda::compile::sass::table::{KernelRow, find_changes, format_rows, measure_rows};
    use hopeval_cuda::compile::{CompileError, Compiler, load_families, load_family};
    use hopeval_cuda::kernels::{FAMILIES, KernelFamily};
    use std::io::{self, Write as _};
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::sync::OnceLock;
    use std::{env, fs, time};

    /// Kernels allowed to spill: none. Each name here is followed by the reason.
    const MAY_SPILL: [&str; 0] = [];

    const INTRODUCTION: &str = "\
# Registers, shared memory and spills of the kernels

For each architecture registers of a thread / static shared memory of a block / registers that a thread spills and loads again,
in bytes, as ptxas reports them, and the dynamic shared memory that a launch adds. No kernel spills a register: a test
compiles them all and compares this table, which `HOPEVAL_BLESS=1 cargo test -p hopeval-cuda --test nvrtc` writes.
";

    /// Kernels allowed to call the compiler's 64-bit division: none. Each name here is followed by the reason.
    const MAY_DIVIDE: [&str; 0] = [];

    const SASS_INTRODUCTION: &str = "\
# Instructions of the kernels

Machine code by NVRTC as `nvdisasm` shows it, a row for each kernel and architecture. A test disassembles all kernels
and compares this table; `HOPEVAL_BLESS=1 cargo test -p hopeval-cuda --test nvrtc` writes it. The test names each
count that changed as better, worse, or neither. Nothing here was measured: no kernel ran.

Counts are of instructions in the code, not of executions, with the compiler's subroutines and without NOPs:

* *HMMA* are products on tensor cores, and *types* their shapes and types. *LDSM* loads matrices from shared memory.
  *LDGSTS* copies to shared memory asynchronously.
* *LDG* and *STG* load from and store to global memory: by bits of a thread. Wide ones are better.
* *local* is local memory (LDL, STL), *calls: division* is 64-bit division or remainder: both are always 0. *other* are
  calls for subnormal or huge divisors and for warps that have diverged.
* *MUFU* are functions of the special unit, *BAR* barriers of a block.
* *all* is the code's length. *loop* is the longest loop with its inner loops, each instruction once; unrolling makes
  both longer.
* *a number* is the instructions of a thread over the numbers that it stores, for kernels that work number by number.
  Ways from the first instruction to the end are considered if they store at the kernel's greatest width and call no
  subroutine: the shortest and the longest. So for activations the shortest is the identity, without bias and residual,
  and the longest the dearest function with both; for short norms they have one vector and eight. Guarded instructions
  count as executed. Each loop counts once, as if a thread had one vector. Where the shortest way has fewer loops than
  the longest, it passes by a sum and is left out.
* *occupancy* is of the kernel's largest block, by registers, static and dynamic shared memory (`registers.md`): blocks
  of a multiprocessor at once, their warps in percent of 64, and the scarcest resource. Limits are those of the CUDA
  programming guide's table of compute capabilities; sm_80 has 164 KiB of shared memory, sm_90 and sm_100 have 228 KiB.
";

    /// A committed table beside the others of GPUs.
    fn committed(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops/bench/gpu").join(name)
    }

    /// Writes the table if it is to be blessed; returns the committed text.
    fn bless_and_read(place: &Path, text: &str) -> String {
        if env::var_os("HOPEVAL_BLESS").is_some_and(|value| value == "1") {
            fs::write(place, text).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        }
        fs::read_to_string(place).unwrap_or_default()
    }

    /// All families compiled for all architectures, once for all tests.
    fn measured() -> &'static [FamilyResources] {
        static MEASURED: OnceLock<Vec<FamilyResources>> = OnceLock::new();
        MEASURED.get_or_init(|| {
            let compiler = Compiler::find().unwrap_or_else(|error| panic!("{error}"));
            measure_families(&compiler).unwrap_or_else(|error| panic!("{error}"))
        })
    }

    /// The listing of machine code by the disassembler at `program`.
    fn disassemble(program: &Path, cubin: &[u8]) -> io::Result<String> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(cubin)?;
        let output = Command::new(program).arg("-c").arg(file.path()).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("{}: {}", output.status, said.trim())));
        }
        String::from_utf8(output.stdout).map_err(io::Error::other)
    }

    /// No way through a kernel touches local memory, and none divides by 64 bits that is not known to.
    fn check_bounds(rows: &[KernelRow]) {
        for row in rows {
            let place = format!("{} for {}", row.kernel, row.architecture);
            assert_eq!(row.counts.local, 0, "{place} loads from or stores to local memory");
            let divides = row.counts.division_calls > 0;
            assert!(!divides || MAY_DIVIDE.contains(&row.kernel), "{place} calls 64-bit division");
        }
        for kernel in MAY_DIVIDE {
            let divides = rows.iter().any(|row| row.kernel == kernel && row.counts.division_calls > 0);
            assert!(divides, "{kernel} calls no 64-bit division any more: take it off MAY_DIVIDE");
        }
    }

    #[test]
    #[ignore = "run by the_compiler_does_what_it_should"]
    fn every_kernels_instructions_are_those_of_the_table() {
        let Some(program) = env::var_os(super::NVDISASM_PATH).map(PathBuf::from) else {
            println!("SKIPPED: no {}", super::NVDISASM);
            return;
        };
        let measured = measured();
        let begun = time::Instant::now();
        let rows =
            measure_rows(measured, &|cubin| disassemble(&program, cubin)).unwrap_or_else(|error| panic!("{error:?}"));
        println!("{} rows: {:.1?}", rows.len(), begun.elapsed());
        let text = format!("{SASS_INTRODUCTION}\n{}", format_rows(&rows));
        let place = committed("sass.md");
        let old = bless_and_read(&place, &text);
        let changes: Vec<String> = find_changes(&old, &text).iter().map(ToString::to_string).collect();
        let hint = "HOPEVAL_BLESS=1 cargo test -p hopeval-cuda --test nvrtc writes it";
        assert!(old == text, "{} is old ({hint}):\n{}", place.display(), changes.join("\n"));
        check_bounds(&rows);
    }

    #[test]
    #[ignore = "run by the_compiler_does_what_it_should"]
    fn every_kernel_compiles_for_every_architecture_without_spills() {
        let begun = time::Instant::now();
        let measured = measured();
        println!("{} families: {:.1?}", FAMILIES.len(), begun.elapsed());
        for FamilyResources { family, kernels, .. } in measured {
            for (kernels, architecture) in kernels.iter().zip(ARCHITECTURES) {
                let mut listed = family.kernels.to_vec();
                listed.sort_unstable();
                let found: Vec<&str> = kernels.iter().map(|kernel| kernel.kernel.as_str()).collect();
                assert_eq!(found, listed, "kernels of {}.cu for {architecture}", family.name);
                for kernel in kernels {
                    let spills = kernel.spill_stores + kernel.spill_loads > 0;
                    assert!(!spills || MAY_SPILL.contains(&kernel.kernel.as_str()), "{architecture}: {kernel:?}");
                    assert!(kernel.registers > 0, "{architecture}: {kernel:?}");
                }
            }
        }
        let text = format!("{INTRODUCTION}\n{}", format_table(measured));
        println!("{text}");
        let place = committed("registers.md");
        assert!(bless_and_read(&place, &text) == text, "{} is old: HOPEVAL_BLESS=1 writes it", place.display());
    }

    #[test]
    #[ignore = "run by the_compiler_does_what_it_should"]
    fn a_broken_source_is_an_error_with_the_compilers_log() {
        let compiler = Compiler::find().unwrap();
        let text = "#include \"prelude.cuh\"\nKERNEL(32) broken(u32* to) {\n    to[0] = nothing;\n}\n";
        let broken = KernelFamily { name: "broken", text, kernels: &["broken"] };
        let error = compiler.compile_family(&broken, ARCHITECTURES[0]).unwrap_err();
        let CompileError::Source { family, status, log, .. } = &error else { panic!("{error}") };
        assert_eq!((*family, status.as_str()), ("broken", "NVRTC_ERROR_COMPILATION"));
        assert!(log.contains("broken.cu(3): error") && log.contains("\"nothing\" is undefined"), "{log}");
        assert!(error.to_string().starts_with("broken.cu does not compile for sm_80: "), "{error}");
        assert!(error.to_string().contains(log.trim_end()) && error.to_string().contains("\nhint: "), "{error}");
    }

    #[test]
    #[ignore = "run by the_compiler_does_what_it_should"]
    fn all_families_compile_at_once_and_are_then_read() {
        let compiler = Compiler::find().unwrap();
        let architecture = compiler.target_for(ARCHITECTURES[2]).unwrap();
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("kernels");
        let begun = time::Instant::now();
        let made = load_families(&compiler, Some(&folder), architecture).unwrap();
        println!("{} families at once: {:.1?}", FAMILIES.len(), begun.elapsed());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), FAMILIES.len());
        for (alone, cubin) in measured().iter().zip(&made) {
            assert!(alone.cubins[2] == *cubin, "{}.cu compiled after others", alone.family.name);
        }
        let begun = time::Instant::now();
        assert!(load_families(&compiler, Some(&folder), architecture).unwrap() == made);
        println!("read: {:.1?}", begun.elapsed());

        // The missing file is made again.
        fs::remove_file(fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path()).unwrap();
        assert!(load_families(&compiler, Some(&folder), architecture).unwrap() == made);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), FAMILIES.len());
    }

    #[test]
    #[ignore = "run by the_compiler_does_what_it_should"]
    fn machine_code_is_kept_and_made_anew_where_it_is_damaged() {
        let compiler = Compiler::find().unwrap();
        let (family, architecture) = (&FAMILIES[1], compiler.target_for(ARCHITECTURES[2]).unwrap());
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("kernels");
        let made = || load_family(&compiler, Some(&folder), family, architecture).unwrap();
        let files = || fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();

        let cubin = made();
        assert!(cubin.starts_with(b"\x7fELF"), "{:?}", &cubin[..4]);
        let [file] = files().try_into().unwrap();
        let whole = fs::read(&file).unwrap();
        let written = fs::metadata(&file).unwrap().modified().unwrap();
        assert_eq!(made(), cubin);
        assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), written, "it was read, not made");

        let mut damaged = whole.clone();
        damaged[100] ^= 1;
        fs::write(&file, damaged).unwrap();
        assert_eq!(made(), cubin);
        assert_eq!(fs::read(&file).unwrap(), whole, "it is whole again");

        // Another family's code under this name.
        load_family(&compiler, Some(&folder), &FAMILIES[4], architecture).unwrap();
        let other = files().into_iter().find(|path| *path != file).unwrap();
        fs::copy(&other, &file).unwrap();
        assert_eq!(made(), cubin);

        // An impossible folder: the code is made all the same.
        let nowhere = file.join("kernels");
        assert_eq!(load_family(&compiler, Some(&nowhere), family, architecture).unwrap(), cubin);
        assert_eq!(load_family(&compiler, None, family, architecture).unwrap(), cubin);

        // A process that starts in another folder has the same code, and so the same keys.
        env::set_current_dir(home.path()).unwrap();
        assert_eq!(load_family(&compiler, None, family, architecture).unwrap(), cubin);
    }
}
