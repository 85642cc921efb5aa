//! Reads the real questions and passages, if available.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use hopeval_world::calibrate::SampleQuestion;
use serde_json::Value;

fn values(path: &Path) -> Option<Vec<Value>> {
    let mut text = String::new();
    MultiGzDecoder::new(File::open(path).ok()?).read_to_string(&mut text).ok()?;
    let mut all = vec![];
    for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        match value.ok()? {
            Value::Array(rows) => all.extend(rows),
            row => all.push(row),
        }
    }
    Some(all)
}

/// Questions, and passages as (title, text).
pub(crate) type Loaded = (Vec<SampleQuestion>, Vec<(String, String)>);

/// The questions with gold by title, and the passages; `None` if the folder is absent.
pub(crate) fn load(folder: &Path) -> Option<Loaded> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let passages: Vec<(String, String)> =
        values(&folder.join("corpus.jsonl.gz"))?.iter().map(|row| (text(row, "title"), text(row, "text"))).collect();
    let mut by_title = HashMap::new();
    for (n, (title, _)) in (0u32..).zip(&passages) {
        by_title.entry(title.clone()).or_insert(n);
    }
    let samples = values(&folder.join("dev_1267.json.gz"))?
        .iter()
        .map(|row| {
            let mut gold: Vec<u32> = vec![];
            for fact in row["supporting_facts"].as_array().into_iter().flatten() {
                let n = by_title[fact[0].as_str().unwrap_or_default()];
                if !gold.contains(&n) {
                    gold.push(n);
                }
            }
            SampleQuestion { text: text(row, "question"), gold }
        })
        .collect();
    Some((samples, passages))
}
