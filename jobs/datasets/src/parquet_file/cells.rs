//! Cells of Arrow arrays as the values that formats read.
//!
//! Texts are borrowed. Types without a JSON form become [`JsonValue::Opaque`], which only a reader of that field
//! refuses: a file may have columns of them that nobody reads.

use std::borrow::Cow;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use serde_json::Number;

use crate::value::{FieldList, JsonValue};

/// Row `at` of a batch as an object.
pub(super) fn read_row(batch: &RecordBatch, at: usize) -> JsonValue<'_> {
    let fields = batch.schema_ref().fields().iter().zip(batch.columns());
    let entries = fields.map(|(field, column)| (Cow::Borrowed(field.name().as_str()), read_cell(column.as_ref(), at)));
    JsonValue::Object(FieldList::new(entries.collect()))
}

fn read_cell(array: &dyn Array, at: usize) -> JsonValue<'_> {
    if array.is_null(at) {
        return JsonValue::Null;
    }
    match array.data_type() {
        DataType::Null => JsonValue::Null,
        DataType::Boolean => JsonValue::Bool(array.as_boolean().value(at)),
        DataType::Int8 => JsonValue::Number(array.as_primitive::<Int8Type>().value(at).into()),
        DataType::Int16 => JsonValue::Number(array.as_primitive::<Int16Type>().value(at).into()),
        DataType::Int32 => JsonValue::Number(array.as_primitive::<Int32Type>().value(at).into()),
        DataType::Int64 => JsonValue::Number(array.as_primitive::<Int64Type>().value(at).into()),
        DataType::UInt8 => JsonValue::Number(array.as_primitive::<UInt8Type>().value(at).into()),
        DataType::UInt16 => JsonValue::Number(array.as_primitive::<UInt16Type>().value(at).into()),
        DataType::UInt32 => JsonValue::Number(array.as_primitive::<UInt32Type>().value(at).into()),
        DataType::UInt64 => JsonValue::Number(array.as_primitive::<UInt64Type>().value(at).into()),
        DataType::Float16 => number(array.as_primitive::<Float16Type>().value(at).into()),
        DataType::Float32 => number(array.as_primitive::<Float32Type>().value(at).into()),
        DataType::Float64 => number(array.as_primitive::<Float64Type>().value(at)),
        DataType::Utf8 => text(array.as_string::<i32>().value(at)),
        DataType::LargeUtf8 => text(array.as_string::<i64>().value(at)),
        DataType::Utf8View => text(array.as_string_view().value(at)),
        // Some writers do not say that their bytes are text.
        DataType::Binary => bytes(array.as_binary::<i32>().value(at)),
        DataType::LargeBinary => bytes(array.as_binary::<i64>().value(at)),
        DataType::BinaryView => bytes(array.as_binary_view().value(at)),
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(at)),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let offsets = lists.value_offsets();
            list(lists.values().as_ref(), offsets[at] as usize, offsets[at + 1] as usize)
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            let offsets = lists.value_offsets();
            list(lists.values().as_ref(), offsets[at] as usize, offsets[at + 1] as usize)
        }
        DataType::FixedSizeList(_, size) => {
            let start = at * *size as usize;
            list(array.as_fixed_size_list().values().as_ref(), start, start + *size as usize)
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let entries =
                columns.map(|(field, column)| (Cow::Borrowed(field.name().as_str()), read_cell(column.as_ref(), at)));
            JsonValue::Object(FieldList::new(entries.collect()))
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            let offsets = maps.value_offsets();
            let (keys, values) = (maps.keys().as_ref(), maps.values().as_ref());
            let entry = |at| match read_cell(keys, at) {
                JsonValue::String(key) => (key, read_cell(values, at)),
                key => (Cow::Owned(key.note_text()), read_cell(values, at)),
            };
            let entries = (offsets[at] as usize..offsets[at + 1] as usize).map(entry);
            JsonValue::Object(FieldList::new(entries.collect()))
        }
        DataType::Date32 | DataType::Date64 => JsonValue::Opaque("a date"),
        DataType::Timestamp(..) => JsonValue::Opaque("a point in time"),
        DataType::Time32(_) | DataType::Time64(_) => JsonValue::Opaque("a time of day"),
        DataType::Decimal128(..) | DataType::Decimal256(..) => JsonValue::Opaque("a decimal number"),
        _ => JsonValue::Opaque("a value of a type that is not read"),
    }
}

fn list(items: &dyn Array, start: usize, end: usize) -> JsonValue<'_> {
    JsonValue::List((start..end).map(|at| read_cell(items, at)).collect())
}

fn text(text: &str) -> JsonValue<'_> {
    JsonValue::String(Cow::Borrowed(text))
}

fn bytes(bytes: &[u8]) -> JsonValue<'_> {
    std::str::from_utf8(bytes).map_or(JsonValue::Opaque("bytes that are not UTF-8"), text)
}

fn number(value: f64) -> JsonValue<'static> {
    Number::from_f64(value).map_or(JsonValue::Opaque("a number that is not finite"), JsonValue::Number)
}
