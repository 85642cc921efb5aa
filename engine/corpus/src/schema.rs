//! The Arrow schemas of a corpus's files, with a description of each field in its metadata.

use std::{collections::HashMap, sync::Arc};

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};

/// Maximum number of rows in a record batch: 32-bit offsets then suffice for fields of up to [`MAX_FIELD`].
pub(crate) const MAX_BATCH_ROWS: u32 = 1 << 15;
/// Maximum number of bytes of an id or a title, and of sentences in a passage.
pub(crate) const MAX_FIELD: usize = u16::MAX as usize;
/// Maximum number of passages: one bit of a passage's number is left for the mention tables.
pub(crate) const MAX_PASSAGES: u32 = i32::MAX as u32;

pub(crate) const PASSAGES_FILE: &str = "passages.arrow";
pub(crate) const ALIASES_FILE: &str = "aliases.arrow";
pub(crate) const LINKS_FILE: &str = "links.arrow";
pub(crate) const BACKLINKS_FILE: &str = "backlinks.arrow";

fn described_field(name: &str, data_type: DataType, meaning: &str) -> Field {
    Field::new(name, data_type, false).with_metadata(HashMap::from([("description".to_owned(), meaning.to_owned())]))
}

fn schema(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}

/// An element of a list column; it is never null.
pub(crate) fn list_item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type, false))
}

/// `passages.arrow`: a row for each passage.
pub(crate) fn passages() -> SchemaRef {
    schema(vec![
        described_field("id", DataType::Utf8, "external id"),
        described_field("title", DataType::Utf8, "title, empty where the source has none"),
        described_field("text", DataType::LargeUtf8, "text"),
        described_field(
            "sentences",
            DataType::List(list_item(DataType::UInt32)),
            "byte offset in the text of each sentence's end; empty: not known",
        ),
    ])
}

/// `aliases.arrow`: a row for each id of a dropped duplicate.
pub(crate) fn aliases() -> SchemaRef {
    schema(vec![
        described_field("id", DataType::Utf8, "external id of a dropped duplicate"),
        described_field("passage", DataType::UInt32, "the passage that was kept"),
    ])
}

/// The parts of a link.
pub(crate) fn link_fields() -> Fields {
    Fields::from(vec![
        described_field("target", DataType::UInt32, "the passage linked to"),
        described_field("start", DataType::UInt32, "byte offset in the text where the anchor starts"),
        described_field("end", DataType::UInt32, "byte offset in the text where the anchor ends"),
    ])
}

/// `links.arrow`: a row for each passage.
pub(crate) fn links() -> SchemaRef {
    let link = list_item(DataType::Struct(link_fields()));
    schema(vec![described_field("links", DataType::LargeList(link), "outgoing links in the order of their anchors")])
}

/// `backlinks.arrow`: a row for each passage.
pub(crate) fn backlinks() -> SchemaRef {
    let source = list_item(DataType::UInt32);
    schema(vec![described_field("sources", DataType::LargeList(source), "passages that link to this one, ascending")])
}

/// The same layout with strings as bytes.
///
/// Arrow checks all UTF-8 of a batch when it decodes it, which reads all of a large corpus from disk. With bytes it
/// checks only the offsets; a string is checked on access.
pub(crate) fn with_binary_strings(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| {
            let data_type = match field.data_type() {
                DataType::Utf8 => DataType::Binary,
                DataType::LargeUtf8 => DataType::LargeBinary,
                other => other.clone(),
            };
            field.as_ref().clone().with_data_type(data_type)
        })
        .collect();
    Arc::new(Schema::new(fields))
}
