//! The pages for users: every command of the tutorial, the cookbook and the page on data of one's own succeeds, and
//! prints the lines that the page shows below it.

use crate::harness::HOPEVAL;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A part of the page between lines of three backticks, with the word behind the first of them.
struct CodeBlock<'a> {
    language: &'a str,
    text: String,
}

/// The code blocks of a Markdown page, in their order.
fn code_blocks(page: &str) -> Vec<CodeBlock<'_>> {
    let (mut blocks, mut open) = (Vec::new(), None::<CodeBlock<'_>>);
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => open = Some(CodeBlock { language, text: String::new() }),
            (None, Some(block)) => block.text.push_str(&format!("{line}\n")),
            (None, None) => {}
        }
    }
    blocks
}

#[test]
fn the_tutorial_does_what_it_says() {
    follow("tutorial.md", 15, 15);
}

#[test]
fn own_data_is_read_as_its_page_says() {
    follow("own-data.md", 9, 20);
}

#[test]
fn the_cookbook_does_what_it_says() {
    follow("cookbook.md", 15, 12);
}

/// The site has every page, under the heading that the page has.
#[test]
fn every_page_is_in_the_summary() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/docs");
    let summary = std::fs::read_to_string(folder.join("SUMMARY.md")).unwrap();
    let entry = |line: &str| {
        let (title, file) = line.strip_prefix("- [")?.split_once("](")?;
        Some((file.strip_suffix(')')?.to_owned(), title.to_owned()))
    };
    let listed: BTreeMap<String, String> = summary.lines().filter_map(entry).collect();
    let mut pages = BTreeMap::new();
    for file in std::fs::read_dir(&folder).unwrap().flatten() {
        let name = file.file_name().into_string().unwrap();
        if name.ends_with(".md") && name != "SUMMARY.md" {
            let text = std::fs::read_to_string(file.path()).unwrap();
            pages.insert(name, text.lines().find_map(|line| line.strip_prefix("# ")).unwrap().to_owned());
        }
    }
    assert_eq!(listed, pages);
}

/// Runs the commands of a page. It must have so many commands and shown lines at least, or it was not read.
fn follow(name: &str, least_commands: usize, least_shown: usize) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/docs").join(name);
    let page = std::fs::read_to_string(page).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let binaries = Path::new(HOPEVAL).parent().unwrap().to_owned();
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(binaries).chain(std::env::split_paths(&inherited))).unwrap();
    let (mut printed, mut commands, mut shown) = (String::new(), 0, 0);
    for CodeBlock { language, text } in code_blocks(&page) {
        if language == "sh" {
            let mut shell = Command::new("bash");
            shell.args(["-eu", "-c", &text]).current_dir(dir.path()).env("PATH", &path);
            shell.env("NO_COLOR", "1").env("COLUMNS", "100");
            for name in ["HOPEVAL_STORE", "HOPEVAL_CACHE", "RUST_LOG"] {
                shell.env_remove(name);
            }
            let output = shell.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {text}\n{said}", output.status);
            printed = String::from_utf8(output.stdout).unwrap();
            commands += text.lines().filter(|line| line.starts_with("hopeval ")).count();
        } else if language == "text" {
            let mut lines = printed.lines();
            for wanted in text.lines() {
                assert!(lines.any(|line| line == wanted), "not printed in its place: {wanted}\n{printed}");
                shown += 1;
            }
        }
    }
    let is_read = commands >= least_commands && shown >= least_shown;
    assert!(is_read, "{name}: {commands} commands, {shown} lines: the page was not read");
}
