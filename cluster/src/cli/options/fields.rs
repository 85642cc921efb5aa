//! `--field NAME=PATH`: the names of hopeval's fields in files of one's own.

/// The two sides of `NAME=PATH`.
pub(crate) fn field_pair(text: &str) -> Result<(String, String), String> {
    let (name, path) = text.split_once('=').ok_or("allowed: NAME=PATH, such as question=query")?;
    Ok((name.trim().to_owned(), path.trim().to_owned()))
}
