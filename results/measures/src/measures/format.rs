//! `format`: whether to give the share of outcomes whose texts kept to the form that their prompts ask for.
//!
//! FSM (arXiv 2407.02964), section 3.1: "format", the accuracy of the output format. It is defined for methods with
//! such a form, also for outcomes that failed: these did not keep to it. Nor did texts that were read after repairs.

use super::MeasureKey;
use crate::answer::Profile;
use crate::registry::Column;

pub(crate) struct Format;

impl MeasureKey for Format {
    type Value = bool;

    fn build_columns(_: &bool, _: Profile) -> Vec<Column> {
        let value = |kept: bool| f64::from(u8::from(kept));
        vec![Column::new("format".to_owned(), "1", move |input| Some(value(input.outcome.kept_form?)))]
    }
}
