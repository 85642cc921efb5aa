//! Parameters of methods whose values stand in files: `{ file = "demonstrations.jsonl" }`.
//!
//! | ending | value |
//! | --- | --- |
//! | `.txt` | its text, without a line break at the end |
//! | `.json` | its JSON value |
//! | `.jsonl` | the list of its rows; empty lines are passed over |
//!
//! A job that was read holds the values, and so does the record of a run: a file that changes later changes no run. In
//! sweeps and replicates a value stays beside the name of its file, which names the configuration. Files of rankings
//! are large: a job holds their paths.

use super::file::Job;
use super::rankings;
use crate::error::JobError;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The largest file, in bytes.
const MOST_BYTES: u64 = 64 << 20;

const FILE: &str = "file";
const CONTENTS: &str = "contents";

/// Reads the files that the parameters of a job name. Relative paths resolve against `base`; errors name the job
/// `path`.
///
/// # Errors
/// [`JobError::ParameterFile`] names the job, the key, the file, and the line if it is known.
pub(super) fn read_files(job: &mut Job, base: &Path, path: &Path) -> Result<(), JobError> {
    let methods = job.method.iter_mut().map(|(name, method)| (format!("method.{name}"), method));
    let judges = job.judge.iter_mut().map(|(name, judge)| (format!("judge.{name}"), judge));
    for (table, method) in methods.chain(judges) {
        let reader = FileReader { base, job: path, table };
        for (parameter, value) in &mut method.parameters {
            if let Some(contents) = reader.contents(parameter, value)? {
                *value = contents;
            }
        }
        for (part, listed) in [("sweep", &mut method.sweep), ("replicates", &mut method.replicates)] {
            for (parameter, values) in listed {
                for value in values {
                    let key = format!("{part}.{parameter}");
                    if let Some(contents) = reader.contents(&key, value)? {
                        *value = json!({FILE: value[FILE], CONTENTS: contents});
                    }
                }
            }
        }
    }
    let searches = job.tune.iter_mut().flat_map(|tune| &mut tune.select).enumerate();
    for (number, search) in searches {
        let reader = FileReader { base, job: path, table: format!("tune.select[{number}]") };
        let grid = search.grid.iter_mut().flat_map(|(parameter, values)| {
            let key = format!("grid.{parameter}");
            values.iter_mut().map(move |value| (key.clone(), value))
        });
        for (key, value) in search.candidates.iter_mut().map(|value| ("candidates".to_owned(), value)).chain(grid) {
            if let Some(contents) = reader.contents(&key, value)? {
                *value = contents;
            }
        }
    }
    Ok(())
}

/// Makes the paths of files of rankings absolute. They are not read here: a run reads them when it is made.
pub(super) fn resolve_rankings(job: &mut Job, base: &Path) {
    let absolute = |value: &Value| Some(Value::from(base.join(value.as_str()?).display().to_string()));
    for method in job.method.values_mut().filter(|method| method.kind == rankings::KIND) {
        if let Some(value) = method.parameters.get_mut(rankings::FILE) {
            *value = absolute(value).unwrap_or_else(|| value.take());
        }
        for listed in [&mut method.sweep, &mut method.replicates] {
            for value in listed.get_mut(rankings::FILE).into_iter().flatten() {
                if let Some(path) = absolute(value) {
                    *value = json!({FILE: value, CONTENTS: path});
                }
            }
        }
    }
}

/// The value of a swept parameter: the contents of a file that was read, or the value itself.
pub(super) fn swept_value(value: &Value) -> &Value {
    if is_file(value) { value.get(CONTENTS).unwrap_or(value) } else { value }
}

/// The name of the file behind a swept value.
pub(super) fn file_name(value: &Value) -> Option<&str> {
    value.get(FILE).filter(|_| is_file(value))?.as_str()
}

/// Makes the path of a file absolute, if a value names one.
pub(super) fn against_folder(value: toml::Value, folder: &Path) -> toml::Value {
    match value {
        toml::Value::Table(mut table) if table.len() == 1 && table.get(FILE).is_some_and(toml::Value::is_str) => {
            if let Some(toml::Value::String(file)) = table.get_mut(FILE) {
                *file = folder.join(&*file).display().to_string();
            }
            toml::Value::Table(table)
        }
        toml::Value::Array(values) => {
            toml::Value::Array(values.into_iter().map(|value| against_folder(value, folder)).collect())
        }
        other => other,
    }
}

/// Whether a value names a file: a table of `file`, and of `contents` once it was read.
fn is_file(value: &Value) -> bool {
    let Some(table) = value.as_object() else { return false };
    table.get(FILE).is_some_and(Value::is_string) && table.keys().all(|key| key == FILE || key == CONTENTS)
}

struct FileReader<'a> {
    base: &'a Path,
    job: &'a Path,
    table: String,
}

impl FileReader<'_> {
    /// The contents of the file that a value names; `None` if it names none, or if they are there already.
    fn contents(&self, key: &str, value: &Value) -> Result<Option<Value>, JobError> {
        if !is_file(value) || value.get(CONTENTS).is_some() {
            return Ok(None);
        }
        let named = value[FILE].as_str().unwrap_or_default();
        let file = self.base.join(named);
        let wrong = |(line, found, allowed): Mistake| JobError::ParameterFile {
            job: self.job.into(),
            key: format!("{}.{key}", self.table),
            file: file.clone(),
            line,
            found,
            allowed,
        };
        let text = read_text(&file).map_err(wrong)?;
        parse_contents(&file, &text).map(Some).map_err(wrong)
    }
}

/// The line if it is known, what is wrong, and what is allowed.
type Mistake = (Option<u64>, String, &'static str);

fn read_text(file: &PathBuf) -> Result<String, Mistake> {
    use std::io::Read;
    let mut text = String::new();
    let allowed = "a file of UTF-8 text that can be read, of at most 67108864 bytes";
    let opened = std::fs::File::open(file).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text));
    match opened {
        Ok(bytes) if bytes as u64 <= MOST_BYTES => Ok(text),
        Ok(_) => Err((None, format!("more than {MOST_BYTES} bytes"), allowed)),
        Err(error) => Err((None, error.to_string(), allowed)),
    }
}

fn parse_contents(file: &Path, text: &str) -> Result<Value, Mistake> {
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("txt") => {
            let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
            Ok(Value::from(text))
        }
        Some("json") => {
            let mistake = |error: serde_json::Error| (Some(error.line() as u64), error.to_string(), "a JSON value");
            serde_json::from_str(text).map_err(mistake)
        }
        Some("jsonl") => {
            let rows = (1..).zip(text.lines()).filter(|(_, row)| !row.trim().is_empty());
            let mistake = |line, error: serde_json::Error| (Some(line), error.to_string(), "a JSON value on each line");
            rows.map(|(line, row)| serde_json::from_str::<Value>(row).map_err(|error| mistake(line, error))).collect()
        }
        _ => Err((None, "another ending".to_owned(), "files that end in .txt, .json or .jsonl")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::sweep;

    const HEAD: &str = "name = \"files\"\n[dataset]\nquestions = \"q.json\"\n[corpus]\nsource = \"c.jsonl\"\n\
                        [service.sparse]\nkind = \"bm25\"\n[service.t5]\nkind = \"lm\"\nmodel = \"t5\"\n\
                        [method.m]\nkind = \"promptrank\"\nretriever = \"sparse\"\nscorer = \"t5\"\n";

    fn parse(folder: &Path, rest: &str, sets: &[&str]) -> Result<Job, String> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Job::parse(&format!("{HEAD}{rest}"), &folder.join("job.toml"), &sets).map_err(|error| error.to_string())
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let rows = "{\"texts\": [\"A.\"], \"question\": \"Who?\"}\n\n{\"texts\": [\"B.\"], \"question\": \"Why?\"}\n";
        let files = [
            ("wording.txt", "Ask it.\n"),
            ("four.json", "[\"a\", \"b\"]"),
            ("rows.jsonl", rows),
            ("bad.jsonl", "{}\n{"),
        ];
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn a_parameter_takes_the_contents_of_its_file() {
        let folder = folder();
        let rest = "instructions = { file = \"wording.txt\" }\ndemonstrations = { file = \"rows.jsonl\" }\n";
        let job = parse(folder.path(), rest, &[]).unwrap();
        let parameters = &job.method["m"].parameters;
        assert_eq!(parameters["instructions"], "Ask it.");
        assert_eq!(parameters["demonstrations"][1]["question"], "Why?");
        // The shown job needs no file.
        let shown = toml::to_string_pretty(&job).unwrap();
        let again = Job::parse(&shown, Path::new("/elsewhere/job.toml"), &[]).unwrap();
        assert_eq!(toml::to_string_pretty(&again).unwrap(), shown);
        let set = format!("method.m.instructions={{ file = \"{}\" }}", folder.path().join("four.json").display());
        let job = parse(folder.path(), "", &[&set]).unwrap();
        assert_eq!(job.method["m"].parameters["instructions"], json!(["a", "b"]));
    }

    #[test]
    fn swept_files_name_their_configurations() {
        let folder = folder();
        let rest = "[method.m.sweep]\ninstructions = [{ file = \"wording.txt\" }, { file = \"four.json\" }]\n";
        let job = parse(folder.path(), rest, &[]).unwrap();
        let found = sweep::configurations(&job);
        let names: Vec<_> = found.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["m{instructions=wording.txt}", "m{instructions=four.json}"]);
        assert_eq!(found[1].parameters["instructions"], json!(["a", "b"]));
        let shown = toml::to_string_pretty(&job).unwrap();
        let again = Job::parse(&shown, Path::new("/elsewhere/job.toml"), &[]).unwrap();
        assert_eq!(sweep::configurations(&again), found, "the contents are there");
        let rest = "[method.m.replicates]\ninstructions = [{ file = \"wording.txt\" }, { file = \"four.json\" }]\n";
        let found = sweep::configurations(&parse(folder.path(), rest, &[]).unwrap());
        assert_eq!(found[0].parameters["instructions"], "Ask it.");
    }

    #[test]
    fn files_of_rankings_are_named_and_not_read() {
        let folder = folder();
        let method = "[method.theirs]\nkind = \"rankings\"\n";
        let named = |name: &str| Value::from(folder.path().join(name).display().to_string());
        let job = parse(folder.path(), &format!("{method}file = \"a.trec\"\n"), &[]).unwrap();
        assert_eq!(job.method["theirs"].parameters["file"], named("a.trec"));
        let set = "method.theirs.file=b.trec";
        let job = parse(folder.path(), &format!("{method}file = \"a.trec\"\n"), &[set]).unwrap();
        let here = std::path::absolute("b.trec").unwrap();
        assert_eq!(job.method["theirs"].parameters["file"], here.display().to_string(), "of the working directory");
        let sweep = format!("{method}[method.theirs.sweep]\nfile = [\"a.trec\", \"more/b.trec\"]\n");
        let job = parse(folder.path(), &sweep, &[]).unwrap();
        let found = sweep::configurations(&job);
        let names: Vec<_> = found.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["m", "theirs{file=a.trec}", "theirs{file=more/b.trec}"]);
        assert_eq!(found[2].parameters["file"], named("more/b.trec"));
        let shown = toml::to_string_pretty(&job).unwrap();
        let again = Job::parse(&shown, Path::new("/elsewhere/job.toml"), &[]).unwrap();
        assert_eq!(sweep::configurations(&again), found, "the paths are there");
    }

    #[test]
    fn mistakes_name_file_and_line() {
        let folder = folder();
        for (file, expected) in [
            ("bad.jsonl", "bad.jsonl:2: EOF while parsing an object"),
            ("none.txt", "none.txt: No such file"),
            ("job.toml", "job.toml: another ending; allowed: files that end in .txt, .json or .jsonl"),
        ] {
            std::fs::write(folder.path().join("job.toml"), "").unwrap();
            let message = parse(folder.path(), &format!("instructions = {{ file = \"{file}\" }}\n"), &[]).unwrap_err();
            assert!(message.contains(expected) && message.contains("`method.m.instructions`"), "{message}");
        }
    }
}
