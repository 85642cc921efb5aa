//! Compiles every kernel for every architecture by NVRTC, without a GPU: no register may be spilled.
//!
//! NVRTC comes from the Python package index into a folder below `target`, once. The loader's path is fixed when a
//! process begins, so each test here runs this binary again, with the path set, for the test of the same name in
//! `with_nvrtc`.
//!
//! `HOPEVAL_BLESS=1 cargo test -p hopeval-cuda --test nvrtc` writes the table `ops/bench/gpu/registers.md` anew.

use hopeval_cuda::compile::{CompileError, Compiler};
use hopeval_cuda::driver::Driver;
use hopeval_cuda::energy::{EnergyError, EnergyMeter};
use hopeval_cuda::machine::{CudaFacts, MissingRequirement};
use hopeval_device::DeviceError;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One release, so that the table is the same everywhere.
const NVRTC: &str = "nvidia-cuda-nvrtc==13.0.88";

/// The folder with the library.
fn library() -> Result<PathBuf, String> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvrtc");
    let (venv, packages) = (home.join("venv"), home.join("packages"));
    let ready = home.join(format!("{NVRTC}.installed"));
    let library = packages.join("nvidia/cu13/lib");
    if ready.exists() {
        return Ok(library);
    }
    let attempt = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{command:?}: {error}")),
    };
    attempt(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade", "--target"];
    attempt(Command::new(venv.join("bin/python")).args(pip).arg(&packages).arg(NVRTC))?;
    std::fs::write(&ready, "").map_err(|error| format!("{}: {error}", ready.display()))?;
    Ok(library)
}

/// Runs all of [`with_nvrtc`] in a process that finds the library.
#[test]
fn the_compiler_does_what_it_should() {
    let library = match library() {
        Ok(library) => library,
        Err(reason) => {
            eprintln!("SKIPPED: nvrtc: {NVRTC} cannot be installed: {reason}");
            return;
        }
    };
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["with_nvrtc::", "--ignored", "--nocapture", "--test-threads=1"]).env("LD_LIBRARY_PATH", library);
    let output = child.output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    println!("{said}");
    assert!(output.status.success() && said.contains("4 passed"), "{child:?}");
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
    }
}

/// Tests with NVRTC on the loader's path.
mod with_nvrtc {
    use hopeval_cuda::compile::resources::{ARCHITECTURES, FamilyResources, format_table, measure_families};
    use hopeval_cuda::compile::{CompileError, Compiler, load_families, load_family};
    use hopeval_cuda::kernels::{FAMILIES, KernelFamily};
    use std::path::{Path, PathBuf};
    use std::{fs, time};

    /// Kernels allowed to spill: none. Each name here is followed by the reason.
    const MAY_SPILL: [&str; 0] = [];

    const INTRODUCTION: &str = "\
# Registers, shared memory and spills of the kernels

For each architecture registers of a thread / static shared memory of a block / registers that a thread spills and loads again,
in bytes, as ptxas reports them, and the dynamic shared memory that a launch adds. No kernel spills a register: a test
compiles them all and compares this table, which `HOPEVAL_BLESS=1 cargo test -p hopeval-cuda --test nvrtc` writes.
";

    fn committed() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops/bench/gpu/registers.md")
    }

    #[test]
    #[ignore = "run by the_compiler_does_what_it_should"]
    fn every_kernel_compiles_for_every_architecture_without_spills() {
        let compiler = Compiler::find().unwrap();
        let begun = time::Instant::now();
        let measured = measure_families(&compiler).unwrap_or_else(|error| panic!("{error}"));
        println!("NVRTC {}, {} families, {:.1?}", compiler.version(), FAMILIES.len(), begun.elapsed());
        for FamilyResources { family, kernels } in &measured {
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
        let text = format!("{INTRODUCTION}\n{}", format_table(&measured));
        println!("{text}");
        let place = committed();
        if std::env::var_os("HOPEVAL_BLESS").is_some_and(|value| value == "1") {
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(&place, &text).unwrap();
        }
        let committed = fs::read_to_string(&place).unwrap_or_default();
        assert!(committed == text, "{} is old: HOPEVAL_BLESS=1 writes it", place.display());
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
        for (family, cubin) in FAMILIES.iter().zip(&made) {
            assert!(load_family(&compiler, None, family, architecture).unwrap() == *cubin, "{}.cu alone", family.name);
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
    }
}
