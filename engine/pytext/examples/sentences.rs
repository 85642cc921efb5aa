//! Reads texts, one a line as a JSON string, and writes the list of each one's sentences as JSON.
//!
//! `ops/reference/sentences.py` gives the texts, and compares with other splitters.

use std::io::{BufRead, BufWriter, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let text: String = serde_json::from_str(&line?).map_err(|error| format!("line {}: {error}", number + 1))?;
        let sentences: Vec<&str> = hopeval_pytext::sentences(&text).collect();
        writeln!(out, "{}", serde_json::to_string(&sentences)?)?;
    }
    out.flush()?;
    Ok(())
}
