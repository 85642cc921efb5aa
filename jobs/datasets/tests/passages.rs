//! Every source of a corpus, from files written here.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use hopeval_datasets::{PassageFormat, PassageRecord, PassageSpec, Passages, RowPolicy, detect_passages};
use tempfile::TempDir;

fn write(folder: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

fn read(path: &Path, format: PassageFormat) -> Vec<PassageRecord> {
    assert_eq!(detect_passages(path).unwrap(), format);
    Passages::open(&PassageSpec::file(path), RowPolicy::Strict).unwrap().map(|passage| passage.unwrap()).collect()
}

/// The first error, with paths relative to the folder.
fn error(folder: &TempDir, spec: &PassageSpec) -> String {
    let error = match Passages::open(spec, RowPolicy::Strict) {
        Ok(mut passages) => passages.find_map(Result::err).expect("an error"),
        Err(error) => error,
    };
    error.to_string().replace(&format!("{}/", folder.path().display()), "")
}

fn shown(passages: &[PassageRecord]) -> Vec<(&str, &str, &str)> {
    passages.iter().map(|p| (p.id.as_deref().unwrap_or("-"), p.title.as_str(), p.text.as_str())).collect()
}

#[test]
fn json_sources() {
    let folder = TempDir::new().unwrap();
    let titled = write(
        &folder,
        "titled",
        "{\"title\":\"T\",\"text\":\"x\"}\n{\"id\":7,\"text\":\"y\",\"sentences\":[1],\"links\":[]}\n",
    );
    let passages = read(&titled, PassageFormat::Titled);
    assert_eq!(shown(&passages), [("-", "T", "x"), ("7", "", "y")]);
    assert_eq!((passages[0].links.is_none(), passages[1].links.as_deref()), (true, Some([].as_slice())));

    let contents = write(
        &folder,
        "contents",
        r#"{"id":"1","contents":"\"Alan \"A\" Turing\"\nHe was.\nHe did."}
{"id":"2","contents":"no title"}
{"id":"3","contents":"Plain\nText"}"#,
    );
    assert_eq!(
        shown(&read(&contents, PassageFormat::Contents)),
        [("1", "Alan \"A\" Turing", "He was.\nHe did."), ("2", "", "no title"), ("3", "Plain", "Text")]
    );

    write(&folder, "beir/corpus.jsonl", "{\"_id\":\"d1\",\"title\":\"T\",\"text\":\"x\",\"metadata\":{}}\n");
    for path in ["beir", "beir/corpus.jsonl"] {
        assert_eq!(shown(&read(&folder.path().join(path), PassageFormat::Beir)), [("d1", "T", "x")]);
    }
}

#[test]
fn dpr_tables() {
    let folder = TempDir::new().unwrap();
    let rows = "1\t\"\"\"Aaron\"\" is,\ta prophet.\"\tAaron\n2\tand \"so\" on\tAaron\n";
    let expected = [("1", "Aaron", "\"Aaron\" is,\ta prophet."), ("2", "Aaron", "and \"so\" on")];
    let headed = write(&folder, "psgs.tsv", format!("id\ttext\ttitle\n{rows}"));
    assert_eq!(shown(&read(&headed, PassageFormat::Dpr)), expected);
    assert_eq!(shown(&read(&write(&folder, "bare.tsv", rows), PassageFormat::Dpr)), expected);
    let swapped = write(&folder, "swapped.tsv", "id\ttitle\ttext\n1\tT\tx\n");
    assert_eq!(shown(&read(&swapped, PassageFormat::Dpr)), [("1", "T", "x")]);
    let bad = write(&folder, "bad.tsv", "id\ttext\ttitle\n1\tx\tT\n2\tx\n");
    assert_eq!(
        error(&folder, &PassageSpec::file(bad)),
        "bad.tsv:3: record 3: found 2 columns; allowed: 3 columns: id, text, title"
    );
}

#[test]
fn contexts_of_several_splits() {
    let folder = TempDir::new().unwrap();
    let row = |id: &str, title: &str| {
        format!(r#"[{{"_id":"{id}","question":"q","context":[["{title}",["One."," Two."]]]}}]"#)
    };
    let paths = vec![write(&folder, "train", row("a", "T")), write(&folder, "dev", row("a", "U"))];
    // The same id in two splits is no repeat.
    let spec = PassageSpec { paths, ..PassageSpec::default() };
    let passages: Vec<_> = Passages::open(&spec, RowPolicy::Strict).unwrap().map(|passage| passage.unwrap()).collect();
    assert_eq!(shown(&passages), [("-", "T", "One. Two."), ("-", "U", "One. Two.")]);
    assert_eq!(passages[0].sentences, [4, 9]);
}

#[test]
fn the_abstracts_dump() {
    let folder = TempDir::new().unwrap();
    let bzip2 = |text: &str| {
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let anarchism = r#"{"id": "12", "url": "https://en.wikipedia.org/wiki?curid=12", "title": "Anarchism", "text": ["Anarchism is a political philosophy.", " It is old, says Müller."], "charoffset": [[[0, 9]], [[0, 3]]], "text_with_links": ["Anarchism is a <a href=\"political%20philosophy\">political philosophy</a>.", " It is old, says <a href=\"M%C3%BCller%23Life\">Müller</a>."], "charoffset_with_links": []}"#;
    let empty = r#"{"id": "13", "url": "", "title": "Empty", "text": [], "charoffset": [], "text_with_links": []}"#;
    let paragraphs = r#"{"id": "14", "title": "Whole", "text": [["Whole"], ["First.", " Second."]], "text_with_links": [["Whole"], ["<a href=\"First\">First</a>.", " Second."]]}"#;
    write(&folder, "dump/AB/wiki_00.bz2", bzip2(&format!("{paragraphs}\n")));
    write(&folder, "dump/AA/wiki_10.bz2", bzip2(&format!("{empty}\n")));
    write(&folder, "dump/AA/wiki_02.bz2", bzip2(&format!("{anarchism}\n")));
    write(&folder, "dump/AA/notes.txt", "not a part");
    let passages = read(&folder.path().join("dump"), PassageFormat::Abstracts);
    assert_eq!(
        shown(&passages),
        [
            ("12", "Anarchism", "Anarchism is a political philosophy. It is old, says Müller."),
            ("13", "Empty", ""),
            ("14", "Whole", "WholeFirst. Second.")
        ]
    );
    let linked: Vec<(&str, &str)> = passages
        .iter()
        .flat_map(|passage| passage.links.iter().flatten().map(move |link| (passage, link)))
        .map(|(passage, link)| (link.title.as_str(), &passage.text[link.start as usize..link.end as usize]))
        .collect();
    assert_eq!(linked, [("Political philosophy", "political philosophy"), ("Müller", "Müller"), ("First", "First")]);
    assert_eq!(passages[0].sentence(1), Some(" It is old, says Müller."));
    assert_eq!(passages[1].links.as_deref(), Some([].as_slice()));
    // One file of the dump is enough to tell.
    assert_eq!(read(&folder.path().join("dump/AA/wiki_02.bz2"), PassageFormat::Abstracts).len(), 1);
}

#[test]
fn what_is_wrong_is_named() {
    let folder = TempDir::new().unwrap();
    let text = "{\"title\":\"T\",\"text\":\"x\"}\n{\"title\":\"T\"}\n{\"title\":4,\"text\":\"x\"}\n";
    let path = write(&folder, "f", text);
    assert_eq!(
        error(&folder, &PassageSpec::file(&path)),
        "f:2: record 2: field `text`: found nothing; allowed: this field is required"
    );
    let mut passages = Passages::open(&PassageSpec::file(&path), RowPolicy::Quarantine(Box::new(|_| {}))).unwrap();
    assert_eq!((passages.by_ref().count(), passages.quarantined()), (1, 2));

    let contents = write(&folder, "c", "{\"id\":\"1\",\"contents\":\"x\"}\n{\"contents\":\"x\"}\n");
    assert_eq!(
        error(&folder, &PassageSpec::file(contents)),
        "c:2: record 2: field `id`: found nothing; allowed: this field is required"
    );
    let dump = write(&folder, "wiki_00", r#"{"title":"T","text":["a","b"],"text_with_links":["a"]}"#);
    assert_eq!(
        error(&folder, &PassageSpec::file(dump)),
        "wiki_00:1: record 1: field `text_with_links`: found 1 sentences; allowed: 2, as in `text`"
    );
    let odd = write(&folder, "odd", "{\"a\":1,\"b\":2}\n");
    assert_eq!(
        error(&folder, &PassageSpec::file(odd)),
        "odd: cannot tell the passages' format from a row with the fields a, b; allowed: rows of titled, contents, \
         beir, dpr, contexts, abstracts, fields\n\
         hint: [corpus.fields] in a job, or --field NAME=PATH, maps other names"
    );
    fs::create_dir(folder.path().join("nothing")).unwrap();
    assert_eq!(
        error(&folder, &PassageSpec::file(folder.path().join("nothing"))),
        "nothing: no passages in this folder; allowed: a folder with corpus.jsonl (BEIR), \
         or with files wiki_* in it or below"
    );
    assert_eq!(
        error(&folder, &PassageSpec::default()),
        "a corpus needs at least one file; allowed: files, or a folder"
    );
}

/// A quarantine counts over the files of a corpus, also if the reader of questions applies it.
#[test]
fn quarantine_counts_over_splits() {
    let folder = TempDir::new().unwrap();
    let good = r#"{"_id":"a","question":"q","context":[["T",["One."]]]}"#;
    let bad = r#"{"_id":"b","question":"q","context":[["T"]]}"#;
    let paths = (0..2).map(|n| write(&folder, &format!("{n}"), format!("{good}\n{bad}\n"))).collect();
    let spec = PassageSpec { paths, ..PassageSpec::default() };
    let mut passages = Passages::open(&spec, RowPolicy::Quarantine(Box::new(|_| {}))).unwrap();
    assert_eq!(passages.by_ref().count(), 2);
    assert_eq!(passages.quarantined(), 2);
}
