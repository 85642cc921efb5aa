//! Folds titles the way wiki links are written: case, underscores and runs of spaces do not matter.

use hopeval_pytext::{is_space, lower_into};

/// A title in the form for comparing hyperlinks: lower case, underscores as spaces, single spaces, trimmed.
pub fn fold_title(title: &str) -> String {
    let mut spaced = String::with_capacity(title.len());
    for word in title.split(|c| c == '_' || is_space(c)).filter(|word| !word.is_empty()) {
        if !spaced.is_empty() {
            spaced.push(' ');
        }
        spaced.push_str(word);
    }
    let mut folded = String::with_capacity(spaced.len());
    lower_into(&spaced, &mut folded);
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_what_wiki_links_leave_open() {
        assert_eq!(fold_title("__New_York  City "), "new york city");
        assert_eq!(fold_title("ÉTÉ\u{a0}(film)"), "été (film)");
        assert_eq!(fold_title("_"), "");
    }
}
