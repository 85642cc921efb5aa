//! A row of a table, declared once: the struct, the schema and the documentation.

use super::cell::Columns;
use arrow::datatypes::{Schema, SchemaRef};
use std::sync::Arc;

/// A table's name, place and format, without its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// The table's name, stored in every file.
    pub name: &'static str,
    /// Path of the file, below the store.
    pub place: &'static str,
    /// The description of the table.
    pub description: &'static str,
    /// Rows of a row group.
    pub row_group: usize,
}

/// A row of a table.
pub trait Row: Columns + Send + 'static {
    /// Its table.
    const TABLE: TableInfo;

    /// The schema, with descriptions.
    fn schema() -> SchemaRef {
        Arc::new(Schema::new(Self::fields()))
    }
}

/// Declares a row's struct (with `table`) or a struct inside a row (without). Doc comments become descriptions.
macro_rules! row {
    (
        table $table:literal at $place:literal with $group:literal rows in a group;
        $(#[doc = $doc:literal])+
        pub struct $name:ident { $( $(#[doc = $about:literal])+ pub $field:ident : $type:ty, )+ }
    ) => {
        $crate::tables::row::row! {
            $(#[doc = $doc])+
            pub struct $name { $( $(#[doc = $about])+ pub $field: $type, )+ }
        }

        impl $crate::tables::row::Row for $name {
            const TABLE: $crate::tables::row::TableInfo = $crate::tables::row::TableInfo {
                name: $table,
                place: $place,
                description: concat!($($doc),+),
                row_group: $group,
            };
        }
    };
    (
        $(#[doc = $doc:literal])+
        pub struct $name:ident { $( $(#[doc = $about:literal])+ pub $field:ident : $type:ty, )+ }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $name { $( $(#[doc = $about])+ pub $field: $type, )+ }

        $crate::tables::cell::struct_cell!($name {
            $( $field: $type = concat!($($about),+), |row| &row.$field; )+
        } => $name { $($field),+ });
    };
}
pub(crate) use row;
