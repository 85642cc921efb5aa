//! Columns from values: texts, numbers and lists.

use arrow::array::{ArrayRef, BooleanBuilder, Int8Array, Int32Array, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field};
use std::sync::Arc;

/// The type of a list of values.
pub(super) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

pub(super) fn texts<'v, T: AsRef<str> + 'v>(values: &mut dyn Iterator<Item = &'v T>) -> ArrayRef {
    Arc::new(values.map(|value| Some(value.as_ref())).collect::<StringArray>())
}

pub(super) fn numbers(values: &mut dyn Iterator<Item = &i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values.copied()))
}

pub(super) fn grades(values: &mut dyn Iterator<Item = &i8>) -> ArrayRef {
    Arc::new(Int8Array::from_iter_values(values.copied()))
}

pub(super) fn text_lists(values: &mut dyn Iterator<Item = &Vec<String>>) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for list in values {
        list.iter().for_each(|text| lists.values().append_value(text));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

pub(super) fn flag_lists(values: &mut dyn Iterator<Item = &Vec<bool>>) -> ArrayRef {
    let mut lists = ListBuilder::new(BooleanBuilder::new());
    for list in values {
        lists.values().append_slice(list);
        lists.append(true);
    }
    Arc::new(lists.finish())
}
