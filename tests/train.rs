//! `hopeval train`: arguments and environment of the interpreter, checks before its start, and its exit code.
//!
//! The interpreter is a shell script that records its arguments: no PyTorch is needed here.

#![cfg(unix)]

use crate::harness::{hopeval, run, succeed, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const MODELS: [&str; 5] = ["scorer", "labeler", "filter", "reader", "encoder"];

/// A folder with rows and an interpreter. It does `when_asked` for its packages and `when_trained` for a script.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(when_asked: &str, when_trained: &str) -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        for folder in ["rows", "temporary"] {
            std::fs::create_dir(bench.path(folder)).unwrap();
        }
        for model in MODELS {
            std::fs::write(bench.path(&format!("rows/{model}.parquet")), "rows").unwrap();
        }
        let fake = format!(
            "#!/bin/sh\nif [ \"$1\" = -c ]; then\n{when_asked}\nexit 0\nfi\n\
             printf '%s\\n' \"$@\" > arguments\nenv > environment\n\
             cp -R \"$(dirname \"$1\")\" carried\n{when_trained}\n"
        );
        // Written by a child process: a file cannot be executed while this process, or a fork of another test, has it
        // open for writing.
        let mut write = Command::new("sh");
        write.args(["-c", "cat > \"$0\" && chmod +x \"$0\""]).arg(bench.path("fake")).stdin(Stdio::piped());
        let mut write = write.spawn().unwrap();
        write.stdin.take().unwrap().write_all(fake.as_bytes()).unwrap();
        assert!(write.wait().unwrap().success());
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn train(&self, model: &str, more: &[&str]) -> Command {
        let mut command =
            hopeval(self.dir.path(), &["train", model, "--rows", "rows", "--out", "m", "--python", "./fake"]);
        // Leftovers of a killed process are deleted with the folder.
        command.args(more).env("TMPDIR", self.path("temporary"));
        command
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The lines of the interpreter's arguments.
    fn arguments(&self) -> Vec<String> {
        self.read("arguments").lines().map(str::to_owned).collect()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Exit code 2, and one error that says all of `says`.
fn refused(command: &mut Command, says: &[&str]) {
    let output = run(command);
    let err = said(&output);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert_eq!(err.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{err}");
    for part in says {
        assert!(err.contains(part), "`{part}` is missing from:\n{err}");
    }
}

#[test]
fn a_script_gets_rows_model_and_its_own_options() {
    let bench = Bench::new("", "echo trained");
    let mut command = bench.train("labeler", &["--threads", "3", "--", "--preset", "small", "--tokenizer", "tok"]);
    command.env("HF_HOME", "/models").env("CUDA_VISIBLE_DEVICES", "1");
    assert_eq!(succeed(&mut command), "trained\n", "the script writes to this process's own output");
    let told = bench.arguments();
    let (script, options) = told.split_first().unwrap();
    assert!(script.ends_with("/labeler.py"), "{script}");
    let expected = ["--rows", "rows", "--out", "m", "--threads", "3", "--preset", "small", "--tokenizer", "tok"];
    assert_eq!(options, expected);
    for variable in ["HF_HOME=/models", "CUDA_VISIBLE_DEVICES=1"] {
        assert!(bench.read("environment").lines().any(|line| line == variable), "{variable}");
    }
    assert!(Path::new(script).starts_with(bench.path("temporary")), "{script}");
    assert_eq!(std::fs::read_dir(bench.path("temporary")).unwrap().count(), 0, "the scripts go when the training ends");
    assert!(!bench.path("hopeval-store").exists(), "a training has no store");

    succeed(&mut bench.train("encoder", &[]));
    assert_eq!(bench.arguments()[1..], ["--rows", "rows", "--out", "m"]);
}

#[test]
fn carried_scripts_are_whole() {
    let bench = Bench::new("", "");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/train");
    succeed(&mut bench.train("scorer", &[]));
    let mut scripts = Vec::new();
    for file in std::fs::read_dir(bench.path("carried")).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_name().unwrap();
        assert!(std::fs::read(&file).unwrap() == std::fs::read(source.join(name)).unwrap(), "{}", file.display());
        scripts.extend((file.extension().unwrap() == "py").then_some(file));
    }
    assert!(MODELS.iter().all(|model| scripts.contains(&bench.path(&format!("carried/{model}.py")))));
    assert!(bench.path("carried/requirements.txt").is_file());
    // Modules imported by the folder's scripts must be in it; all other imports belong to packages.
    let check = r#"
import ast, pathlib, sys
source, carried = map(pathlib.Path, sys.argv[1:])
for script in carried.glob("*.py"):
    for node in ast.walk(ast.parse(script.read_text("utf-8"), str(script))):
        names = [n.name for n in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            if (source / f"{name}.py").exists() and not (carried / f"{name}.py").exists():
                sys.exit(f"{script} imports {name}")
"#;
    let mut python = Command::new("python3");
    match python.arg("-c").arg(check).arg(source).arg(bench.path("carried")).output() {
        Ok(output) => assert!(output.status.success(), "{}", said(&output)),
        Err(error) => eprintln!("SKIPPED: carried_scripts_are_whole: python3: {error}"),
    }
}

#[test]
fn the_end_of_a_script_is_an_exit_code_of_ours() {
    for (when_trained, code, says) in [
        ("exit 0", 0, ""),
        ("echo Traceback >&2; exit 1", 2, "Traceback\nerror: the filter was not trained: filter.py exited with 1\n"),
        ("exit 2", 2, "filter.py exited with 2"),
        ("kill -KILL $$", 2, "filter.py was ended by SIGKILL"),
        ("kill -TERM $$", 75, "interrupted: the training of the filter in m is not finished"),
    ] {
        let output = run(&mut Bench::new("", when_trained).train("filter", &[]));
        assert_eq!(output.status.code(), Some(code), "{when_trained}: {}", said(&output));
        assert!(said(&output).contains(says), "{when_trained}: {}", said(&output));
    }
}

#[test]
fn missing_packages_are_reported_before_training() {
    // As the question for packages is answered: a name, a tab, why.
    let bench = Bench::new("printf 'torch\\tNo module named torch\\nscipy\\tit is broken\\nnoise of an import\\n'", "");
    let says = [
        "error: the Python interpreter `./fake` cannot import what training needs: torch (No module named torch), \
         scipy (it is broken)\n",
        "hint: `./fake -m pip install torch==",
        "pip install -r requirements.txt",
        "--python PROGRAM",
    ];
    refused(&mut bench.train("reader", &[]), &says);
    assert!(!bench.path("arguments").exists() && !bench.path("m").exists());

    let bench = Bench::new("echo 'cannot load a library' >&2; exit 127", "");
    refused(&mut bench.train("reader", &[]), &["`./fake` exited with 127", "it said: cannot load a library"]);
}

#[test]
fn the_question_for_packages_is_one_that_python_understands() {
    let bench = Bench::new("exec python3 \"$@\"", "");
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: the_question_for_packages: no python3 here");
        return;
    }
    // Modules of one's own in the place of the packages: all there, then one that cannot be imported.
    let stubs = bench.path("stubs");
    std::fs::create_dir(&stubs).unwrap();
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/train/requirements.txt");
    for line in std::fs::read_to_string(requirements).unwrap().lines() {
        std::fs::write(stubs.join(format!("{}.py", line.split("==").next().unwrap())), "").unwrap();
    }
    succeed(bench.train("reader", &[]).env("PYTHONPATH", &stubs));
    std::fs::write(stubs.join("torch.py"), "raise ImportError('no\\n  driver')").unwrap();
    refused(
        bench.train("reader", &[]).env("PYTHONPATH", &stubs),
        &["cannot import what training needs: torch (no driver)\n"],
    );
}

#[test]
fn what_is_missing_is_named_with_what_makes_it() {
    let bench = Bench::new("", "");
    let python = ["--python", "nowhere/python"];
    let train = |model: &str, rows: &str, more: &[&str]| {
        let mut command = hopeval(bench.dir.path(), &["train", model, "--rows", rows, "--out", "m"]);
        command.args(more);
        command
    };
    refused(
        &mut train("labeler", "rows", &python),
        &["cannot start the Python interpreter `nowhere/python`", "hint: --python"],
    );
    let says =
        ["--rows absent: there is no such folder, and labeler.parquet", "hint: `hopeval train-data", "--run RUN"];
    refused(&mut train("labeler", "absent", &python), &says);
    std::fs::remove_file(bench.path("rows/scorer.parquet")).unwrap();
    let says = ["--rows rows: there is no scorer.parquet in this folder", "hint: `hopeval train-data", "rows.py"];
    refused(&mut train("scorer", "rows", &python), &says);
    refused(&mut train("writer", "rows", &[]), &["scorer", "labeler", "filter", "reader", "encoder"]);
    assert!(!bench.path("m").exists());
}

#[test]
fn scripts_of_ones_own_take_the_place_of_those_carried() {
    let bench = Bench::new("", "");
    std::fs::create_dir(bench.path("own")).unwrap();
    std::fs::write(bench.path("own/labeler.py"), "").unwrap();
    succeed(&mut bench.train("labeler", &["--scripts", "own"]));
    assert_eq!(bench.arguments()[0], "own/labeler.py");
    refused(&mut bench.train("filter", &["--scripts", "own"]), &["--scripts own: there is no filter.py"]);
}

#[test]
fn a_training_ends_with_the_process_that_started_it() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        let bench = Bench::new("", "echo $$ > begun.new; mv begun.new begun; exec sleep 600");
        let mut command = bench.train("labeler", &[]);
        let training = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = bench.path("begun");
        wait_for("training", || begun.exists().then_some(()));
        let child: u32 = bench.read("begun").trim().parse().unwrap();
        kill(Pid::from_raw(training.id() as i32), signal).unwrap();
        let code = training.wait_with_output().unwrap();
        let resumable = signal != Signal::SIGKILL;
        assert_eq!(code.status.code(), resumable.then_some(75), "{signal}: {}", said(&code));
        assert_eq!(said(&code).contains("the same command begins it anew"), resumable, "{signal}: {}", said(&code));
        if cfg!(target_os = "linux") {
            // Gone, or dead and not yet reaped by its new parent.
            wait_for("end of the script", || {
                let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
                (stat.is_empty() || stat.contains(") Z ")).then_some(())
            });
        }
    }
}

/// The rows that EfficientRAG's authors released, read by the carried scripts: plain and compressed, and with mistakes.
#[test]
fn released_rows_are_read_as_they_are() {
    let bench = Bench::new("", "");
    for model in ["labeler", "filter"] {
        std::fs::remove_file(bench.path(&format!("rows/{model}.parquet"))).unwrap();
    }
    refused(
        &mut bench.train("labeler", &[]),
        &["--rows rows: there is no labeler.parquet, and no labeler.jsonl and no labeler.jsonl.gz in this folder"],
    );
    let labeler = r#"{"question": "Who?", "chunk_tokens": ["A", "b"], "labels": [true, false], "tag": "<FINISH>"}"#;
    let filter =
        r#"{"query_info_tokens": ["Query", ":", "Who", "Info", ":", "A"], "query_info_labels": [0, 0, 1, 0, 0, 1]}"#;
    std::fs::write(bench.path("rows/labeler.jsonl"), format!("{labeler}\n\n{labeler}\n")).unwrap();
    let file = std::fs::File::create(bench.path("rows/filter.jsonl.gz")).unwrap();
    let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    writeln!(file, "{filter}").unwrap();
    file.finish().unwrap();
    succeed(&mut bench.train("labeler", &[]));
    succeed(&mut bench.train("filter", &[]));

    let read = |name: &str, columns: &str| {
        let script = format!(
            "import sys, json, pathlib; sys.path.insert(0, 'carried'); import released\n\
             found = released.file_of(pathlib.Path('rows/{name}.parquet'))\n\
             print(found, json.dumps(released.read(found, {columns}.split())))"
        );
        let output = Command::new("python3").current_dir(bench.dir.path()).args(["-c", &script]).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output))
    };
    const LABELER: &str = "'question chunk_tokens labels tag question_id'";
    const FILTER: &str = "'query_info_tokens query_info_labels question_id'";
    let rows = match read("labeler", LABELER) {
        Ok(rows) => rows,
        Err(error) => return eprintln!("SKIPPED: released_rows_are_read_as_they_are: python3: {error}"),
    };
    assert!(rows.starts_with("rows/labeler.jsonl [{"), "{rows}");
    assert_eq!(rows.matches(r#""question_id": "Who?""#).count(), 2, "{rows}");
    let rows = read("filter", FILTER).unwrap();
    assert!(rows.contains(r#""question_id": "Query : Who""#), "{rows}");
    for (row, says) in [
        ("{", "rows/labeler.jsonl:2: not JSON"),
        ("7", "rows/labeler.jsonl:2: int; allowed: an object"),
        (r#"{"question": "Who?"}"#, "rows/labeler.jsonl:2: lacks chunk_tokens, labels, tag; it has question"),
        (
            &labeler.replace("[true, false]", "[true]"),
            "2: chunk_tokens, labels: 2 words and 1 labels; allowed: as many",
        ),
        (
            &labeler.replace("[true, false]", "[true, 2]"),
            "2: chunk_tokens, labels: allowed: a list of words, and one of",
        ),
        (&labeler.replace("FINISH", "END"), "2: tag: '<END>'; allowed: <CONTINUE>, <FINISH>, <TERMINATE>"),
    ] {
        std::fs::write(bench.path("rows/labeler.jsonl"), format!("{labeler}\n{row}\n")).unwrap();
        let error = read("labeler", LABELER).unwrap();
        assert!(error.contains(says), "{row}: {error}");
    }
}

/// A checkpoint that lacks a file is refused before it is fetched. The hub's client is a stand-in here.
#[test]
fn a_checkpoint_that_lacks_something_is_not_fetched() {
    let bench = Bench::new("", "");
    succeed(&mut bench.train("labeler", &[]));
    let stubs = bench.path("stubs");
    std::fs::create_dir_all(stubs.join("huggingface_hub")).unwrap();
    let hub = "class HfApi:\n    def list_repo_files(self, name):\n        return FILES[name]\n\
               def snapshot_download(name, **_):\n    raise RuntimeError('it was asked for')\n\
               FILES = {'m/bare': ['config.json', 'spm.model', 'pytorch_model.bin'], 'm/empty': ['README.md'],\n\
               \x20        'm/whole': ['config.json', 'tokenizer.json', 'model-00001-of-00002.safetensors']}\n";
    for (name, text) in [
        ("huggingface_hub/__init__.py", hub),
        ("huggingface_hub/constants.py", "import os\nHF_HUB_OFFLINE = os.environ.get('HF_HUB_OFFLINE') == '1'\n"),
        ("torch.py", ""),
        ("transformers.py", "AutoConfig = AutoModel = None\n"),
    ] {
        std::fs::write(stubs.join(name), text).unwrap();
    }
    let open = |name: &str, tokenizer: &str, offline: &str| {
        let script = format!("import checkpoints; checkpoints.folder('{name}', tokenizer={tokenizer})");
        let mut python = Command::new("python3");
        python.current_dir(bench.dir.path()).args(["-c", &script]).env("HF_HUB_OFFLINE", offline);
        python.env("PYTHONPATH", std::env::join_paths([&bench.path("carried"), &stubs]).unwrap());
        python.output().map(|output| said(&output))
    };
    match open("m/bare", "True", "0") {
        Ok(error) => {
            assert!(error.contains("m/bare: the hub has no tokenizer.json of it") && !error.contains("asked for"));
            assert!(error.contains("hf download m/bare") && error.contains("hopeval model import DIR"), "{error}");
        }
        Err(error) => return eprintln!("SKIPPED: a_checkpoint_that_lacks_something_is_not_fetched: python3: {error}"),
    }
    let error = open("m/empty", "False", "0").unwrap();
    assert!(error.contains("no config.json and no weights") && error.contains("it has: README.md"), "{error}");
    for (name, tokenizer, offline) in [("m/bare", "False", "0"), ("m/whole", "True", "0"), ("m/bare", "True", "1")] {
        assert!(open(name, tokenizer, offline).unwrap().contains("it was asked for"), "{name}");
    }
}
