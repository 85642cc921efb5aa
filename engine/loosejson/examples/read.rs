//! Reads documents, one a line as `CHOICE TAB JSON-STRING`, and writes `{"value", "repairs"}` or `{"failure"}` a line.
//!
//! `ops/parser/compare.py` makes the documents and compares the values.

use hopeval_loosejson::{ValueChoice, parse};
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufWriter, Write};

fn read(line: &str) -> Result<Value, Box<dyn std::error::Error>> {
    let (choice, document) = line.split_once('\t').ok_or("a line needs a tab")?;
    let choice = match choice {
        "first" => ValueChoice::First,
        "last" => ValueChoice::Last,
        "largest" => ValueChoice::Largest,
        other => return Err(format!("`{other}`: allowed are first, last, largest").into()),
    };
    let document: String = serde_json::from_str(document)?;
    Ok(match parse(&document, choice) {
        Ok(parsed) => {
            let repairs: Map<_, _> =
                parsed.repairs.iter().map(|(repair, count)| (repair.name().to_owned(), count.into())).collect();
            json!({"value": parsed.value, "repairs": repairs})
        }
        Err(failure) => json!({"failure": failure.reason.to_string()}),
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let value = read(&line?).map_err(|error| format!("line {}: {error}", number + 1))?;
        writeln!(out, "{value}")?;
    }
    Ok(out.flush()?)
}
