//! The allowed widths and numbers of vectors.

use crate::error::FieldError;

/// The most numbers of a vector.
pub(super) const WIDEST: u64 = 1 << 16;

/// Checks a number of a vector: finite, and in the range of single precision.
pub(super) fn check_number(number: f64) -> Result<f32, FieldError> {
    let single = number as f32;
    if single.is_finite() {
        return Ok(single);
    }
    let allowed = if number.is_finite() { "numbers of single precision, up to 3.4e38" } else { "finite numbers" };
    Err(FieldError::new(number_text(number), allowed))
}

fn number_text(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "infinity".to_owned() } else { "-infinity".to_owned() }
    } else {
        format!("{number:e}")
    }
}
