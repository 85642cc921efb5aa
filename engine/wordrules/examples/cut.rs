//! Reads texts, one a line as a JSON string, and writes the list of each one's words as JSON.
//!
//! The argument is the file of the rules. `ops/reference/words.py` makes the file and the texts, and compares. The time
//! goes to the standard error: opening the rules, and cutting without reading and writing.

use hopeval_wordrules::WordRules;
use std::io::{BufRead, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("the argument is the file of the rules")?;
    let begun = Instant::now();
    let rules = WordRules::open(Path::new(&path))?;
    let opened = begun.elapsed();
    let (mut cutting, mut words) = (Duration::ZERO, 0);
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let text: String = serde_json::from_str(&line?).map_err(|error| format!("line {}: {error}", number + 1))?;
        let begun = Instant::now();
        let found = rules.words(&text).map_err(|error| format!("line {}: {error}", number + 1))?;
        cutting += begun.elapsed();
        words += found.len();
        writeln!(out, "{}", serde_json::to_string(&found)?)?;
    }
    out.flush()?;
    let figures = serde_json::json!({
        "open_s": opened.as_secs_f64(), "cut_s": cutting.as_secs_f64(), "words": words, "digest": rules.digest(),
    });
    writeln!(std::io::stderr(), "{figures}")?;
    Ok(())
}
