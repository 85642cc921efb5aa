//! `lm tokenize`: token ids of texts, and the tokens of ids.

use super::lines::{LineArguments, exit_code};
use anyhow::Result;
use hopeval_lm::lines;
use std::io::BufWriter;

pub(super) fn tokenize(arguments: &LineArguments) -> Result<u8> {
    let tokenizer = arguments.model.open_tokenizer()?;
    exit_code(lines::tokenize(&tokenizer, arguments.open()?, BufWriter::new(std::io::stdout())))
}
