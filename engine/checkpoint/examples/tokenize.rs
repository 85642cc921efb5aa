//! Imports the tokenizer of a folder and encodes JSON Lines with it; `ops/lm/compare-tokenizers.py` compares the
//! output.
//!
//! `tokenize DIR OUT [transformers-5] < texts.jsonl > ids.jsonl`: each line is `{"text"}`, `{"text","text_pair"}` or
//! `{"words"}` (a list, each word encoded alone and without special tokens). Each answer is `{"ids","type_ids"}`.

use hopeval_checkpoint::import::tokenizer::{self, SentencePieceRules};
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::path::Path;
use tokenizers::Tokenizer;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().collect();
    let (dir, out, rules) = match &arguments[..] {
        [_, dir, out] => (dir, out, SentencePieceRules::Model),
        [_, dir, out, rules] if rules == "transformers-5" => (dir, out, SentencePieceRules::Transformers5),
        _ => return Err("usage: tokenize DIR OUT [transformers-5] < texts.jsonl".into()),
    };
    let (dir, out) = (Path::new(dir), Path::new(out));
    std::fs::create_dir_all(out)?;
    let config = serde_json::from_slice(&std::fs::read(dir.join("config.json"))?)?;
    tokenizer::import_tokenizer(dir, out, &config, rules, &mut Vec::new())?.ok_or("nothing to import")?;
    let tokenizer = Tokenizer::from_file(out.join("tokenizer.json"))?;
    let mut answers = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let text = |field: &str| asked[field].as_str().unwrap_or_default();
        let mut ids = Vec::new();
        let mut type_ids = Vec::new();
        if let Some(words) = asked["words"].as_array() {
            for word in words {
                ids.extend_from_slice(tokenizer.encode(word.as_str().unwrap_or_default(), false)?.get_ids());
            }
        } else {
            let encoding = match asked["text_pair"].as_str() {
                Some(pair) => tokenizer.encode((text("text"), pair), true)?,
                None => tokenizer.encode(text("text"), true)?,
            };
            ids = encoding.get_ids().to_vec();
            type_ids = encoding.get_type_ids().to_vec();
        }
        writeln!(answers, "{}", json!({"ids": ids, "type_ids": type_ids}))?;
    }
    answers.flush()?;
    Ok(())
}
