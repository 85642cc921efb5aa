//! The words that stand for values.

use crate::repair::Repair;
use serde_json::Value;

/// The literals: their words, and their value with the repair.
pub(crate) const LITERALS: &[(&str, Literal, Option<Repair>)] = &[
    ("true", Literal::True, None),
    ("false", Literal::False, None),
    ("null", Literal::Null, None),
    ("True", Literal::True, Some(Repair::Literal)),
    ("False", Literal::False, Some(Repair::Literal)),
    ("None", Literal::Null, Some(Repair::Literal)),
    ("TRUE", Literal::True, Some(Repair::Literal)),
    ("FALSE", Literal::False, Some(Repair::Literal)),
    ("NULL", Literal::Null, Some(Repair::Literal)),
    ("Null", Literal::Null, Some(Repair::Literal)),
    ("undefined", Literal::Null, Some(Repair::Literal)),
    ("NaN", Literal::Null, Some(Repair::NotFinite)),
    ("nan", Literal::Null, Some(Repair::NotFinite)),
    ("Infinity", Literal::Null, Some(Repair::NotFinite)),
    ("-Infinity", Literal::Null, Some(Repair::NotFinite)),
    ("inf", Literal::Null, Some(Repair::NotFinite)),
    ("-inf", Literal::Null, Some(Repair::NotFinite)),
];

/// The value of a literal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Literal {
    True,
    False,
    Null,
}

impl From<Literal> for Value {
    fn from(literal: Literal) -> Self {
        match literal {
            Literal::True => Value::Bool(true),
            Literal::False => Value::Bool(false),
            Literal::Null => Value::Null,
        }
    }
}

/// Whether the word is a literal.
pub(crate) fn is_literal(word: &str) -> bool {
    LITERALS.iter().any(|(literal, _, _)| *literal == word)
}
