//! The documentation of all tables, generated from their schemas.

use super::cell::DESCRIPTION;
use super::{
    ConfigurationRow, CostRow, ErrorRow, FinalOutcomeRow, LatencyRow, MeasureRow, OutcomeRow, PassageRow, QuestionRow,
    RequestRow, Row, RunRow, SCHEMA_VERSION, ScoreRow, TraceRow,
};
use arrow::datatypes::{DataType, Field};
use std::fmt::Write;

/// The text before the tables. Its code blocks run unchanged in the folder of a store with one finished run.
const OPENING: &str = include_str!("opening.md");

/// The documentation of all tables, as Markdown.
pub fn schema_markdown() -> String {
    let mut out = OPENING.replace("{version}", &SCHEMA_VERSION.to_string());
    write_table_section::<RunRow>(&mut out);
    write_table_section::<ConfigurationRow>(&mut out);
    write_table_section::<QuestionRow>(&mut out);
    write_table_section::<FinalOutcomeRow>(&mut out);
    write_table_section::<TraceRow>(&mut out);
    write_table_section::<ScoreRow>(&mut out);
    write_table_section::<MeasureRow>(&mut out);
    write_table_section::<CostRow>(&mut out);
    write_table_section::<LatencyRow>(&mut out);
    write_table_section::<PassageRow>(&mut out);
    write_table_section::<RequestRow>(&mut out);
    write_table_section::<ErrorRow>(&mut out);
    write_table_section::<OutcomeRow>(&mut out);
    out
}

fn write_table_section<R: Row>(out: &mut String) {
    let info = R::TABLE;
    // Writing to a string does not fail.
    let _ = writeln!(out, "\n## `{}`\n\n{}\n\n`{}`\n", info.name, markdown_words(info.description), info.place);
    out.push_str("| column | type | null | meaning |\n| --- | --- | --- | --- |\n");
    for field in R::schema().fields() {
        write_column_line(out, "", field);
    }
}

fn write_column_line(out: &mut String, parent: &str, field: &Field) {
    let name = format!("{parent}{}", field.name());
    let null = if field.is_nullable() { "yes" } else { "" };
    let about = field.metadata().get(DESCRIPTION).map(|about| markdown_words(about)).unwrap_or_default();
    let _ = writeln!(out, "| `{name}` | {} | {null} | {about} |", type_name(field.data_type()));
    let (inner, mark) = match field.data_type() {
        DataType::List(item) => (item.data_type(), "[]."),
        other => (other, "."),
    };
    if let DataType::Struct(fields) = inner {
        for inner in fields {
            write_column_line(out, &format!("{name}{mark}"), inner);
        }
    }
}

fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::UInt32 => "u32".to_owned(),
        DataType::UInt64 => "u64".to_owned(),
        DataType::Float64 => "f64".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Utf8 => "text".to_owned(),
        DataType::List(item) => format!("list of {}", type_name(item.data_type())),
        DataType::Struct(_) => "struct".to_owned(),
        other => other.to_string(),
    }
}

fn markdown_words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
