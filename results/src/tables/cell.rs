//! Conversion between Rust values and columns.
//!
//! A nested value is a nested column: `Vec` is a list, a struct or a tuple is a struct, `Option` is null or not.

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, ListArray, StringArray, StructArray, UInt32Array, UInt64Array,
    new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use std::collections::HashMap;
use std::sync::Arc;

/// The name of a field's description in its metadata.
pub(crate) const DESCRIPTION: &str = "description";

/// A value of a column.
pub(crate) trait Cell: Sized {
    /// True if the value may be null.
    const NULLABLE: bool = false;

    /// The column's type.
    fn data_type() -> DataType;

    /// A column of values. `None` is null, and allowed only with [`Cell::NULLABLE`] or inside a null struct or list.
    fn array(cells: &[Option<&Self>]) -> ArrayRef;

    /// The values of a column, or `None` if the column has another type.
    fn read(array: &dyn Array) -> Option<Vec<Option<Self>>>;
}

/// A field with its description.
pub(crate) fn described<T: Cell>(name: &str, description: &str) -> Field {
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let metadata = HashMap::from([(DESCRIPTION.to_owned(), description)]);
    Field::new(name, T::data_type(), T::NULLABLE).with_metadata(metadata)
}

macro_rules! plain_cell {
    ($type:ty, $array:ty, $data_type:expr, $of:expr) => {
        impl Cell for $type {
            fn data_type() -> DataType {
                $data_type
            }

            fn array(cells: &[Option<&Self>]) -> ArrayRef {
                Arc::new(cells.iter().map(|cell| cell.map($of)).collect::<$array>())
            }

            fn read(array: &dyn Array) -> Option<Vec<Option<Self>>> {
                let array = array.as_any().downcast_ref::<$array>()?;
                Some(array.iter().map(|cell| cell.map(Into::into)).collect())
            }
        }
    };
}

plain_cell!(u32, UInt32Array, DataType::UInt32, |cell| *cell);
plain_cell!(u64, UInt64Array, DataType::UInt64, |cell| *cell);
plain_cell!(f64, Float64Array, DataType::Float64, |cell| *cell);
plain_cell!(bool, BooleanArray, DataType::Boolean, |cell| *cell);
plain_cell!(String, StringArray, DataType::Utf8, String::as_str);
plain_cell!(Arc<str>, StringArray, DataType::Utf8, AsRef::as_ref);

impl<T: Cell> Cell for Option<T> {
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        T::data_type()
    }

    fn array(cells: &[Option<&Self>]) -> ArrayRef {
        T::array(&cells.iter().map(|cell| cell.and_then(Option::as_ref)).collect::<Vec<_>>())
    }

    fn read(array: &dyn Array) -> Option<Vec<Option<Self>>> {
        Some(T::read(array)?.into_iter().map(Some).collect())
    }
}

/// The field of a list's items.
fn item_field<T: Cell>() -> Arc<Field> {
    Arc::new(Field::new("item", T::data_type(), T::NULLABLE))
}

impl<T: Cell> Cell for Vec<T> {
    fn data_type() -> DataType {
        DataType::List(item_field::<T>())
    }

    fn array(cells: &[Option<&Self>]) -> ArrayRef {
        let lengths = cells.iter().map(|cell| cell.map_or(0, Vec::len));
        let items: Vec<Option<&T>> = cells.iter().flatten().flat_map(|cell| cell.iter().map(Some)).collect();
        Arc::new(ListArray::new(
            item_field::<T>(),
            OffsetBuffer::from_lengths(lengths),
            T::array(&items),
            null_buffer(cells),
        ))
    }

    fn read(array: &dyn Array) -> Option<Vec<Option<Self>>> {
        let array = array.as_any().downcast_ref::<ListArray>()?;
        let offsets = array.value_offsets();
        let first = *offsets.first()? as usize;
        let mut items = T::read(array.values().as_ref())?.into_iter().skip(first);
        let mut lists = Vec::with_capacity(array.len());
        for (i, bounds) in offsets.windows(2).enumerate() {
            let length = usize::try_from(bounds[1] - bounds[0]).ok()?;
            let list = items.by_ref().take(length).collect::<Option<Vec<T>>>()?;
            lists.push(array.is_valid(i).then_some(list));
        }
        Some(lists)
    }
}

/// The null buffer of cells, or `None` if every cell has a value.
fn null_buffer<T>(cells: &[Option<T>]) -> Option<NullBuffer> {
    cells.iter().any(Option::is_none).then(|| cells.iter().map(Option::is_some).collect())
}

/// A struct column.
pub(crate) fn struct_array<T>(fields: Fields, columns: Vec<ArrayRef>, cells: &[Option<&T>]) -> ArrayRef {
    Arc::new(StructArray::new(fields, columns, null_buffer(cells)))
}

/// Makes a type a struct column. Takes each field's name, type, description and getter, then the constructor.
macro_rules! struct_cell {
    ($type:ty { $( $field:ident : $of:ty = $description:expr, $get:expr; )+ } => $build:expr) => {
        impl $crate::tables::cell::Cell for $type {
            fn data_type() -> arrow::datatypes::DataType {
                arrow::datatypes::DataType::Struct(<Self as $crate::tables::cell::Columns>::fields())
            }

            fn array(cells: &[Option<&Self>]) -> arrow::array::ArrayRef {
                use $crate::tables::cell::Columns;
                $crate::tables::cell::struct_array(Self::fields(), Self::columns(cells), cells)
            }

            fn read(array: &dyn arrow::array::Array) -> Option<Vec<Option<Self>>> {
                use $crate::tables::cell::Columns;
                let array = array.as_any().downcast_ref::<arrow::array::StructArray>()?;
                Self::rows(array.columns(), arrow::array::Array::len(array), arrow::array::Array::nulls(array))
            }
        }

        impl $crate::tables::cell::Columns for $type {
            fn fields() -> arrow::datatypes::Fields {
                use arrow::datatypes::Fields;
                // Each file of a table asks for them, and each struct in it.
                static FIELDS: std::sync::LazyLock<Fields> = std::sync::LazyLock::new(|| {
                    Fields::from(vec![
                        $( $crate::tables::cell::described::<$of>(stringify!($field), $description), )+
                    ])
                });
                Fields::clone(&FIELDS)
            }

            fn columns(cells: &[Option<&Self>]) -> Vec<arrow::array::ArrayRef> {
                vec![$({
                    let get: fn(&Self) -> &$of = $get;
                    <$of as $crate::tables::cell::Cell>::array(&cells.iter().map(|c| c.map(get)).collect::<Vec<_>>())
                },)+]
            }

            fn rows(
                columns: &[arrow::array::ArrayRef],
                rows: usize,
                nulls: Option<&arrow::buffer::NullBuffer>,
            ) -> Option<Vec<Option<Self>>> {
                let mut columns = columns.iter();
                $( let mut $field = $crate::tables::cell::read_column::<$of>(columns.next(), rows)?.into_iter(); )+
                let mut read = Vec::with_capacity(rows);
                for i in 0..rows {
                    $( let $field: Option<$of> = $field.next()?; )+
                    if nulls.is_some_and(|nulls| nulls.is_null(i)) {
                        read.push(None);
                    } else {
                        $( let $field: $of = $field?; )+
                        read.push(Some($build));
                    }
                }
                Some(read)
            }
        }
    };
}
pub(crate) use struct_cell;

/// The values of a column. All are null if the column is newer than the file.
pub(crate) fn read_column<T: Cell>(column: Option<&ArrayRef>, rows: usize) -> Option<Vec<Option<T>>> {
    match column {
        Some(column) => T::read(column.as_ref()),
        None if T::NULLABLE => T::read(new_null_array(&T::data_type(), rows).as_ref()),
        None => None,
    }
}

/// A value of several columns: a row, or a struct inside a row.
pub trait Columns: Sized {
    /// The columns.
    fn fields() -> Fields;

    /// The columns' values.
    fn columns(cells: &[Option<&Self>]) -> Vec<ArrayRef>;

    /// The values of `rows` rows. The last columns may be absent if they may be null. Returns `None` if a column has
    /// another type, or a null that it must not have.
    fn rows(columns: &[ArrayRef], rows: usize, nulls: Option<&NullBuffer>) -> Option<Vec<Option<Self>>>;
}

struct_cell!((u32, u32) {
    passage: u32 = "the passage, as its number in the corpus", |cell| &cell.0;
    sentence: u32 = "index of the sentence in the passage, from 0", |cell| &cell.1;
} => (passage, sentence));

struct_cell!((Vec<u32>, f64) {
    passages: Vec<u32> = "the passages, first hop first, as their numbers in the corpus", |cell| &cell.0;
    score: f64 = "the method's score, higher is better", |cell| &cell.1;
} => (passages, score));

struct_cell!((String, String) {
    name: String = "what the questions are grouped by", |cell| &cell.0;
    value: String = "the group", |cell| &cell.1;
} => (name, value));

struct_cell!([String; 3] {
    subject: String = "subject of the triple", |cell| &cell[0];
    relation: String = "relation of the triple", |cell| &cell[1];
    object: String = "object of the triple", |cell| &cell[2];
} => [subject, relation, object]);
